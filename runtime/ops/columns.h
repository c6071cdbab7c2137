/* columns: images as matrices whose columns are windows (im2col), and back (col2im).
 *
 * The matrix has a row for each channel and tap, (channel, ky, kx), and a column for each window,
 * (image, y, x). It is never made whole, but in tiles. */
#ifndef OL_OPS_COLUMNS_H
#define OL_OPS_COLUMNS_H

#include "ops/window.h"

/* Some columns: windows [first, first + count) of each of some images. */
typedef struct ol_tile {
  int64_t image, images;
  int64_t first, count;
} ol_tile;

/* Where tiles lie: either `pieces` of each image, or whole images, `images` of them to a tile. */
typedef struct ol_tiling {
  int64_t windows;       /* of an image */
  int64_t total;         /* images in all */
  int64_t images;        /* of a tile */
  int64_t pieces, piece; /* of an image; windows of a piece */
  int64_t tiles;
} ol_tiling;

/* Cuts so that `rows` elements of each column of a tile stay within a few MiB. With `apart`, no
 * tile has more than one image. Depends on shapes alone. */
ol_tiling ol_tiling_make(const ol_windows *planes, ol_dtype dtype, int64_t rows, bool apart);

ol_tile ol_tiling_at(const ol_tiling *tiling, int64_t tile);

/* The columns of the largest tile. */
int64_t ol_tiling_columns(const ol_tiling *tiling);

/* Writes rows [row, row + rows) of a tile's columns, dense, from images; x is the address of the
 * first channel that counts in image 0. */
void ol_columns_take(const ol_windows *planes, ol_dtype dtype, const ol_tile *tile, int64_t row,
                     int64_t rows, const void *x, void *columns);

/* Adds such columns to the places of the images that they were taken from. */
void ol_columns_add(const ol_windows *planes, ol_dtype dtype, const ol_tile *tile, int64_t row,
                    int64_t rows, const void *columns, void *x);

#endif
