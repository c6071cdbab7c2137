/* png: PNG images, through libpng. */
#ifndef OL_IO_PNG_H
#define OL_IO_PNG_H

#include "io/image.h"

/* Decodes a file in memory. Palettes become RGB, a transparent colour becomes alpha, 16 bits are
 * scaled to 8, fewer to 8. No gamma is applied. */
ol_status ol_png_decode(ol_error *error, const uint8_t *bytes, size_t size, int64_t max_pixels,
                        ol_pixels *out);

/* Writes a uint8 tensor (H, W) or (C, H, W) of 1 to 4 channels, whole or not at all. */
ol_status ol_png_write(ol_error *error, const char *path, ol_tensor *image);

#endif
