/* vectornorm: p-norms of elements over any dimensions. */
#include <math.h>

#include "base/vecmath.h"
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"

/* Where the arguments stand. */
enum { SELF, P, DIM, KEEPDIM };

#define COUNT(t, x, c)   ((t) + ((x) != 0))
#define ABS(t, x, c)     ((t) + fabs(x))
#define MAX_ABS(t, x, c) OL_MAX_OF(t, fabs(x))
#define MIN_ABS(t, x, c) OL_MIN_OF(t, fabs(x))
#define TIES(t, x, c)    ((t) + (fabs(x) == (c)))
OL_FLOAT_FOLDS(counts, 0, COUNT, OL_FOLD_ADD)
OL_FLOAT_FOLDS(absolutes, 0, ABS, OL_FOLD_ADD)
OL_EXTREME_FLOAT_FOLDS(greatest, 0, MAX_ABS, OL_MAX_OF)
OL_EXTREME_FLOAT_FOLDS(least, INFINITY, MIN_ABS, OL_MIN_OF)
OL_FLOAT_FOLDS(ties, 0, TIES, OL_FOLD_ADD)

/* Sums of |x| to the power p, which stands in for the center; in tiles. */
enum { TILE = 256 };
#define POWER_FOLD(suffix, type)                                                                   \
  static void raise_##suffix(int64_t count, const type *x, double p, double *y) {                  \
    double exponent[TILE];                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                          \
      y[i] = fabs((double)x[i]);                                                                   \
      exponent[i] = p;                                                                             \
    }                                                                                              \
    ol_vpow_f64(count, y, exponent, y);                                                            \
  }                                                                                                \
  static void powers_run_##suffix(int64_t count, const void *x, const double *p,                   \
                                  ol_total *total) {                                               \
    double y[TILE];                                                                                \
    ol_total part;                                                                                 \
    total->f64 = 0;                                                                                \
    for (int64_t i = 0; i < count; i += TILE) {                                                    \
      int64_t some = count - i < TILE ? count - i : TILE;                                          \
      raise_##suffix(some, (const type *)x + i, *p, y);                                            \
      absolutes_run_f64(some, y, NULL, &part);                                                     \
      total->f64 += part.f64;                                                                      \
    }                                                                                              \
  }                                                                                                \
  static void powers_lanes_##suffix(int64_t count, const void *x, const double *p,                 \
                                    ol_total *total) {                                             \
    double y[TILE];                                                                                \
    for (int64_t i = 0; i < count; i += TILE) {                                                    \
      int64_t some = count - i < TILE ? count - i : TILE;                                          \
      raise_##suffix(some, (const type *)x + i, p[i], y);                                          \
      absolutes_lanes_f64(some, y, NULL, total + i);                                               \
    }                                                                                              \
  }
POWER_FOLD(f32, float)
POWER_FOLD(f64, double)
static const ol_folds powers = {
  { [OL_F32] = { { .f64 = 0 }, powers_run_f32, powers_lanes_f32, absolutes_merge_f64 },
    [OL_F64] = { { .f64 = 0 }, powers_run_f64, powers_lanes_f64, absolutes_merge_f64 } }
};

static void finish_root(const ol_folding *folding, double p, ol_totals *totals) {
  (void)folding, (void)p;
  for (int64_t i = 0; i < totals->count; i++) totals->data[i].f64 = sqrt(totals->data[i].f64);
}

static void finish_power(const ol_folding *folding, double p, ol_totals *totals) {
  double exponent = 1 / p;
  (void)folding;
  for (int64_t i = 0; i < totals->count; i++) {
    double *total = &totals->data[i].f64;
    ol_vpow_f64(1, total, &exponent, total);
  }
}

/* How a norm is computed. */
typedef struct norm {
  const ol_folds *folds;
  ol_finish_fn *finish;
  bool general; /* the fold wants p for each total */
} norm;

static norm choose(double p) {
  if (p == 0) return (norm){ &counts, NULL, false };
  if (p == 1) return (norm){ &absolutes, NULL, false };
  if (p == 2) return (norm){ ol_squares, finish_root, false };
  if (isinf(p)) return (norm){ p > 0 ? &greatest : &least, NULL, false };
  return (norm){ &powers, finish_power, true };
}

static ol_status fold(ol_error *error, const ol_folding *folding, double p, ol_tensor **out) {
  norm n = choose(p);
  ol_totals exponents = { .data = NULL };
  if (n.general) {
    OL_TRY(ol_totals_init(error, folding, &exponents));
    for (int64_t i = 0; i < exponents.count; i++) exponents.data[i].f64 = p;
  }
  ol_status status = ol_fold_tensor(error, folding, n.folds, (const double *)exponents.data,
                                    n.finish, p, folding->source->dtype, out);
  if (n.general) ol_totals_release(&exponents);
  return status;
}

static ol_status norm_forward(ol_error *error, ol_call *call) {
  const ol_value *arg = call->arg;
  double p = arg[P].number;
  ol_folding folding;
  OL_TRY(ol_reduce_check(error, "norm", arg[SELF].tensor->dtype, true));
  if (isnan(p)) return ol_fail(error, OL_ARGUMENT, "norm: p is not a number");
  OL_TRY(ol_folding_init(error, "norm", arg[SELF].tensor, ol_dims(&arg[DIM]), arg[KEEPDIM].flag,
                         &folding));
  ol_status status = OL_OK;
  if (p < 0 && folding.count == 0 && folding.outer * folding.inner > 0)
    status = ol_fail(error, OL_SHAPE, "norm: of no elements, p = %g has no value", ol_shown(p));
  if (status == OL_OK) status = fold(error, &folding, p, &call->out[0]);
  ol_folding_release(&folding);
  return status;
}

