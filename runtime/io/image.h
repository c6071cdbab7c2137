/* image: pictures in files as tensors of bytes. */
#ifndef OL_IO_IMAGE_H
#define OL_IO_IMAGE_H

#include "tensor/tensor.h"

/* What a decoder gives: rows of pixels, whose channels stand together. */
typedef struct ol_pixels {
  uint8_t *data; /* (height, width, channels); released with ol_free */
  size_t width, height;
  size_t channels; /* 1: grey, 2: grey and alpha, 3: RGB, 4: RGB and alpha */
} ol_pixels;

typedef enum ol_image_mode {
  OL_IMAGE_UNCHANGED, /* the channels that the file has */
  OL_IMAGE_RGB,       /* 3; alpha is left out */
  OL_IMAGE_GRAY       /* 1: (19595 R + 38470 G + 7471 B) / 65536 (ITU-R 601-2), rounded */
} ol_image_mode;

/* Fails (OL_FILE) for a size that a file claims of more than max_pixels. */
ol_status ol_pixels_check(ol_error *error, uint64_t width, uint64_t height, int64_t max_pixels);

/* Takes memory for pixels of a size that a file claims, checked. */
ol_status ol_pixels_new(ol_error *error, uint64_t width, uint64_t height, size_t channels,
                        int64_t max_pixels, ol_pixels *out);

/* Reads a PNG or JPEG file, told apart by their first bytes, into a uint8 tensor (C, H, W). Errors
 * name the path. */
ol_status ol_image_read(ol_error *error, const char *path, ol_image_mode mode, int64_t max_pixels,
                        ol_tensor **out);

#endif
