/* piecewise: activations made of straight pieces (and one parabola). */
#include "ops/unary.h"

/* leaky_relu. s: negative_slope. */
#define LEAKY(x)          ((x) > 0 ? (x) : (x) * s[0])
#define LEAKY_SLOPE(g, x) ((x) > 0 ? (g) : (g) * s[0])
OL_FLOATS(leaky_relu_rows, 1, LEAKY)
OL_FLOATS(leaky_relu_slope, 2, LEAKY_SLOPE)
OL_WITH_NUMBERS(leaky_relu)

/* hardtanh. s: min_val, max_val. NaN stays NaN. */
#define WITHIN(x, low, high)       ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
#define INSIDE(x, low, high, g, o) ((x) > (low) && (x) < (high) ? (g) : (o))
#define HARDTANH(x)                WITHIN(x, s[0], s[1])
#define HARDTANH_SLOPE(g, x)       INSIDE(x, s[0], s[1], g, 0)
OL_FLOATS(hardtanh_rows, 1, HARDTANH)
OL_FLOATS(hardtanh_slope, 2, HARDTANH_SLOPE)

static ol_status check_hardtanh(ol_error *error, const double s[OL_SCALARS]) {
  if (!(s[0] > s[1])) return OL_OK;
  return ol_fail(error, OL_ARGUMENT, "hardtanh: min_val is %.14g, above max_val, %.14g", s[0],
                 s[1]);
}
OL_WITH_CHECKED_NUMBERS(hardtanh, check_hardtanh)

#define RELU6(x)          WITHIN(x, 0, 6)
#define RELU6_SLOPE(g, x) INSIDE(x, 0, 6, g, 0)
OL_FLOATS(relu6_rows, 1, RELU6)
OL_FLOATS(relu6_slope, 2, RELU6_SLOPE)
OL_FROM_ARGUMENT(relu6)

/* hardsigmoid and hardswish (Howard et al., 2019). */
#define HARDSIGMOID(x)          (RELU6((x) + 3) / 6)
#define HARDSIGMOID_SLOPE(g, x) INSIDE(x, -3, 3, (g) / 6, 0)
OL_FLOATS(hardsigmoid_rows, 1, HARDSIGMOID)
OL_FLOATS(hardsigmoid_slope, 2, HARDSIGMOID_SLOPE)
OL_FROM_ARGUMENT(hardsigmoid)

#define HARDSWISH(x)          ((x) * RELU6((x) + 3) / 6)
#define HARDSWISH_SLOPE(g, x) ((x) < -3 ? 0 : (x) < 3 ? (g) * ((x) / 3 + (T)0.5) : (g))
OL_FLOATS(hardswish_rows, 1, HARDSWISH)
OL_FLOATS(hardswish_slope, 2, HARDSWISH_SLOPE)
OL_FROM_ARGUMENT(hardswish)

/* threshold. s: threshold, value. */
#define THRESHOLD(x)          ((x) <= s[0] ? s[1] : (x))
#define THRESHOLD_SLOPE(g, x) ((x) <= s[0] ? 0 : (g))
OL_FLOATS(threshold_rows, 1, THRESHOLD)
OL_FLOATS(threshold_slope, 2, THRESHOLD_SLOPE)
OL_WITH_NUMBERS(threshold)

/* hardshrink, softshrink. s: lambd. */
#define HARDSHRINK(x)      ((x) >= -s[0] && (x) <= s[0] ? 0 : (x))
#define SOFTSHRINK(x)      ((x) > s[0] ? (x) - s[0] : (x) < -s[0] ? (x) + s[0] : (x) * 0)
#define SHRINK_SLOPE(g, x) ((x) >= -s[0] && (x) <= s[0] ? 0 : (g))
OL_FLOATS(hardshrink_rows, 1, HARDSHRINK)
OL_FLOATS(hardshrink_slope, 2, SHRINK_SLOPE)
OL_WITH_NUMBERS(hardshrink)
OL_FLOATS(softshrink_rows, 1, SOFTSHRINK)
OL_FLOATS(softshrink_slope, 2, SHRINK_SLOPE)

