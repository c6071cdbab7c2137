/* softmax: exponentials of rows, for softmax, cross-entropy and their kind. */
#ifndef OL_OPS_SOFTMAX_H
#define OL_OPS_SOFTMAX_H

#include "tensor/tensor.h"

/* Rows that ol_exp_rows should get at once, at most OL_EXP_ROWS: few enough for the cache. */
#define OL_EXP_ROWS 64
static inline int64_t ol_exp_rows_at_once(int64_t length) {
  int64_t rows = 2048 / (length + 1);
  return rows < 1 ? 1 : rows > OL_EXP_ROWS ? OL_EXP_ROWS : rows;
}

/* For each row of x (rows, length): max[r] the greatest element (a row of nothing: -inf), e =
 * exp(x - max), sum[r] the sum of e. x and e are float32 or float64, dense; e may be x. A row that
 * holds NaN or +inf gives NaN, one of nothing but -inf zeros. */
void ol_exp_rows(ol_dtype dtype, int64_t rows, int64_t length, const void *x, void *e, double *max,
                 double *sum);

#endif
