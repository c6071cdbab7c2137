/* lastdim: permutes one dimension. */
#include "ops/lastdim.h"

#include <string.h>

/* A view of x whose dimension `from` stands at `to`. */
static ol_status move(ol_error *error, ol_tensor *x, int from, int to, ol_tensor **out) {
  ol_shape shape = x->shape;
  int64_t stride[OL_MAX_DIMS];
  memcpy(stride, x->stride, sizeof stride);
  int step = from < to ? 1 : -1;
  for (int d = from; d != to; d += step) {
    shape.size[d] = x->shape.size[d + step];
    stride[d] = x->stride[d + step];
  }
  shape.size[to] = x->shape.size[from];
  stride[to] = x->stride[from];
  return ol_tensor_view(error, x, &shape, stride, x->offset, out);
}

ol_status ol_move_last(ol_error *error, ol_tensor *x, int dim, ol_tensor **out) {
  int last = x->shape.ndim - 1;
  ol_tensor *view;
  const ol_shape one = { .ndim = 1, .size = { 1 } };
  if (dim == last) return ol_tensor_contiguous(error, x, out);
  if (last < 0)
    OL_TRY(ol_tensor_view(error, x, &one, one.size, x->offset, &view));
  else
    OL_TRY(move(error, x, dim, last, &view));
  ol_status status = ol_tensor_contiguous(error, view, out);
  ol_release(view);
  return status;
}

ol_status ol_move_back(ol_error *error, ol_tensor *rows, int dim, int ndim, ol_tensor **out) {
  const ol_shape scalar = { .ndim = 0 };
  if (ndim == 0) return ol_tensor_view(error, rows, &scalar, scalar.size, rows->offset, out);
  if (dim != ndim - 1) return move(error, rows, ndim - 1, dim, out);
  *out = ol_retain(rows);
  return OL_OK;
}
