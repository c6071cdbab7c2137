/* reduce: sums, means and their kind over any dimensions. */
#include "ops/reduce.h"

#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"

/* Integers wrap. */
#define SUM(t, x, c)      ((t) + (x))
#define SUM_INT(t, x, c)  ((int64_t)((uint64_t)(t) + (uint64_t)(x)))
#define ADD_INT(t, u)     SUM_INT(t, u, 0)
#define MUL(t, u)         ((t) * (u))
#define PROD(t, x, c)     ((t) * (x))
#define PROD_INT(t, x, c) ((int64_t)((uint64_t)(t) * (uint64_t)(x)))
#define MUL_INT(t, u)     PROD_INT(t, u, 0)
OL_NUMBER_FOLDS(sums, 0, SUM, OL_FOLD_ADD, 0, SUM_INT, ADD_INT)

/* Of floats, products below 1e-250 become 0 before they are subnormal, which would take a hundred
 * times as long; the result, a float, is above 1e-45 or 0. */
#define PROD_OF_FLOATS(t, x, c) (fabs((t) * (x)) < 1e-250 ? 0 : (t) * (x))
OL_FOLD_KERNELS(products, f32, float, double, double, 64, double, f64, 1, PROD_OF_FLOATS, MUL)
OL_FOLD_KERNELS(products, f64, double, double, double, 16, double, f64, 1, PROD, MUL)
OL_FOLD_KERNELS(products, u8, uint8_t, int64_t, int64_t, 16, int64_t, i64, 1, PROD_INT, MUL_INT)
OL_FOLD_KERNELS(products, i64, int64_t, int64_t, int64_t, 16, int64_t, i64, 1, PROD_INT, MUL_INT)
static const ol_folds products = { { [OL_F32] = OL_FOLD(products, f32, f64, 1),
                                     [OL_F64] = OL_FOLD(products, f64, f64, 1),
                                     [OL_U8] = OL_FOLD(products, u8, i64, 1),
                                     [OL_I64] = OL_FOLD(products, i64, i64, 1) } };

/* Of elements that are not zero, for the gradient of a product. */
#define PROD_NONZERO(t, x, c) ((t) * ((x) == 0 ? 1.0 : (x)))
#define NONZERO(t, x, c)      ((t) + ((x) != 0))
OL_FLOAT_FOLDS(nonzero_products, 1, PROD_NONZERO, MUL)
OL_COUNT_FOLDS(nonzeros, NONZERO)

#define SQUARE(t, x, c) ((t) + (x) * (x))
OL_FLOAT_FOLDS(squares, 0, SQUARE, OL_FOLD_ADD)

const ol_folds *const ol_sums = &sums, *const ol_squares = &squares;

ol_status ol_reduce_check(ol_error *error, const char *op, ol_dtype dtype, bool floats_only) {
  if (dtype == OL_BF16)
    return ol_fail(error, OL_DTYPE, "%s: bfloat16 stores; convert with :to(\"float32\")", op);
  if (floats_only && !ol_dtype_computes(dtype))
    return ol_fail(error, OL_DTYPE,
                   "%s: wants float32 or float64, got %s; convert with :to(\"float32\")", op,
                   ol_dtype_name(dtype));
  return OL_OK;
}

ol_status ol_reduce(ol_error *error, const char *op, const ol_folds *folds, ol_finish_fn *finish,
                    ol_tensor *x, const ol_shape *dims, bool keep, ol_dtype dtype,
                    ol_tensor **out) {
  ol_folding folding;
  ol_tensor *result = NULL;
  OL_TRY(ol_reduce_check(error, op, x->dtype, !folds->of[x->dtype].run));
  OL_TRY(ol_folding_init(error, op, x, dims, keep, &folding));
  ol_status status = ol_fold_tensor(error, &folding, folds, NULL, finish, 0, dtype, &result);
  ol_folding_release(&folding);
  if (status == OL_OK) *out = result;
  return status;
}

ol_status ol_sum_into(ol_error *error, ol_tensor *x, const ol_shape *dims, ol_tensor *target) {
  ol_folding folding;
  OL_TRY(ol_folding_init(error, "sum", x, dims, false, &folding));
  ol_status status = ol_fold_tensor(error, &folding, &sums, NULL, NULL, 0, x->dtype, &target);
  ol_folding_release(&folding);
  return status;
}

