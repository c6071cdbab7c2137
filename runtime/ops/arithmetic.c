/* arithmetic: the four operations, with their forms in place. */
#include "ops/arithmetic.h"

#include "ops/division.h"
#include "ops/families.h"
#include "ops/pointwise.h"

/* Integers wrap. */
#define W(x)                 ((uint64_t)(x))
#define ADD(x, y)            ((x) + (y))
#define ADD_INT(x, y)        (W(x) + W(y))
#define SUB(x, y)            ((x) - (y))
#define SUB_INT(x, y)        (W(x) - W(y))
#define MUL(x, y)            ((x) * (y))
#define MUL_INT(x, y)        (W(x) * W(y))
#define ADD_SCALED(x, y)     ((x) + s[0] * (y))
#define ADD_SCALED_INT(x, y) (W(x) + W(s[0]) * W(y))
OL_NUMBERS(add, 2, ADD, ADD_INT)
OL_NUMBERS(sub, 2, SUB, SUB_INT)
OL_NUMBERS(mul, 2, MUL, MUL_INT)
OL_NUMBERS(add_scaled, 2, ADD_SCALED, ADD_SCALED_INT)

#define DIV(x, y) ((x) / (y))
OL_FLOATS(divide, 2, DIV, .widen = true)

#define NEG(x)     (-(x))
#define NEG_INT(x) (0 - W(x))
OL_NUMBERS(neg, 1, NEG, NEG_INT)

#define SCALE(x) ((x) * s[0])
OL_FLOATS(scale, 1, SCALE)

/* -g * x / y², as -g * ((x / y) / y), of (g, x, y): the gradient of x / y for y. */
#define DIV_GRAD(g, x, y) (-(g) * (((x) / (y)) / (y)))
OL_FLOATS(div_grad, 3, DIV_GRAD)

ol_status ol_add(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out) {
  return ol_binary(error, "add", &add, x, y, out);
}

ol_status ol_sub(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out) {
  return ol_binary(error, "sub", &sub, x, y, out);
}

ol_status ol_mul(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out) {
  return ol_binary(error, "mul", &mul, x, y, out);
}

ol_status ol_div(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out) {
  return ol_binary(error, "div", &divide, x, y, out);
}

ol_status ol_neg(ol_error *error, ol_tensor *x, ol_tensor **out) {
  return ol_unary(error, "neg", &neg, x, out);
}

ol_status ol_scale(ol_error *error, ol_tensor *x, double factor, ol_tensor **out) {
  return ol_map(error, "mul", &scale, 1, &x, (double[OL_SCALARS]){ factor }, out);
}

/* Integers take only whole factors. */
static ol_status check_alpha(ol_error *error, const char *op, ol_tensor *const *x, double alpha) {
  if (ol_dtype_is_float(ol_result_dtype(2, x)) || ol_is_whole(alpha)) return OL_OK;
  return ol_fail(error, OL_ARGUMENT, "%s: alpha is %g; tensors of integers take a whole number", op,
                 ol_shown(alpha));
}

ol_status ol_add_scaled(ol_error *error, ol_tensor *x, ol_tensor *y, double alpha,
                        ol_tensor **out) {
  ol_tensor *both[] = { x, y };
  OL_TRY(check_alpha(error, "add", both, alpha));
  return ol_map(error, "add", &add_scaled, 2, both, (double[OL_SCALARS]){ alpha }, out);
}

static ol_status sum_forward(ol_error *error, ol_call *call, const ol_rows *rows, double sign) {
  ol_tensor *x[] = { call->arg[0].tensor, call->arg[1].tensor };
  double alpha = call->arg[2].number;
  if (alpha == 1) return ol_map_call(error, call, rows, 2, NULL);
  OL_TRY(check_alpha(error, call->op->name, x, alpha));
  return ol_map_call(error, call, &add_scaled, 2, (double[OL_SCALARS]){ sign * alpha });
}

