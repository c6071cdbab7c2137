/* reduce: sums and their backward, for other families. Nothing here records. */
#ifndef OL_OPS_REDUCE_H
#define OL_OPS_REDUCE_H

#include "ops/fold.h"

/* The sum over dims (all when empty). Fractions keep their dtype, integers give int64. */
ol_status ol_sum(ol_error *error, ol_tensor *x, const ol_shape *dims, bool keep, ol_tensor **out);

/* The same into target, contiguous, of the sum's shape (dims not kept) and of x's dtype, float32 or
 * float64. */
ol_status ol_sum_into(ol_error *error, ol_tensor *x, const ol_shape *dims, ol_tensor *target);

/* A view of a result of a reduction of a tensor of shape over dims: broadcasts to shape. */
ol_status ol_unreduce(ol_error *error, const char *op, ol_tensor *result, const ol_shape *shape,
                      const ol_shape *dims, ol_tensor **out);

/* Folds x over dims, lets finish (may be NULL) work on the totals, and makes a tensor of dtype. */
typedef void ol_finish_fn(const ol_folding *folding, ol_totals *totals);
ol_status ol_reduce(ol_error *error, const char *op, const ol_folds *folds, ol_finish_fn *finish,
                    ol_tensor *x, const ol_shape *dims, bool keep, ol_dtype dtype, ol_tensor **out);

/* Fails, naming op, where dtype is bfloat16, or, with floats_only, an integer. */
ol_status ol_reduce_check(ol_error *error, const char *op, ol_dtype dtype, bool floats_only);

#endif
