/* unary: signs, roots and reciprocals. */
#include "ops/unary.h"

#define ABS(x)          (fabs(x))
#define ABS_INT(x)      ((x) < 0 ? 0 - (uint64_t)(x) : (uint64_t)(x))
#define SIGN(x)         ((x) > 0 ? 1 : (x) < 0 ? -1 : 0)
#define ABS_SLOPE(g, x) ((x) > 0 ? (g) : (x) < 0 ? -(g) : 0)
OL_NUMBERS(abs_rows, 1, ABS, ABS_INT)
OL_NUMBERS(sign_rows, 1, SIGN, SIGN)
OL_FLOATS(abs_slope, 2, ABS_SLOPE)
OL_FROM_ARGUMENT(abs)
OL_FLAT(sign)

#define SQRT(x)          (sqrt(x))
#define SQRT_SLOPE(g, y) ((g) / (2 * (y)))
OL_FLOATS(sqrt_rows, 1, SQRT, .widen = true)
OL_FLOATS(sqrt_slope, 2, SQRT_SLOPE)
OL_FROM_RESULT(sqrt)

#define RSQRT(x)          (1 / sqrt(x))
#define RSQRT_SLOPE(g, y) ((T) - 0.5 * (g) * ((y) * (y) * (y)))
OL_FLOATS(rsqrt_rows, 1, RSQRT, .widen = true)
OL_FLOATS(rsqrt_slope, 2, RSQRT_SLOPE)
OL_FROM_RESULT(rsqrt)

#define RECIPROCAL(x)          (1 / (x))
#define RECIPROCAL_SLOPE(g, y) (-(g) * ((y) * (y)))
OL_FLOATS(reciprocal_rows, 1, RECIPROCAL, .widen = true)
OL_FLOATS(reciprocal_slope, 2, RECIPROCAL_SLOPE)
OL_FROM_RESULT(reciprocal)

#define SQUARE(x)          ((x) * (x))
#define SQUARE_INT(x)      ((uint64_t)(x) * (uint64_t)(x))
#define SQUARE_SLOPE(g, x) ((g) * (2 * (x)))
OL_NUMBERS(square_rows, 1, SQUARE, SQUARE_INT)
OL_FLOATS(square_slope, 2, SQUARE_SLOPE)
OL_FROM_ARGUMENT(square)

static const ol_op ops[] = {
  OL_UNARY_OPS(abs, "The absolute value.", "t", OL_ARGUMENT_SAVED, "-1, 2", "1., 2."),
  OL_UNARY_OPS(sign, "-1, 0 or 1: the sign.", "t", OL_NOTHING_SAVED, "-3, 0, 5", "-1.,  0.,  1."),
  OL_UNARY_OPS(sqrt, "The square root.", "p", OL_RESULT_SAVED, "4, 9", "2., 3."),
  OL_UNARY_OPS(rsqrt, "One divided by the square root.", "p", OL_RESULT_SAVED, "4, 16",
               "0.5000, 0.2500"),
  OL_UNARY_OPS(reciprocal, "One divided by each element.", "p", OL_RESULT_SAVED, "2, 4",
               "0.5000, 0.2500"),
  OL_UNARY_OPS(square, "The square.", "t", OL_ARGUMENT_SAVED, "-3, 2", "9., 4."),
  { 0 },
};

const ol_family ol_unary_ops = { .name = "unary", .doc = "Signs and roots", .ops = ops };