static ol_status check_softshrink(ol_error *error, const double s[OL_SCALARS]) {
  if (!(s[0] < 0)) return OL_OK;
  return ol_fail(error, OL_ARGUMENT, "softshrink: lambd is %.14g, wants at least 0", s[0]);
}
OL_WITH_CHECKED_NUMBERS(softshrink, check_softshrink)

/* Ops without numbers, with samples beyond their corners at ±3 and 6. */
#define CORNERED_OPS(n, sentence, input, output)                                                   \
  { .name = #n,                                                                                    \
    .doc = sentence,                                                                               \
    .example = "print(optlua.tensor({ " input " }):" #n "()) --> tensor([" output "])",            \
    .samples = CORNERED_SAMPLES,                                                                   \
    .saves = OL_SAVE_ARG(0),                                                                       \
    OL_SELF,                                                                                       \
    OL_FUNCTIONS(n) },                                                                             \
  {                                                                                                \
    .name = #n "_", .doc = #n ", in place.",                                                       \
    .example = "print(optlua.tensor({ " input " }):" #n "_()) --> tensor([" output "])",           \
    .samples = CORNERED_SAMPLES, .flags = OL_OP_INPLACE, OL_SELF, OL_FUNCTIONS(n)                  \
  }
#define CORNERED_SAMPLES                                                                           \
  "{ { t(3, 4) }, { t(3, 4):mul(5) }, { t() }, { t(0, 3) }, { t(4, 3):t() } }"

static const ol_op ops[] = {
  OL_NUMBERED_OPS(leaky_relu, "x where it is positive, else negative_slope * x.", "0.3", "-100, 2",
                  "-1.,  2.", OL_SETTING("negative_slope", 0.01, "the factor below 0")),
  OL_NUMBERED_OPS(hardtanh, "x, at least min_val and at most max_val.", "-1.5, 2.5", "-2, 0.5, 2",
                  "-1.0000,  0.5000,  1.0000", OL_SETTING("min_val", -1, "the least result"),
                  OL_SETTING("max_val", 1, "the greatest result")),
  CORNERED_OPS(relu6, "x, at least 0 and at most 6.", "-1, 2, 8", "0., 2., 6."),
  CORNERED_OPS(hardsigmoid, "(x + 3) / 6, at least 0 and at most 1.", "-4, 0, 4",
               "0.0000, 0.5000, 1.0000"),
  CORNERED_OPS(hardswish, "x * hardsigmoid(x).", "-4, 0, 4", "-0.,  0.,  4."),
  { .name = "threshold",
    .doc = "x where it is above threshold, else value.",
    .example = "print(optlua.tensor({ 1, 2 }):threshold(1, 5)) --> tensor([5., 2.])",
    .samples = "{ { t(3, 4), 0.5, 3 }, { t(), 1, 2 }, { t(0, 3), 1, 2 }, { t(4, 3):t(), -1, 2 } }",
    .saves = OL_SAVE_ARG(0),
    .param = { { "self", OL_TENSOR }, { "threshold", OL_NUMBER }, { "value", OL_NUMBER } },
    OL_FUNCTIONS(threshold) },
  { .name = "threshold_",
    .doc = "threshold, in place.",
    .example = "print(optlua.tensor({ 1, 2 }):threshold_(1, 5)) --> tensor([5., 2.])",
    .samples = "{ { t(3, 4), 0.5, 3 }, { t(), 1, 2 }, { t(0, 3), 1, 2 }, { t(4, 3):t(), -1, 2 } }",
    .flags = OL_OP_INPLACE,
    .param = { { "self", OL_TENSOR }, { "threshold", OL_NUMBER }, { "value", OL_NUMBER } },
    OL_FUNCTIONS(threshold) },
  OL_NUMBERED_OP(hardshrink, "x where |x| is above lambd, else 0.", "1.5", "-1, 0.25, 2",
                 "-1.,  0.,  2.", OL_SETTING("lambd", 0.5, "below it is 0")),
  OL_NUMBERED_OP(softshrink, "x moved by lambd towards 0, and 0 where |x| is not above it.", "1.5",
                 "-1, 0.25, 2", "-0.5000,  0.0000,  1.5000",
                 OL_SETTING("lambd", 0.5, "how far x is moved")),
  { 0 },
};

const ol_family ol_piecewise_ops = { .name = "piecewise",
                                     .doc = "Piecewise activations",
                                     .ops = ops };
