/* variance: spread around the mean, over any dimensions; in two passes. */
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"

#define SQUARE(t, x, c) ((t) + ((x) - (c)) * ((x) - (c)))
OL_FLOAT_FOLDS(squares, 0, SQUARE, OL_FOLD_ADD)

/* Where the arguments stand. */
enum { SELF, DIM, CORRECTION, KEEPDIM };

/* What sums of squares are divided by: never negative. */
static double freedom(double count, double correction) {
  return count > correction ? count - correction : 0;
}

static void finish_variance(const ol_folding *folding, double correction, ol_totals *totals) {
  double divisor = freedom((double)folding->count, correction);
  for (int64_t i = 0; i < totals->count; i++) totals->data[i].f64 /= divisor;
}

static void finish_deviation(const ol_folding *folding, double correction, ol_totals *totals) {
  finish_variance(folding, correction, totals);
  for (int64_t i = 0; i < totals->count; i++) totals->data[i].f64 = sqrt(totals->data[i].f64);
}

/* The means are kept for backward, in float64. */
static ol_status spread(ol_error *error, ol_call *call, ol_finish_fn *finish) {
  const ol_value *arg = call->arg;
  ol_tensor *x = arg[SELF].tensor;
  ol_folding folding;
  OL_TRY(ol_reduce_check(error, call->op->name, x->dtype, true));
  OL_TRY(
      ol_folding_init(error, call->op->name, x, ol_dims(&arg[DIM]), arg[KEEPDIM].flag, &folding));
  ol_status status =
      ol_fold_tensor(error, &folding, ol_sums, NULL, ol_finish_mean, 0, OL_F64, &call->kept[0]);
  if (status == OL_OK)
    status = ol_fold_tensor(error, &folding, &squares, ol_tensor_data(call->kept[0]), finish,
                            arg[CORRECTION].number, x->dtype, &call->out[0]);
  ol_folding_release(&folding);
  return status;
}

/* factor * g * (x - mean) */
#define SLOPE(g, x, mean) (s[0] * (g) * ((x) - (mean)))
OL_FLOATS(slope, 3, SLOPE)

/* The slope of the variance, g being its gradient: 2 g (x - mean) / freedom. */
static ol_status variance_slope(ol_error *error, ol_back *back, ol_tensor *g, double factor) {
  const ol_shape *dims = ol_dims(&back->arg[DIM]), *shape = back->shape[0];
  ol_tensor *part[3] = { NULL, back->arg[SELF].tensor, NULL };
  double count = (double)ol_shape_numel(shape) / (double)g->numel;
  const double scalars[OL_SCALARS] = { factor / freedom(count, back->arg[CORRECTION].number) };
  ol_status status = ol_unreduce(error, back->op->name, g, shape, dims, &part[0]);
  if (status == OL_OK)
    status = ol_unreduce(error, back->op->name, back->kept[0], shape, dims, &part[2]);
  if (status == OL_OK)
    status = ol_map(error, back->op->name, &slope, 3, part, scalars, &back->grad[0]);
  ol_release(part[0]);
  ol_release(part[2]);
  return status;
}

static ol_status var_forward(ol_error *error, ol_call *call) {
  return spread(error, call, finish_variance);
}

static ol_status var_backward(ol_error *error, ol_back *back) {
  return variance_slope(error, back, back->grad_out[0], 2);
}

static ol_status std_forward(ol_error *error, ol_call *call) {
  return spread(error, call, finish_deviation);
}

/* g / y, and 0 where all elements are equal. */
#define ROOT_SLOPE(g, y) ((y) == 0 ? 0 : (g) / (y))
OL_FLOATS(root_slope, 2, ROOT_SLOPE)

static ol_status std_backward(ol_error *error, ol_back *back) {
  ol_tensor *g;
  OL_TRY(ol_binary(error, "std", &root_slope, back->grad_out[0], back->out[0], &g));
  ol_status status = variance_slope(error, back, g, 1);
  ol_release(g);
  return status;
}

#define SPREAD(NAME, SAVES, FORWARD, BACKWARD, DOC, EXAMPLE)                                       \
  { .name = NAME,                                                                                  \
    .doc = DOC,                                                                                    \
    .example = EXAMPLE,                                                                            \
    .samples = "{ { t(3, 4) }, { t(3, 4), 1 }, { t(3, 4), 2, 0, true }, "                          \
               "{ t(2, 3, 4), { 1, 3 }, { correction = 0.5, keepdim = true } }, "                  \
               "{ t(), { correction = 0 } }, { t(4, 3):t(), 1 }, { t(3, 6):narrow(2, 2, 3) }, "    \
               "{ t(0, 3), 2 } }",                                                                 \
    .param = { { "self", OL_TENSOR },                                                              \
               { "dim", OL_DIMS, true, .doc = "dimensions to reduce; default: all" },              \
               { "correction", OL_NUMBER, true, 1,                                                 \
                 .doc = "subtracted from the count; 0: biased" },                                  \
               OL_KEEPDIM_PARAM },                                                                 \
    .saves = OL_SAVE_ARG(SELF) | (SAVES),                                                          \
    .forward = FORWARD,                                                                            \
    .backward = BACKWARD }

static const ol_op ops[] = {
  SPREAD("var", 0, var_forward, var_backward,
         "Variance over dimensions; NaN where the count is at most the correction and 0 is divided "
         "by 0.",
         "print(optlua.tensor({ 1, 3 }):var()) --> tensor(2.)"),
  SPREAD("std", OL_SAVE_OUT(0), std_forward, std_backward,
         "Standard deviation over dimensions: the square root of var; its gradient at 0 is 0.",
         "print(optlua.tensor({ 1, 3 }):std({ correction = 0 })) --> tensor(1.)"),
  { 0 }
};

const ol_family ol_variance_ops = { .name = "variance", .doc = "Spread", .ops = ops };