/* Slopes of norms, times g; y is the norm. */
#define SIGN(x)                 ((x) > 0 ? 1 : (x) < 0 ? -1 : 0)
#define SLOPE_1(g, x)           ((g) * SIGN(x))
#define SLOPE_2(g, x, y)        ((y) == 0 ? 0 : (g) * ((x) / (y)))
#define SLOPE_INFINITE(g, x, y) (fabs(x) == (y) ? (g) * SIGN(x) : 0)
OL_FLOATS(slope_1, 2, SLOPE_1)
OL_FLOATS(slope_2, 3, SLOPE_2)
OL_FLOATS(slope_infinite, 3, SLOPE_INFINITE)

/* g sign(x) (|x| / y)^(p - 1), and 0 where the norm is 0 or, for p < 1, x is. */
#define SLOPE_P(suffix, type)                                                                      \
  static void slope_p_##suffix(int64_t count, char *const *data, const double *scalars) {          \
    const type *g = (const type *)data[1], *x = (const type *)data[2], *y = (const type *)data[3]; \
    type ratio[OL_TILE], exponent[OL_TILE], *z = (type *)data[0];                                  \
    OL_ASSUME_TILE(count);                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                          \
      ratio[i] = fabs(x[i]) / y[i];                                                                \
      exponent[i] = (type)(scalars[0] - 1);                                                        \
    }                                                                                              \
    ol_vpow_##suffix(count, ratio, exponent, ratio);                                               \
    for (int64_t i = 0; i < count; i++)                                                            \
      z[i] = y[i] == 0 || x[i] == 0 ? 0 : g[i] * SIGN(x[i]) * ratio[i];                            \
  }
SLOPE_P(f32, float)
SLOPE_P(f64, double)
OL_ROWS_OF_FLOATS(slope_p)

/* g divided by the number of elements that reach the norm. */
static ol_status share(ol_error *error, ol_back *back, ol_tensor *g, ol_tensor **out) {
  ol_folding folding;
  ol_tensor *center = NULL, *count = NULL;
  OL_TRY(ol_folding_init(error, "norm", back->arg[SELF].tensor, ol_dims(&back->arg[DIM]),
                         back->arg[KEEPDIM].flag, &folding));
  ol_status status = ol_tensor_convert(error, back->out[0], OL_F64, &center);
  if (status == OL_OK)
    status =
        ol_fold_tensor(error, &folding, &ties, ol_tensor_data(center), NULL, 0, g->dtype, &count);
  if (status == OL_OK) status = ol_div(error, g, count, out);
  ol_release(center);
  ol_release(count);
  ol_folding_release(&folding);
  return status;
}

static ol_status slope(ol_error *error, ol_back *back, ol_tensor *g, ol_tensor *y) {
  double p = back->arg[P].number;
  const double scalars[OL_SCALARS] = { p };
  ol_tensor *part[] = { g, back->arg[SELF].tensor, y };
  const ol_rows *rows = p == 2 ? &slope_2 : isinf(p) ? &slope_infinite : &slope_p;
  if (p == 1) rows = &slope_1;
  return ol_map(error, "norm", rows, p == 1 ? 2 : 3, part, scalars, &back->grad[0]);
}

static ol_status norm_backward(ol_error *error, ol_back *back) {
  const ol_shape *dims = ol_dims(&back->arg[DIM]);
  double p = back->arg[P].number;
  ol_tensor *g = NULL, *wide = NULL, *y = NULL;
  if (p == 0) return OL_OK;
  ol_status status = OL_OK;
  if (isinf(p))
    status = share(error, back, back->grad_out[0], &g);
  else
    g = ol_retain(back->grad_out[0]);
  if (status == OL_OK) status = ol_unreduce(error, "norm", g, back->shape[0], dims, &wide);
  if (status == OL_OK) status = ol_unreduce(error, "norm", back->out[0], back->shape[0], dims, &y);
  if (status == OL_OK) status = slope(error, back, wide, y);
  ol_release(g);
  ol_release(wide);
  ol_release(y);
  return status;
}

static const ol_op ops[] = {
  { .name = "norm",
    .doc = "p-norm of the elements over dimensions: (Σ |x|^p)^(1/p); p may be inf, -inf or 0 "
           "(counts); 0 of nothing. Its gradient at 0 is 0.",
    .example = "print(optlua.tensor({ 3, -4 }):norm()) --> tensor(5.)",
    .samples = "{ { t(3, 4) }, { t(3, 4), 1, 1 }, { t(3, 4), 2, 2, true }, "
               "{ t(3, 4), math.huge, 2 }, { t(3, 4), -math.huge, 1 }, { t(3, 4), 3.5, 2 }, "
               "{ t(3, 4), 0.5 }, { t(3, 4), -1, 1 }, { t(2, 3, 4), 2, { 1, 3 } }, "
               "{ t(2, 3, 4), 3, { 2, 3 }, { keepdim = true } }, { t() }, { t(4, 3):t(), 2, 1 }, "
               "{ t(3, 6):narrow(2, 2, 3), 1 }, { t(0, 3), 2, 2 } }",
    .param = { { "self", OL_TENSOR },
               { "p", OL_NUMBER, true, 2, .doc = "order; math.huge: the greatest magnitude" },
               OL_DIM_PARAMS },
    .saves = OL_SAVE_ARG(SELF) | OL_SAVE_OUT(0),
    .forward = norm_forward,
    .backward = norm_backward },
  { 0 }
};

const ol_family ol_vectornorm_ops = { .name = "vectornorm", .doc = "Norms", .ops = ops };