/* The gradient of x + factor * y. */
static ol_status sum_backward(ol_error *error, ol_back *back, double factor) {
  ol_tensor *g = back->grad_out[0];
  if (back->needs[0]) back->grad[0] = ol_retain(g);
  if (!back->needs[1]) return OL_OK;
  if (factor != 1) return ol_scale(error, g, factor, &back->grad[1]);
  back->grad[1] = ol_retain(g);
  return OL_OK;
}

static ol_status add_forward(ol_error *error, ol_call *call) {
  return sum_forward(error, call, &add, 1);
}

static ol_status add_backward(ol_error *error, ol_back *back) {
  return sum_backward(error, back, back->arg[2].number);
}

static ol_status sub_forward(ol_error *error, ol_call *call) {
  return sum_forward(error, call, &sub, -1);
}

static ol_status sub_backward(ol_error *error, ol_back *back) {
  return sum_backward(error, back, -back->arg[2].number);
}

static ol_status mul_forward(ol_error *error, ol_call *call) {
  OL_TRY(ol_keep_first(error, call, call->arg[1].tensor->requires_grad));
  return ol_map_call(error, call, &mul, 2, NULL);
}

static ol_status mul_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *x = ol_first(back), *y = back->arg[1].tensor;
  if (back->needs[0]) OL_TRY(ol_mul(error, g, y, &back->grad[0]));
  if (back->needs[1]) OL_TRY(ol_mul(error, g, x, &back->grad[1]));
  return OL_OK;
}

/* The rounding_mode of div: none, trunc, floor. */
static ol_status div_forward(ol_error *error, ol_call *call) {
  int rounding = call->arg[2].choice;
  OL_TRY(ol_keep_first(error, call, call->arg[1].tensor->requires_grad));
  if (rounding == 0) return ol_map_call(error, call, &divide, 2, NULL);
  return ol_divide_call(error, call, rounding == 1 ? OL_DIVIDE_TRUNC : OL_DIVIDE_FLOOR);
}

static ol_status div_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *x = ol_first(back), *y = back->arg[1].tensor;
  if (back->arg[2].choice != 0) return ol_flat_backward(error, back);
  if (back->needs[0]) OL_TRY(ol_div(error, g, y, &back->grad[0]));
  if (back->needs[1]) OL_TRY(ol_ternary(error, "div", &div_grad, g, x, y, &back->grad[1]));
  return OL_OK;
}

static ol_status neg_forward(ol_error *error, ol_call *call) {
  return ol_map_call(error, call, &neg, 1, NULL);
}

static ol_status neg_backward(ol_error *error, ol_back *back) {
  return ol_neg(error, back->grad_out[0], &back->grad[0]);
}

#define SELF_OTHER                                                                                 \
  { "self", OL_OPERAND, .doc = "a tensor or number" },                                             \
      { "other", OL_OPERAND, .doc = "broadcasts with self" }
#define SAMPLES                                                                                    \
  "{ { t(2, 3), t(2, 3) }, { t(2, 3), t(3) }, { t(3, 1), t(2, 1, 4) }, { t(), t() },"              \
  "  { t(2, 3), t() }, { t(0, 3), t(3) }, { t(4, 3):t(), t(3, 4) }, { t(2, 3), 2.5 } }"
#define SAMPLES_IN_PLACE                                                                           \
  "{ { t(2, 3), t(2, 3) }, { t(2, 3), t(3) }, { t(), t() }, { t(0, 3), t(3) },"                    \
  "  { t(4, 3):t(), t(3, 4) }, { t(2, 3), 2.5 } }"
#define ALPHA { "alpha", OL_NUMBER, .optional = true, .preset = 1, .doc = "factor on other" }
#define ROUNDING                                                                                   \
  { "rounding_mode", OL_CHOICE, .optional = true, .choices = "none|trunc|floor",                   \
    .doc = "to a whole number: towards zero, or down" }

