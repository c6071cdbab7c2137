/* exponential: exponentials, logarithms and the error function. Within 1 ulp, log and log2 of
 * floats within 3.5, but for the slopes. */
#include "ops/unary.h"

#define EXP_SLOPE(g, y) ((g) * (y))
OL_FLOATS_DIRECT(exp_rows, ol_vexp)
OL_FLOATS(exp_slope, 2, EXP_SLOPE)
OL_FROM_RESULT(exp)

#define EXPM1_SLOPE(g, y) ((g) * ((y) + 1))
OL_FLOATS_DIRECT(expm1_rows, ol_vexpm1)
OL_FLOATS(expm1_slope, 2, EXPM1_SLOPE)
OL_FROM_RESULT(expm1)

#define DEFINE_EXP2(suffix, type)                                                                  \
  static void exp2_rows_##suffix(int64_t count, char *const *data, const double *scalars) {        \
    type two[OL_TILE];                                                                             \
    (void)scalars;                                                                                 \
    OL_ASSUME_TILE(count);                                                                         \
    for (int64_t i = 0; i < count; i++) two[i] = 2;                                                \
    ol_vpow_##suffix(count, two, (const type *)data[1], (type *)data[0]);                          \
  }
DEFINE_EXP2(f32, float)
DEFINE_EXP2(f64, double)
OL_ROWS_OF_FLOATS(exp2_rows, .widen = true)
#define EXP2_SLOPE(g, y) ((g) * ((y) * (T)M_LN2))
OL_FLOATS(exp2_slope, 2, EXP2_SLOPE)
OL_FROM_RESULT(exp2)

#define LOG_SLOPE(g, x) ((g) / (x))
OL_FLOATS_DIRECT(log_rows, ol_vlog)
OL_FLOATS(log_slope, 2, LOG_SLOPE)
OL_FROM_ARGUMENT(log)

#define LOG1P_SLOPE(g, x) ((g) / ((x) + 1))
OL_FLOATS_DIRECT(log1p_rows, ol_vlog1p)
OL_FLOATS(log1p_slope, 2, LOG1P_SLOPE)
OL_FROM_ARGUMENT(log1p)

#define LOG2_SLOPE(g, x) ((g) / ((x) * (T)M_LN2))
OL_FLOATS_DIRECT(log2_rows, ol_vlog2)
OL_FLOATS(log2_slope, 2, LOG2_SLOPE)
OL_FROM_ARGUMENT(log2)

#define LOG10_SLOPE(g, x) ((g) / ((x) * (T)M_LN10))
OL_FLOATS_DIRECT(log10_rows, ol_vlog10)
OL_FLOATS(log10_slope, 2, LOG10_SLOPE)
OL_FROM_ARGUMENT(log10)

#define MINUS_SQUARE(x)    (-(x) * (x))
#define ERF_SLOPE(g, x, v) ((g) * ((T)M_2_SQRTPI * (v)))
OL_FLOATS_DIRECT(erf_rows, ol_verf)
OL_FLOATS_VIA(erf_slope, 2, ol_vexp, MINUS_SQUARE, ERF_SLOPE)
OL_FROM_ARGUMENT(erf)

static const ol_op ops[] = {
  OL_UNARY_OPS(exp, "e to the power of each element.", "t", OL_RESULT_SAVED, "0, 1",
               "1.0000, 2.7183"),
  OL_UNARY_OPS(expm1, "exp(x) - 1, exact near 0.", "t", OL_RESULT_SAVED, "0, 1", "0.0000, 1.7183"),
  OL_UNARY_OPS(exp2, "2 to the power of each element.", "t", OL_RESULT_SAVED, "3, -1",
               "8.0000, 0.5000"),
  OL_UNARY_OPS(log, "The natural logarithm.", "p", OL_ARGUMENT_SAVED, "1, 10", "0.0000, 2.3026"),
  OL_UNARY_OPS(log1p, "log(1 + x), exact near 0.", "p", OL_ARGUMENT_SAVED, "0, 1",
               "0.0000, 0.6931"),
  OL_UNARY_OPS(log2, "The logarithm to base 2.", "p", OL_ARGUMENT_SAVED, "1, 8", "0., 3."),
  OL_UNARY_OPS(log10, "The logarithm to base 10.", "p", OL_ARGUMENT_SAVED, "1, 100", "0., 2."),
  OL_UNARY_OPS(erf, "The error function.", "t", OL_ARGUMENT_SAVED, "0, 1", "0.0000, 0.8427"),
  { 0 },
};

const ol_family ol_exponential_ops = { .name = "exponential",
                                       .doc = "Exponentials and logarithms",
                                       .ops = ops };
