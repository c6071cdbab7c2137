/* reduce: sums, means and their kind over any dimensions. */
#include "ops/reduce.h"

#include <string.h>

#include "ops/arithmetic.h"
#include "ops/families.h"

#define ADD(t, u)    ((t) + (u))
#define SUM(t, x, c) ((t) + (x))
OL_DEFINE_FOLD(sums, 0, 0, SUM, ADD)

static const ol_shape every = { .ndim = 0 };

ol_status ol_reduce_check(ol_error *error, const char *op, ol_dtype dtype, bool floats_only) {
  if (dtype == OL_BF16)
    return ol_fail(error, OL_DTYPE, "%s: bfloat16 stores; convert with :to(\"float32\")", op);
  if (floats_only && !ol_dtype_computes(dtype))
    return ol_fail(error, OL_DTYPE,
                   "%s: wants float32 or float64, got %s; convert with :to(\"float32\")", op,
                   ol_dtype_name(dtype));
  return OL_OK;
}

/* Folds and stores: into *target, or, where that is NULL, into a new tensor of dtype. */
static ol_status run(ol_error *error, const ol_folding *folding, const ol_fold *fold,
                     ol_finish_fn *finish, ol_dtype dtype, ol_tensor **target) {
  ol_totals totals;
  OL_TRY(ol_totals_init(error, folding, &totals));
  ol_status status = ol_fold_run(error, folding, fold, NULL, totals.data);
  if (status == OL_OK && finish) finish(folding, &totals);
  if (status == OL_OK && !*target) status = ol_tensor_new(error, dtype, &folding->shape, target);
  if (status == OL_OK) ol_totals_store(&totals, *target);
  ol_totals_release(&totals);
  return status;
}

ol_status ol_reduce(ol_error *error, const char *op, const ol_folds *folds, ol_finish_fn *finish,
                    ol_tensor *x, const ol_shape *dims, bool keep, ol_dtype dtype,
                    ol_tensor **out) {
  ol_folding folding;
  ol_tensor *result = NULL;
  OL_TRY(ol_reduce_check(error, op, x->dtype, !folds->of[x->dtype].run));
  OL_TRY(ol_folding_init(error, op, x, dims, keep, &folding));
  ol_status status = run(error, &folding, &folds->of[x->dtype], finish, dtype, &result);
  ol_folding_release(&folding);
  if (status == OL_OK) *out = result;
  return status;
}

ol_status ol_sum_into(ol_error *error, ol_tensor *x, const ol_shape *dims, ol_tensor *target) {
  ol_folding folding;
  OL_TRY(ol_folding_init(error, "sum", x, dims, false, &folding));
  ol_status status = run(error, &folding, &sums.of[x->dtype], NULL, x->dtype, &target);
  ol_folding_release(&folding);
  return status;
}

/* Fractions keep their dtype, integers become int64. */
static ol_dtype sum_dtype(ol_dtype dtype) { return ol_dtype_computes(dtype) ? dtype : OL_I64; }

ol_status ol_sum(ol_error *error, ol_tensor *x, const ol_shape *dims, bool keep, ol_tensor **out) {
  return ol_reduce(error, "sum", &sums, NULL, x, dims, keep, sum_dtype(x->dtype), out);
}

ol_status ol_unreduce(ol_error *error, const char *op, ol_tensor *result, const ol_shape *shape,
                      const ol_shape *dims, ol_tensor **out) {
  bool mask[OL_MAX_DIMS], kept = result->shape.ndim == shape->ndim;
  int64_t stride[OL_MAX_DIMS] = { 0 };
  OL_TRY(ol_shape_mask(error, op, dims, shape->ndim, mask));
  for (int d = 0, own = 0; d < shape->ndim; d++) {
    if (!mask[d]) stride[d] = result->stride[own];
    if (!mask[d] || kept) own++;
  }
  return ol_tensor_view(error, result, shape, stride, result->offset, out);
}

/* The arguments that the reductions share: self, dim, keepdim. */
static const ol_shape *dims_of(const ol_value *arg) { return arg->given ? &arg->list : &every; }

