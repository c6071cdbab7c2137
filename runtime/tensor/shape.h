/* shape: sizes, broadcasting, dimensions and positions, checked.
 *
 * In C, dimensions and positions count from 0, and negative ones from the end. Messages count from
 * 1, because that is what scripts type. */
#ifndef OL_TENSOR_SHAPE_H
#define OL_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define OL_MAX_DIMS 8

/* A short list of integers: a shape, strides, dimensions. */
typedef struct ol_shape {
  int ndim;
  int64_t size[OL_MAX_DIMS];
} ol_shape;

#define OL_SHAPE_TEXT 200 /* bytes that ol_shape_text needs */

/* Writes "(2, 3)", "()" into text, of OL_SHAPE_TEXT bytes, and returns text. */
char *ol_shape_text(const ol_shape *shape, char *text);

static inline bool ol_shape_equal(const ol_shape *a, const ol_shape *b) {
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] != b->size[d]) return false;
  return true;
}

/* Counts elements. Fails (OL_SHAPE) for negative sizes, and when the bytes, at element_size each,
 * do not fit into 63 bits even with sizes of 0 left out. */
ol_status ol_shape_count(ol_error *error, const ol_shape *shape, size_t element_size, int64_t *out);

/* The product of the sizes of a shape that is known to be valid. */
int64_t ol_shape_numel(const ol_shape *shape);

/* The shape that a and b broadcast to (sizes equal, or 1, aligned at the end). */
ol_status ol_shape_broadcast(ol_error *error, const char *op, const ol_shape *a, const ol_shape *b,
                             ol_shape *out);

/* Makes dimension `dim` (may be negative) 0 … ndim-1. With ndim 0, 0 and -1 are allowed. */
ol_status ol_shape_dim(ol_error *error, const char *op, int64_t dim, int ndim, int *out);

/* Makes position `index` (may be negative) 0 … size-1. */
ol_status ol_shape_index(ol_error *error, const char *op, int64_t index, int64_t size,
                         int64_t *out);

/* Marks dimensions: mask[d] for each d in dims; every dimension when dims is empty. Repeated
 * dimensions fail. */
ol_status ol_shape_mask(ol_error *error, const char *op, const ol_shape *dims, int ndim,
                        bool mask[OL_MAX_DIMS]);

/* A shape without the masked dimensions, or with size 1 there when keep. */
ol_shape ol_shape_reduce(const ol_shape *shape, const bool mask[OL_MAX_DIMS], bool keep);

/* Fills in the row-major strides, in elements, of each dimension. */
void ol_shape_strides(const ol_shape *shape, int64_t *stride);

#endif
