/* lastdim: a dimension moved to the end, where rows are dense, and back. */
#ifndef OL_OPS_LASTDIM_H
#define OL_OPS_LASTDIM_H

#include "tensor/tensor.h"

/* x with dimension dim last, contiguous: x itself, with a reference more, or a copy. A tensor
 * without dimensions becomes (1). */
ol_status ol_move_last(ol_error *error, ol_tensor *x, int dim, ol_tensor **out);

/* A view of the rows that ol_move_last and a row by row function made, with the dimension back in
 * its place; ndim is that of the original. */
ol_status ol_move_back(ol_error *error, ol_tensor *rows, int dim, int ndim, ol_tensor **out);

/* The number of rows of a result of ol_move_last, and the length of each. */
static inline int64_t ol_row_length(const ol_tensor *rows) {
  return rows->shape.size[rows->shape.ndim - 1];
}
static inline int64_t ol_row_count(const ol_tensor *rows) {
  return rows->numel ? rows->numel / ol_row_length(rows) : 0;
}

#endif
