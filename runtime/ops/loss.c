/* loss: distances between tensors. */
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/targets.h"

enum { INPUT, TARGET, REDUCTION };

/* mse_loss: the difference is kept for backward. */
static ol_status check_pair(ol_error *error, const char *op, const ol_tensor *x,
                            const ol_tensor *y) {
  char left[OL_SHAPE_TEXT], right[OL_SHAPE_TEXT];
  OL_TRY(ol_reduce_check(error, op, x->dtype, true));
  OL_TRY(ol_reduce_check(error, op, y->dtype, true));
  if (ol_shape_equal(&x->shape, &y->shape)) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: input of shape %s and target of shape %s differ", op,
                 ol_shape_text(&x->shape, left), ol_shape_text(&y->shape, right));
}

static ol_status mse_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[INPUT].tensor, *y = call->arg[TARGET].tensor;
  ol_reduction reduction = call->arg[REDUCTION].choice;
  OL_TRY(check_pair(error, call->op->name, x, y));
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

static const ol_op ops[] = {
  { .name = "mse_loss",
    .doc = "Mean (or sum, or none) of squared differences of two tensors of one shape.",
    .example = "print(optlua.mse_loss(optlua.tensor({ 1, 2 }), optlua.tensor({ 1, 4 }))) "
               "--> tensor(2.)",
    .samples = "{ { t(3, 4), t(3, 4) }, { t(3, 4), t(3, 4), { reduction = \"sum\" } }, "
               "{ t(3, 4), t(4, 3):t(), { reduction = \"none\" } }, { t(), t() }, "
               "{ t(1, 4):expand(3, 4), c(3, 4) }, { t(0, 2), t(0, 2), { reduction = \"sum\" } } }",
    .param = { { "input", OL_TENSOR },
               { "target", OL_TENSOR, .doc = "of the input's shape" },
               { "reduction", OL_CHOICE, true, OL_MEAN, OL_REDUCTIONS } },
    .flags = OL_OP_FUNCTION,
    .forward = mse_forward,
    .backward = mse_backward },
  { 0 }
};

const ol_family ol_loss_ops = { .name = "loss", .doc = "Losses", .ops = ops };
