/* trigonometry: circular and hyperbolic functions. Within 1 ulp, some of floats within 3.5 (see
 * base/vecmath.h), but for the slopes. */
#include "ops/unary.h"

#define TIMES(g, x, v)       ((g) * (v))
#define MINUS_TIMES(g, x, v) (-(g) * (v))
OL_FLOATS_DIRECT(sin_rows, ol_vsin)
OL_FLOATS_DIRECT(cos_rows, ol_vcos)
OL_FLOATS_DIRECT(sinh_rows, ol_vsinh)
OL_FLOATS_DIRECT(cosh_rows, ol_vcosh)
OL_FLOATS_VIA(sin_slope, 2, ol_vcos, OL_SAME, TIMES)
OL_FLOATS_VIA(cos_slope, 2, ol_vsin, OL_SAME, MINUS_TIMES)
OL_FLOATS_VIA(sinh_slope, 2, ol_vcosh, OL_SAME, TIMES)
OL_FLOATS_VIA(cosh_slope, 2, ol_vsinh, OL_SAME, TIMES)
OL_FROM_ARGUMENT(sin)
OL_FROM_ARGUMENT(cos)
OL_FROM_ARGUMENT(sinh)
OL_FROM_ARGUMENT(cosh)

#define TAN_SLOPE(g, y)  ((g) * ((y) * (y) + 1))
#define TANH_SLOPE(g, y) ((g) * (1 - (y) * (y)))
OL_FLOATS_DIRECT(tan_rows, ol_vtan)
OL_FLOATS_DIRECT(tanh_rows, ol_vtanh)
OL_FLOATS(tan_slope, 2, TAN_SLOPE)
OL_FLOATS(tanh_slope, 2, TANH_SLOPE)
OL_FROM_RESULT(tan)
OL_FROM_RESULT(tanh)

#define ASIN_SLOPE(g, x) ((g) / sqrt(1 - (x) * (x)))
#define ACOS_SLOPE(g, x) (-(g) / sqrt(1 - (x) * (x)))
#define ATAN_SLOPE(g, x) ((g) / ((x) * (x) + 1))
OL_FLOATS_DIRECT(asin_rows, ol_vasin)
OL_FLOATS_DIRECT(acos_rows, ol_vacos)
OL_FLOATS_DIRECT(atan_rows, ol_vatan)
OL_FLOATS(asin_slope, 2, ASIN_SLOPE)
OL_FLOATS(acos_slope, 2, ACOS_SLOPE)
OL_FLOATS(atan_slope, 2, ATAN_SLOPE)
OL_FROM_ARGUMENT(asin)
OL_FROM_ARGUMENT(acos)
OL_FROM_ARGUMENT(atan)

static const ol_op ops[] = {
  OL_UNARY_OPS(sin, "The sine, of radians.", "t", OL_ARGUMENT_SAVED, "0, 1", "0.0000, 0.8415"),
  OL_UNARY_OPS(cos, "The cosine, of radians.", "t", OL_ARGUMENT_SAVED, "0, 1", "1.0000, 0.5403"),
  OL_UNARY_OPS(tan, "The tangent, of radians.", "u", OL_RESULT_SAVED, "0, 1", "0.0000, 1.5574"),
  OL_UNARY_OPS(asin, "The arc sine, in radians.", "u", OL_ARGUMENT_SAVED, "0, 1", "0.0000, 1.5708"),
  OL_UNARY_OPS(acos, "The arc cosine, in radians.", "u", OL_ARGUMENT_SAVED, "0, 1",
               "1.5708, 0.0000"),
  OL_UNARY_OPS(atan, "The arc tangent, in radians.", "t", OL_ARGUMENT_SAVED, "0, 1",
               "0.0000, 0.7854"),
  OL_UNARY_OPS(sinh, "The hyperbolic sine.", "t", OL_ARGUMENT_SAVED, "0, 1", "0.0000, 1.1752"),
  OL_UNARY_OPS(cosh, "The hyperbolic cosine.", "t", OL_ARGUMENT_SAVED, "0, 1", "1.0000, 1.5431"),
  OL_UNARY_OPS(tanh, "The hyperbolic tangent.", "t", OL_RESULT_SAVED, "0, 1", "0.0000, 0.7616"),
  { 0 },
};

const ol_family ol_trigonometry_ops = { .name = "trigonometry",
                                        .doc = "Circular and hyperbolic functions",
                                        .ops = ops };
