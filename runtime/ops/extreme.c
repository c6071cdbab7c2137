/* extreme: the larger and the smaller of two, and bounds. NaN prevails. */
#include "ops/choose.h"
#include "ops/families.h"
#include "ops/pointwise.h"

#define MAXIMUM(x, y)    ((x) > (y) || !((x) >= (x)) ? (x) : (y))
#define MINIMUM(x, y)    ((x) < (y) || !((x) >= (x)) ? (x) : (y))
#define CLAMP(x, lo, hi) MINIMUM(MAXIMUM(x, lo), hi)
OL_NUMBERS(maximum, 2, MAXIMUM, MAXIMUM)
OL_NUMBERS(minimum, 2, MINIMUM, MINIMUM)
OL_NUMBERS(clamp, 3, CLAMP, CLAMP)

/* Of (g, x, y), for x; equal elements share. */
#define MAXIMUM_SLOPE(g, x, y) ((x) == (y) ? (g) / 2 : (x) < (y) ? 0 : (g))
#define MINIMUM_SLOPE(g, x, y) ((x) == (y) ? (g) / 2 : (x) > (y) ? 0 : (g))
OL_FLOATS(maximum_slope, 3, MAXIMUM_SLOPE)
OL_FLOATS(minimum_slope, 3, MINIMUM_SLOPE)

static ol_status pair_backward(ol_error *error, ol_back *back, const ol_rows *slope) {
  const char *name = back->op->name;
  ol_tensor *g = back->grad_out[0], *x = back->arg[0].tensor, *y = back->arg[1].tensor;
  if (back->needs[0]) OL_TRY(ol_ternary(error, name, slope, g, x, y, &back->grad[0]));
  if (back->needs[1]) OL_TRY(ol_ternary(error, name, slope, g, y, x, &back->grad[1]));
  return OL_OK;
}

static ol_status maximum_forward(ol_error *error, ol_call *call) {
  return ol_map_call(error, call, &maximum, 2, NULL);
}

static ol_status maximum_backward(ol_error *error, ol_back *back) {
  return pair_backward(error, back, &maximum_slope);
}

static ol_status minimum_forward(ol_error *error, ol_call *call) {
  return ol_map_call(error, call, &minimum, 2, NULL);
}

static ol_status minimum_backward(ol_error *error, ol_back *back) {
  return pair_backward(error, back, &minimum_slope);
}

/* Where the result of clamp moves: with x, or with a bound. */
#define INSIDE(x, lo, hi) ((x) >= (lo) && (x) <= (hi))
#define BELOW(x, lo, hi)  ((x) < (lo) && (lo) < (hi))
#define ABOVE(x, lo, hi)  ((x) > (hi) || (hi) < (lo))
#define LT(x, y)          ((x) < (y))
#define LE(x, y)          ((x) <= (y))
#define GT(x, y)          ((x) > (y))
#define GE(x, y)          ((x) >= (y))
OL_MASKS(inside, 3, INSIDE)
OL_MASKS(below, 3, BELOW)
OL_MASKS(above, 3, ABOVE)
OL_MASKS(less, 2, LT)
OL_MASKS(at_most, 2, LE)
OL_MASKS(greater, 2, GT)
OL_MASKS(at_least, 2, GE)

/* Integers may not lose a bound by wrapping. */
static ol_status check_bound(ol_error *error, const ol_call *call, int place) {
  const ol_tensor *bound = call->arg[place].tensor;
  if (!bound || bound->shape.ndim > 0 || ol_dtype_is_float(bound->dtype)) return OL_OK;
  return ol_check_fill(error, call->op->name, bound, call->arg[0].tensor->dtype);
}

static ol_status clamp_forward(ol_error *error, ol_call *call) {
  ol_tensor *self = call->arg[0].tensor, *lo = call->arg[1].tensor, *hi = call->arg[2].tensor;
  if (!lo && !hi)
    return ol_fail(error, OL_ARGUMENT, "%s: min, max or both are needed", call->op->name);
  OL_TRY(check_bound(error, call, 1));
  OL_TRY(check_bound(error, call, 2));
  OL_TRY(ol_keep_first(error, call, true));
  ol_tensor *x[] = { self, lo ? lo : hi, hi };
  const ol_rows *rows = lo && hi ? &clamp : lo ? &maximum : &minimum;
  return ol_map_rows(error, call, rows, lo && hi ? 3 : 2, x, NULL);
}

