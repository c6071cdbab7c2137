/* loss: distances between tensors. */
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pair.h"
#include "ops/reduce.h"

enum { INPUT = OL_PAIR_INPUT, TARGET = OL_PAIR_TARGET, REDUCTION, NUMBER };

/* mse_loss: the difference is kept for backward. */
static ol_status mse_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[INPUT].tensor, *y = call->arg[TARGET].tensor;
  ol_reduction reduction = call->arg[REDUCTION].choice;
  OL_TRY(ol_pair_check(error, call->op->name, x, y));
  OL_TRY(ol_sub(error, x, y, &call->kept[0]));
  ol_tensor *d = call->kept[0];
  if (reduction == OL_NONE) return ol_mul(error, d, d, &call->out[0]);
  return ol_sum_squares(error, d, reduction == OL_MEAN, &call->out[0]);
}

/* factor * g * d: the slope of each square, and its negative. */
#define SLOPE(g, d) (s[0] * (g) * (d))
OL_FLOATS(slope, 2, SLOPE)

static ol_status mse_backward(ol_error *error, ol_back *back) {
  ol_tensor *d = back->kept[0], *pair[] = { back->grad_out[0], d };
  double factor = 2;
  if (back->arg[REDUCTION].choice == OL_MEAN) factor /= (double)d->numel;
  for (int i = INPUT; i <= TARGET; i++) {
    const double scalars[OL_SCALARS] = { i == INPUT ? factor : -factor };
    if (back->needs[i]) OL_TRY(ol_map(error, "mse_loss", &slope, 2, pair, scalars, &back->grad[i]));
  }
  return OL_OK;
}

/* The others are symmetric: the slope for the target is that for the input with both exchanged. The
 * scalar s[0] is the number after the reduction, where there is one. */
typedef struct distance {
  const ol_rows *rows;  /* of (x, y) */
  const ol_rows *slope; /* of (g, x, y) */
} distance;

static ol_status measure(ol_error *error, ol_call *call, const distance *d, double s) {
  ol_tensor *pair[] = { call->arg[INPUT].tensor, call->arg[TARGET].tensor }, *each;
  OL_TRY(ol_pair_check(error, call->op->name, pair[0], pair[1]));
  OL_TRY(ol_map(error, call->op->name, d->rows, 2, pair, (double[OL_SCALARS]){ s }, &each));
  return ol_pair_reduce(error, each, NULL, call->arg[REDUCTION].choice, OL_ALL_LOSSES,
                        &call->out[0]);
}

static ol_status slopes(ol_error *error, ol_back *back, const distance *d, double s) {
  ol_tensor *x = back->arg[INPUT].tensor, *y = back->arg[TARGET].tensor, *g;
  ol_status status = OL_OK;
  OL_TRY(ol_pair_seed(error, back->grad_out[0], NULL, back->arg[REDUCTION].choice, OL_ALL_LOSSES,
                      x->numel, &g));
  for (int i = INPUT; i <= TARGET && status == OL_OK; i++) {
    ol_tensor *three[] = { g, i == INPUT ? x : y, i == INPUT ? y : x };
    if (back->needs[i])
      status = ol_map(error, back->op->name, d->slope, 3, three, (double[OL_SCALARS]){ s },
                      &back->grad[i]);
  }
  ol_release(g);
  return status;
}

#define FAR(x, y)          (fabs((x) - (y)))
#define FAR_SLOPE(g, x, y) ((x) > (y) ? (g) : (x) < (y) ? -(g) : (g) * ((x) - (y)))
OL_FLOATS(far_rows, 2, FAR)
OL_FLOATS(far_slope, 3, FAR_SLOPE)
static const distance far = { &far_rows, &far_slope };

/* A square, over 2 beta, below beta; beyond it straight. */
#define SMOOTH(x, y)                                                                               \
  (FAR(x, y) < s[0] ? (T)0.5 * FAR(x, y) * FAR(x, y) / s[0] : FAR(x, y) - (T)0.5 * s[0])
#define SMOOTH_SLOPE(g, x, y) (FAR(x, y) < s[0] ? (g) * ((x) - (y)) / s[0] : FAR_SLOPE(g, x, y))
OL_FLOATS(smooth_rows, 2, SMOOTH)
OL_FLOATS(smooth_slope, 3, SMOOTH_SLOPE)
static const distance smooth = { &smooth_rows, &smooth_slope };

/* Half a square up to delta; beyond it straight, of slope delta. */
#define HUBER(x, y)                                                                                \
  (FAR(x, y) <= s[0] ? (T)0.5 * FAR(x, y) * FAR(x, y) : s[0] * (FAR(x, y) - (T)0.5 * s[0]))