void ol_finish_mean(const ol_folding *folding, double parameter, ol_totals *totals) {
  (void)parameter;
  for (int64_t i = 0; i < totals->count; i++) totals->data[i].f64 /= (double)folding->count;
}

ol_status ol_sum_squares(ol_error *error, ol_tensor *x, bool mean, ol_tensor **out) {
  const ol_shape all = { .ndim = 0 };
  return ol_reduce(error, "sum", &squares, mean ? ol_finish_mean : NULL, x, &all, false, x->dtype,
                   out);
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

/* Of the arguments self, dim, keepdim. */
static ol_status reduce(ol_error *error, ol_call *call, const ol_folds *folds, ol_finish_fn *finish,
                        ol_dtype dtype) {
  const ol_value *arg = call->arg;
  return ol_reduce(error, call->op->name, folds, finish, arg[0].tensor, ol_dims(&arg[1]),
                   arg[2].flag, dtype, &call->out[0]);
}

/* A view with the shape of the input. */
static ol_status unreduce(ol_error *error, const ol_back *back, ol_tensor *result,
                          ol_tensor **out) {
  return ol_unreduce(error, back->op->name, result, back->shape[0], ol_dims(&back->arg[1]), out);
}

static ol_status sum_forward(ol_error *error, ol_call *call) {
  return reduce(error, call, &sums, NULL, sum_dtype(call->arg[0].tensor->dtype));
}

static ol_status sum_backward(ol_error *error, ol_back *back) {
  return unreduce(error, back, back->grad_out[0], &back->grad[0]);
}

static ol_status mean_forward(ol_error *error, ol_call *call) {
  ol_dtype dtype = call->arg[0].tensor->dtype;
  OL_TRY(ol_reduce_check(error, call->op->name, dtype, true));
  return reduce(error, call, &sums, ol_finish_mean, dtype);
}

static ol_status mean_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *share;
  double elements = (double)ol_shape_numel(back->shape[0]), results = (double)g->numel;
  OL_TRY(ol_scale(error, g, results / elements, &share));
  ol_status status = unreduce(error, back, share, &back->grad[0]);
  ol_release(share);
  return status;
}

static ol_status prod_forward(ol_error *error, ol_call *call) {
  return reduce(error, call, &products, NULL, sum_dtype(call->arg[0].tensor->dtype));
}

/* The slope of a product at x is the product of the others: of all divided by x, or, at the only
 * zero, of the nonzero ones. */
#define PROD_SLOPE(x, of_others, of_only_zero) ((x) == 0 ? (of_only_zero) : (of_others) / (x))
OL_FLOATS(prod_slope, 3, PROD_SLOPE)

/* Fills g * product where no element, and where exactly one element of a product is zero. */
static ol_status split_products(ol_error *error, const ol_folding *folding, const double *g,
                                double *none_zero, double *one_zero) {
  ol_totals nonzero;
  const ol_dtype dtype = folding->source->dtype;
  OL_TRY(ol_totals_init(error, folding, &nonzero));
  ol_status status = ol_fold_run(error, folding, &nonzeros.of[dtype], NULL, nonzero.data);
  for (int64_t i = 0; status == OL_OK && i < nonzero.count; i++) {
    int64_t zeros = folding->count - nonzero.data[i].i64;
    double product = g[i] * none_zero[i];
    none_zero[i] = zeros == 0 ? product : 0;
    one_zero[i] = zeros == 1 ? product : 0;
  }
  ol_totals_release(&nonzero);
  return status;
}

/* The two products, as tensors of float64 that have the shape of the input. */
static ol_status prod_parts(ol_error *error, ol_back *back, ol_tensor *part[2]) {
  ol_folding folding;
  ol_tensor *g = NULL, *made[2] = { NULL, NULL };
  OL_TRY(ol_folding_init(error, "prod", back->arg[0].tensor, ol_dims(&back->arg[1]),
                         back->arg[2].flag, &folding));
  ol_status status =
      ol_fold_tensor(error, &folding, &nonzero_products, NULL, NULL, 0, OL_F64, &made[0]);
  if (status == OL_OK) status = ol_tensor_new(error, OL_F64, &folding.shape, &made[1]);
  if (status == OL_OK) status = ol_tensor_convert(error, back->grad_out[0], OL_F64, &g);
  if (status == OL_OK)
    status = split_products(error, &folding, ol_tensor_data(g), ol_tensor_data(made[0]),
                            ol_tensor_data(made[1]));
  for (int i = 0; i < 2; i++) {
    if (status == OL_OK) status = unreduce(error, back, made[i], &part[i]);
    ol_release(made[i]);
  }
  ol_release(g);
  ol_folding_release(&folding);
  return status;
}