/* g where rows hold for x and the bounds, else 0. */
static ol_status pass(ol_error *error, ol_tensor *g, const ol_rows *rows, int count,
                      ol_tensor *const *x, ol_tensor **out) {
  ol_tensor *mask;
  OL_TRY(ol_map(error, "clamp", rows, count, x, NULL, &mask));
  ol_status status = ol_keep(error, mask, g, out);
  ol_release(mask);
  return status;
}

static ol_status clamp_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *lo = back->arg[1].tensor, *hi = back->arg[2].tensor;
  ol_tensor *x[] = { ol_first(back), lo ? lo : hi, hi };
  int count = lo && hi ? 3 : 2;
  const ol_rows *free = count == 3 ? &inside : lo ? &at_least : &at_most;
  if (back->needs[0]) OL_TRY(pass(error, g, free, count, x, &back->grad[0]));
  if (back->needs[1]) OL_TRY(pass(error, g, count == 3 ? &below : &less, count, x, &back->grad[1]));
  if (back->needs[2])
    OL_TRY(pass(error, g, count == 3 ? &above : &greater, count, x, &back->grad[2]));
  return OL_OK;
}

#define SELF_OTHER                                                                                 \
  .param = { { "self", OL_OPERAND, .doc = "a tensor or number" },                                  \
             { "other", OL_OPERAND, .doc = "broadcasts with self" } }
#define SAMPLES                                                                                    \
  "{ { t(2, 3), t(2, 3) }, { t(2, 3), t(3) }, { t(3, 1), t(2, 1, 4) }, { t(), t() },"              \
  "  { t(2, 3), t() }, { t(0, 3), t(3) }, { t(4, 3):t(), t(3, 4) }, { t(2, 3), 0.33 } }"
#define CLAMP_PARTS                                                                                \
  .param = { { "self", OL_TENSOR },                                                                \
             { "min", OL_OPERAND, .optional = true, .doc = "a number or a tensor" },               \
             { "max", OL_OPERAND, .optional = true,                                                \
               .doc = "a number or a tensor; it prevails over min" } },                            \
  .forward = clamp_forward, .backward = clamp_backward
#define CLAMP_SAMPLES                                                                              \
  "{ { t(3, 4), -0.55, 0.55 }, { t(3, 4), 0.15 }, { t(3, 4), { max = 0.15 } },"                    \
  "  { t(3, 4), t(4), t(3, 1) }, { t(), t(), t() }, { t(0, 3), t(3) },"                            \
  "  { t(4, 3):t(), t(3, 4) }, { t(4, 3):t(), { max = t(3, 4) } }"

static const ol_op ops[] = {
  { .name = "maximum",
    .doc = "The larger of two elements; NaN where one is NaN. Equal ones share the gradient.",
    .example = "print(optlua.tensor({ 1, 5 }):maximum(3)) --> tensor([3., 5.])",
    .samples = SAMPLES,
    SELF_OTHER,
    .saves = OL_SAVE_ARG(0) | OL_SAVE_ARG(1),
    .forward = maximum_forward,
    .backward = maximum_backward },
  { .name = "minimum",
    .doc = "The smaller of two elements; NaN where one is NaN. Equal ones share the gradient.",
    .example = "print(optlua.tensor({ 1, 5 }):minimum(3)) --> tensor([1., 3.])",
    .samples = SAMPLES,
    SELF_OTHER,
    .saves = OL_SAVE_ARG(0) | OL_SAVE_ARG(1),
    .forward = minimum_forward,
    .backward = minimum_backward },
  { .name = "clamp",
    .doc = "self, raised to min where it is less, lowered to max where it is greater.",
    .example = "print(optlua.tensor({ -5, 1, 5 }):clamp(0, 2)) --> tensor([0., 1., 2.])",
    .samples = CLAMP_SAMPLES ", { t(4), t(3, 4), t() } }",
    .saves = OL_SAVE_ARG(0) | OL_SAVE_ARG(1) | OL_SAVE_ARG(2),
    CLAMP_PARTS },
  { .name = "clamp_",
    .doc = "clamp, in place.",
    .example = "print(optlua.tensor({ -5, 1, 5 }):clamp_({ max = 2 })) --> tensor([-5.,  1.,  2.])",
    .samples = CLAMP_SAMPLES " }",
    .saves = OL_SAVE_ARG(1) | OL_SAVE_ARG(2),
    .flags = OL_OP_INPLACE,
    CLAMP_PARTS },
  { 0 },
};

const ol_family ol_extreme_ops = { .name = "extreme", .doc = "Extremes and bounds", .ops = ops };
