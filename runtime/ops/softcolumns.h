/* softcolumns: softmax along a dimension that is not the last, without moving it there. */
#ifndef OL_OPS_SOFTCOLUMNS_H
#define OL_OPS_SOFTCOLUMNS_H

#include "tensor/tensor.h"

/* Dense tensors seen as (outer, count, inner), softmax along count; or log_softmax. */
typedef struct ol_softcolumns {
  ol_dtype dtype; /* float32 or float64 */
  bool logs;
  int64_t outer, count, inner;
} ol_softcolumns;

/* y = softmax(x). Rows that hold nothing but -inf, or +inf or NaN, give NaN. */
void ol_softcolumns_run(const ol_softcolumns *shape, const void *x, void *y);

/* dx = the gradient, from the result y and its gradient g. */
void ol_softcolumns_slope(const ol_softcolumns *shape, const void *y, const void *g, void *dx);

#endif