#define HUBER_SLOPE(g, x, y) (FAR(x, y) <= s[0] ? (g) * ((x) - (y)) : s[0] * FAR_SLOPE(g, x, y))
OL_FLOATS(huber_rows, 2, HUBER)
OL_FLOATS(huber_slope, 3, HUBER_SLOPE)
static const distance huber = { &huber_rows, &huber_slope };

static ol_status l1_forward(ol_error *error, ol_call *call) {
  return measure(error, call, &far, 0);
}

static ol_status l1_backward(ol_error *error, ol_back *back) {
  return slopes(error, back, &far, 0);
}

static ol_status smooth_forward(ol_error *error, ol_call *call) {
  double beta = call->arg[NUMBER].number;
  if (!(beta >= 0))
    return ol_fail(error, OL_ARGUMENT, "smooth_l1_loss: beta is %g, wants at least 0",
                   ol_shown(beta));
  return measure(error, call, &smooth, beta);
}

static ol_status smooth_backward(ol_error *error, ol_back *back) {
  return slopes(error, back, &smooth, back->arg[NUMBER].number);
}

static ol_status huber_forward(ol_error *error, ol_call *call) {
  double delta = call->arg[NUMBER].number;
  if (!(delta > 0))
    return ol_fail(error, OL_ARGUMENT, "huber_loss: delta is %g, wants a positive number",
                   ol_shown(delta));
  return measure(error, call, &huber, delta);
}

static ol_status huber_backward(ol_error *error, ol_back *back) {
  return slopes(error, back, &huber, back->arg[NUMBER].number);
}

#define SAMPLES(more)                                                                              \
  "{ { t(3, 4), t(3, 4) }, { t(3, 4), t(3, 4), { reduction = \"sum\" } }, "                        \
  "{ t(3, 4), t(4, 3):t(), { reduction = \"none\" } }, { t(), t() }, "                             \
  "{ t(1, 4):expand(3, 4), c(3, 4) }, { t(0, 2), t(0, 2), { reduction = \"sum\" } }" more " }"
#define PAIR_SAVED OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(TARGET)

static const ol_op ops[] = {
  { .name = "mse_loss",
    .doc = "Mean (or sum, or none) of squared differences of two tensors of one shape.",
    .example = "print(optlua.mse_loss(optlua.tensor({ 1, 2 }), optlua.tensor({ 1, 4 }))) "
               "--> tensor(2.)",
    .samples = SAMPLES(""),
    .param = { OL_PAIR_PARAMS, OL_REDUCTION_PARAM },
    .flags = OL_OP_FUNCTION,
    .forward = mse_forward,
    .backward = mse_backward },
  { .name = "l1_loss",
    .doc = "Mean (or sum, or none) of absolute differences of two tensors of one shape.",
    .example = "print(optlua.l1_loss(optlua.tensor({ 1, 2 }), optlua.tensor({ 1, 5 }))) "
               "--> tensor(1.5000)",
    .samples = SAMPLES(""),
    .param = { OL_PAIR_PARAMS, OL_REDUCTION_PARAM },
    .saves = PAIR_SAVED,
    .flags = OL_OP_FUNCTION,
    .forward = l1_forward,
    .backward = l1_backward },
  { .name = "smooth_l1_loss",
    .doc = "The absolute difference less beta / 2; where it is below beta, its square over 2 beta "
           "(Girshick, 2015). beta 0: l1_loss.",
    .example = "print(optlua.smooth_l1_loss(optlua.tensor({ 1, 2 }), optlua.tensor({ 1.5, 5 }))) "
               "--> tensor(1.3125)",
    .samples = SAMPLES(", { t(3, 4), t(3, 4), { beta = 0.3 } }, { t(3), t(3), { beta = 0 } }"),
    .param = { OL_PAIR_PARAMS,
               OL_REDUCTION_PARAM,
               { "beta", OL_NUMBER, true, 1, .doc = "where the square ends; at least 0" } },
    .saves = PAIR_SAVED,
    .flags = OL_OP_FUNCTION,
    .forward = smooth_forward,
    .backward = smooth_backward },
  { .name = "huber_loss",
    .doc = "Half the squared difference up to delta, and from there straight on (Huber, 1964).",
    .example = "print(optlua.huber_loss(optlua.tensor({ 1, 2 }), optlua.tensor({ 1.5, 5 }))) "
               "--> tensor(1.3125)",
    .samples = SAMPLES(", { t(3, 4), t(3, 4), { delta = 0.3 } }"),
    .param = { OL_PAIR_PARAMS,
               OL_REDUCTION_PARAM,
               { "delta", OL_NUMBER, true, 1, .doc = "where the square ends; positive" } },
    .saves = PAIR_SAVED,
    .flags = OL_OP_FUNCTION,
    .forward = huber_forward,
    .backward = huber_backward },
  { 0 }
};

const ol_family ol_loss_ops = { .name = "loss", .doc = "Losses", .ops = ops };