#define ADD_PARTS .param = { SELF_OTHER, ALPHA }, .forward = add_forward, .backward = add_backward
#define SUB_PARTS .param = { SELF_OTHER, ALPHA }, .forward = sub_forward, .backward = sub_backward
#define MUL_PARTS .param = { SELF_OTHER }, .forward = mul_forward, .backward = mul_backward
#define DIV_PARTS                                                                                  \
  .param = { SELF_OTHER, ROUNDING }, .forward = div_forward, .backward = div_backward
#define NEG_PARTS                                                                                  \
  .param = { { "self", OL_TENSOR } }, .forward = neg_forward, .backward = neg_backward,            \
  .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() } }"

static const ol_op ops[] = {
  { .name = "add",
    .doc = "Adds elementwise: self + alpha * other.",
    .example = "print(optlua.tensor({ 1, 2 }):add(10)) --> tensor([11., 12.])",
    .samples = SAMPLES,
    ADD_PARTS },
  { .name = "add_",
    .doc = "add, in place.",
    .example = "print(optlua.tensor({ 1, 2 }):add_(10)) --> tensor([11., 12.])",
    .samples = SAMPLES_IN_PLACE,
    .flags = OL_OP_INPLACE,
    ADD_PARTS },
  { .name = "sub",
    .doc = "Subtracts elementwise: self - alpha * other.",
    .example = "print(optlua.tensor({ 1, 2 }):sub(10, { alpha = 2 })) --> tensor([-19., -18.])",
    .samples = SAMPLES,
    SUB_PARTS },
  { .name = "sub_",
    .doc = "sub, in place.",
    .example = "print(optlua.tensor({ 1, 2 }):sub_(1)) --> tensor([0., 1.])",
    .samples = SAMPLES_IN_PLACE,
    .flags = OL_OP_INPLACE,
    SUB_PARTS },
  { .name = "mul",
    .doc = "Multiplies elementwise.",
    .example = "print(optlua.tensor({ 1, 2 }):mul(3)) --> tensor([3., 6.])",
    .samples = SAMPLES,
    .saves = OL_SAVE_FOR_OTHERS(0) | OL_SAVE_FOR_OTHERS(1),
    MUL_PARTS },
  { .name = "mul_",
    .doc = "mul, in place.",
    .example = "print(optlua.tensor({ 1, 2 }):mul_(3)) --> tensor([3., 6.])",
    .samples = SAMPLES_IN_PLACE,
    .saves = OL_SAVE_FOR_OTHERS(1),
    .flags = OL_OP_INPLACE,
    MUL_PARTS },
  { .name = "div",
    .doc = "Divides elementwise; integers give float32 unless rounding_mode is given. Integers "
           "rounded and divided by 0 raise.",
    .example = "print(optlua.tensor({ 7, -7 }):div(2, { rounding_mode = \"floor\" }))"
               " --> tensor([ 3., -4.])",
    .samples = SAMPLES,
    .saves = OL_SAVE_FOR_OTHERS(0) | OL_SAVE_ARG(1),
    DIV_PARTS },
  { .name = "div_",
    .doc = "div, in place.",
    .example = "print(optlua.tensor({ 1, 3 }):div_(2)) --> tensor([0.5000, 1.5000])",
    .samples = SAMPLES_IN_PLACE,
    .saves = OL_SAVE_ARG(1),
    .flags = OL_OP_INPLACE,
    DIV_PARTS },
  { .name = "neg",
    .doc = "Changes the sign of each element.",
    .example = "print(optlua.tensor({ 1, -2 }):neg()) --> tensor([-1.,  2.])",
    NEG_PARTS },
  { .name = "neg_",
    .doc = "neg, in place.",
    .example = "print(optlua.tensor({ 1, -2 }):neg_()) --> tensor([-1.,  2.])",
    .flags = OL_OP_INPLACE,
    NEG_PARTS },
  { 0 },
};

const ol_family ol_arithmetic_ops = { .name = "arithmetic", .doc = "Arithmetic", .ops = ops };
