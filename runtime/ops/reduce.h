/* reduce: sums and their backward, for other families. Nothing here records. */
#ifndef OL_OPS_REDUCE_H
#define OL_OPS_REDUCE_H

#include "autograd/op.h"
#include "ops/fold.h"

/* The dimensions of an optional argument: none given is an empty list, which means all. */
static inline const ol_shape *ol_dims(const ol_value *arg) {
  static const ol_shape every = { .ndim = 0 };
  return arg->given ? &arg->list : &every;
}

/* The parameters `dim` and `keepdim` of reductions. */
#define OL_DIM_PARAMS                                                                              \
  { "dim", OL_DIMS, true, .doc = "dimensions to reduce; default: all" }, OL_KEEPDIM_PARAM
#define OL_KEEPDIM_PARAM { "keepdim", OL_FLAG, true, .doc = "keep them with size 1" }

/* Samples of a reduction of any numbers over any dimensions; f makes them. */
#define OL_DIM_SAMPLES(f)                                                                          \
  "{ { " f "(3, 4) }, { " f "(3, 4), 1 }, { " f "(3, 4), 2, { keepdim = true } }, "                \
  "{ " f "(2, 3, 4, 2), { 2, 3 } }, { " f "(2, 3, 4), { 1, -1 } }, "                               \
  "{ " f "(2, 3, 4), { 1, 3 }, { keepdim = true } }, { " f "() }, { " f "(4, 3):t(), 1 }, "        \
  "{ " f "(3, 6):narrow(2, 2, 3) }, { " f "(0, 3), 2 } }"

/* Fails, naming op, where dtype is bfloat16, or, with floats_only, an integer. */
ol_status ol_reduce_check(ol_error *error, const char *op, ol_dtype dtype, bool floats_only);

/* Folds x over dims into a new tensor of dtype; see ol_fold_tensor. Fails where folds is not
 * defined for x's dtype. */
ol_status ol_reduce(ol_error *error, const char *op, const ol_folds *folds, ol_finish_fn *finish,
                    ol_tensor *x, const ol_shape *dims, bool keep, ol_dtype dtype, ol_tensor **out);

/* A view of a result of a reduction of a tensor of shape over dims: it has that shape. */
ol_status ol_unreduce(ol_error *error, const char *op, ol_tensor *result, const ol_shape *shape,
                      const ol_shape *dims, ol_tensor **out);

/* The sum over dims (all when empty). Fractions keep their dtype, integers give int64. */
ol_status ol_sum(ol_error *error, ol_tensor *x, const ol_shape *dims, bool keep, ol_tensor **out);

/* The same into target, contiguous, of the sum's shape (dims not kept) and of x's dtype, float32 or
 * float64. */
ol_status ol_sum_into(ol_error *error, ol_tensor *x, const ol_shape *dims, ol_tensor *target);

/* The sum, or mean, of the squares of all elements of x, float32 or float64. */
ol_status ol_sum_squares(ol_error *error, ol_tensor *x, bool mean, ol_tensor **out);

/* Sums of elements, and of squares of fractions. */
extern const ol_folds *const ol_sums, *const ol_squares;

/* Divides totals by the number of elements in each. */
ol_finish_fn ol_finish_mean;

#endif