static ol_status reduce(ol_error *error, ol_call *call, const ol_folds *folds, ol_finish_fn *finish,
                        ol_dtype dtype) {
  const ol_value *arg = call->arg;
  return ol_reduce(error, call->op->name, folds, finish, arg[0].tensor, dims_of(&arg[1]),
                   arg[2].flag, dtype, &call->out[0]);
}

static ol_status sum_forward(ol_error *error, ol_call *call) {
  return reduce(error, call, &sums, NULL, sum_dtype(call->arg[0].tensor->dtype));
}

static ol_status sum_backward(ol_error *error, ol_back *back) {
  return ol_unreduce(error, back->op->name, back->grad_out[0], back->shape[0],
                     dims_of(&back->arg[1]), &back->grad[0]);
}

static void divide(const ol_folding *folding, ol_totals *totals) {
  for (int64_t i = 0; i < totals->count; i++) totals->data[i].f64 /= (double)folding->count;
}

static ol_status mean_forward(ol_error *error, ol_call *call) {
  ol_dtype dtype = call->arg[0].tensor->dtype;
  OL_TRY(ol_reduce_check(error, call->op->name, dtype, true));
  return reduce(error, call, &sums, divide, dtype);
}

/* How many elements go into one result. */
static ol_status folded(ol_error *error, const ol_back *back, double *out) {
  bool mask[OL_MAX_DIMS];
  *out = 1;
  OL_TRY(ol_shape_mask(error, back->op->name, dims_of(&back->arg[1]), back->shape[0]->ndim, mask));
  for (int d = 0; d < back->shape[0]->ndim; d++)
    if (mask[d]) *out *= (double)back->shape[0]->size[d];
  return OL_OK;
}

static ol_status mean_backward(ol_error *error, ol_back *back) {
  double count;
  ol_tensor *share;
  OL_TRY(folded(error, back, &count));
  OL_TRY(ol_scale(error, back->grad_out[0], 1 / count, &share));
  ol_status status =
      ol_unreduce(error, "mean", share, back->shape[0], dims_of(&back->arg[1]), &back->grad[0]);
  ol_release(share);
  return status;
}

#define REDUCTION(NAME, FORWARD, BACKWARD, SAVES, DOC, EXAMPLE, SAMPLES)                           \
  { .name = NAME,                                                                                  \
    .doc = DOC,                                                                                    \
    .example = EXAMPLE,                                                                            \
    .samples = SAMPLES,                                                                            \
    .param = { { "self", OL_TENSOR },                                                              \
               { "dim", OL_DIMS, true, .doc = "dimensions to reduce; default: all" },              \
               { "keepdim", OL_FLAG, true, .doc = "keep them with size 1" } },                     \
    .saves = SAVES,                                                                                \
    .forward = FORWARD,                                                                            \
    .backward = BACKWARD }

#define SAMPLES_ANY                                                                                \
  "{ { t(3, 4) }, { t(3, 4), 1 }, { t(3, 4), 2, true }, { t(2, 3, 4, 2), { 2, 3 } }, "             \
  "{ t(2, 3, 4), { 1, -1 } }, { t(2, 3, 4), { 1, 3 }, { keepdim = true } }, { t() }, "             \
  "{ t(4, 3):t(), 1 }, { t(3, 1):expand(3, 4), 2 }, { t(3, 6):narrow(2, 2, 3) }, { t(0, 3), 2 } }"

static const ol_op ops[] = {
  REDUCTION("sum", sum_forward, sum_backward, 0,
            "Sum over dimensions; integers give int64; 0 of nothing.",
            "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):sum(1)) --> tensor([4., 6.])",
            SAMPLES_ANY),
  REDUCTION("mean", mean_forward, mean_backward, 0,
            "Mean over dimensions, of float32 or float64; NaN of nothing.",
            "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):mean(2)) --> tensor([1.5000, 3.5000])",
            SAMPLES_ANY),
  { 0 }
};

const ol_family ol_reduce_ops = { .name = "reduce", .doc = "Reductions", .ops = ops };
