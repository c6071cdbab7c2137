/* jpeg: JPEG images, through libjpeg-turbo. */
#ifndef OL_IO_JPEG_H
#define OL_IO_JPEG_H

#include "io/image.h"

/* Decodes a file in memory: grey or RGB (of CMYK too). What libjpeg only warns of, data that is
 * corrupt or missing, fails. EXIF's orientation is not applied. */
ol_status ol_jpeg_decode(ol_error *error, const uint8_t *bytes, size_t size, int64_t max_pixels,
                         ol_pixels *out);

#endif