static ol_status prod_backward(ol_error *error, ol_back *back) {
  ol_tensor *part[2] = { NULL, NULL };
  ol_status status = prod_parts(error, back, part);
  if (status == OL_OK)
    status = ol_ternary(error, "prod", &prod_slope, back->arg[0].tensor, part[0], part[1],
                        &back->grad[0]);
  ol_release(part[0]);
  ol_release(part[1]);
  return status;
}

static ol_status count_forward(ol_error *error, ol_call *call) {
  return reduce(error, call, &nonzeros, NULL, OL_I64);
}

static void finish_any(const ol_folding *folding, double parameter, ol_totals *totals) {
  (void)folding, (void)parameter;
  for (int64_t i = 0; i < totals->count; i++) totals->data[i].i64 = totals->data[i].i64 > 0;
}

static void finish_all(const ol_folding *folding, double parameter, ol_totals *totals) {
  (void)parameter;
  for (int64_t i = 0; i < totals->count; i++)
    totals->data[i].i64 = totals->data[i].i64 == folding->count;
}

static ol_status any_forward(ol_error *error, ol_call *call) {
  return reduce(error, call, &nonzeros, finish_any, OL_U8);
}

static ol_status all_forward(ol_error *error, ol_call *call) {
  return reduce(error, call, &nonzeros, finish_all, OL_U8);
}

#define REDUCTION(NAME, FORWARD, BACKWARD, SAVES, DOC, EXAMPLE, SAMPLES)                           \
  { .name = NAME,                                                                                  \
    .doc = DOC,                                                                                    \
    .example = EXAMPLE,                                                                            \
    .samples = SAMPLES,                                                                            \
    .param = { { "self", OL_TENSOR }, OL_DIM_PARAMS },                                             \
    .saves = SAVES,                                                                                \
    .forward = FORWARD,                                                                            \
    .backward = BACKWARD }

static const ol_op ops[] = {
  REDUCTION("sum", sum_forward, sum_backward, 0,
            "Sum over dimensions; integers give int64; 0 of nothing.",
            "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):sum(1)) --> tensor([4., 6.])",
            OL_DIM_SAMPLES("t")),
  REDUCTION("mean", mean_forward, mean_backward, 0,
            "Mean over dimensions, of float32 or float64; NaN of nothing.",
            "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):mean(2)) --> tensor([1.5000, 3.5000])",
            OL_DIM_SAMPLES("t")),
  REDUCTION("prod", prod_forward, prod_backward, OL_SAVE_ARG(0),
            "Product over dimensions; integers give int64; 1 of nothing.",
            "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):prod(1)) --> tensor([3., 8.])",
            OL_DIM_SAMPLES("t")),
  REDUCTION("count_nonzero", count_forward, NULL, 0,
            "How many elements are not 0, over dimensions: int64.",
            "print(optlua.tensor({ 0, 2, 0.5 }):count_nonzero()) --> tensor(2)",
            OL_DIM_SAMPLES("t")),
  REDUCTION("any", any_forward, NULL, 0,
            "Whether any element is not 0, over dimensions: uint8; 0 of nothing.",
            "print(optlua.tensor({ 0, 2 }):any()) --> tensor(1, dtype=uint8)", OL_DIM_SAMPLES("t")),
  REDUCTION("all", all_forward, NULL, 0,
            "Whether every element is not 0, over dimensions: uint8; 1 of nothing.",
            "print(optlua.tensor({ 0, 2 }):all()) --> tensor(0, dtype=uint8)", OL_DIM_SAMPLES("t")),
  { 0 }
};

const ol_family ol_reduce_ops = { .name = "reduce", .doc = "Reductions", .ops = ops };
