/* activation: elementwise nonlinearities of networks. */
#include "base/erf.h"
#include "ops/unary.h"

/* relu: max(x, 0); NaN stays NaN. The gradient passes where the result is positive. */
#define RELU(x)          ((x) < 0 ? 0 : (x))
#define RELU_SLOPE(g, y) ((y) > 0 ? (g) : 0)
OL_NUMBERS(relu_rows, 1, RELU, RELU)
OL_FLOATS(relu_slope, 2, RELU_SLOPE)
OL_FROM_RESULT(relu)

#define SIGMOID(x, v)       (1 / (1 + (v)))
#define SIGMOID_SLOPE(g, y) ((g) * ((1 - (y)) * (y)))
OL_FLOATS_VIA(sigmoid_rows, 1, ol_vexp, OL_MINUS, SIGMOID, .widen = true)
OL_FLOATS(sigmoid_slope, 2, SIGMOID_SLOPE)
OL_FROM_RESULT(sigmoid)

/* silu: x * sigmoid(x); slope: s * (1 + x * (1 - s)) with s the sigmoid; v is exp(-x). */
#define SILU(x, v)          ((x) / (1 + (v)))
#define SILU_SLOPE(g, x, v) ((g) * (1 / (1 + (v))) * (1 + (x) * (1 - 1 / (1 + (v)))))
OL_FLOATS_VIA(silu_rows, 1, ol_vexp, OL_MINUS, SILU)
OL_FLOATS_VIA(silu_slope, 2, ol_vexp, OL_MINUS, SILU_SLOPE)
OL_FROM_ARGUMENT(silu)

/* gelu (Hendrycks & Gimpel, 2016): x * Φ(x), with Φ the normal distribution; of doubles by erf. */
#define GELU_INNER(x) ((x) * (T)M_SQRT1_2)
#define GELU(x, v)    ((x) * (T)0.5 * (1 + (v)))
OL_VIA_1(gelu_rows_f64, double, ol_verf_f64, GELU_INNER, GELU)

/* Of floats by the tail of the distribution, with t = |x|: Φ(-t) = exp(-t²/2) tail(t), so that
 * nothing cancels where x is negative. Within 3.7 ulp of the result from -1 on, 4.7 from -13 on. */
#define GELU_T(x)     (fabsf(x) > 14.5f ? 14.5f : fabsf(x)) /* where the tail is 0 */
#define GELU_LOSS(t)  ((t) * (ol_bell_float(t) * ol_tail_float(t)))
#define GELU_FLOAT(x) ((x) < 0 ? -GELU_LOSS(GELU_T(x)) : (x) - GELU_LOSS(GELU_T(x)))
OL_MAP_1(gelu_rows_f32, float, float, GELU_FLOAT)
OL_ROWS_OF_FLOATS(gelu_rows)

/* Φ(x) + x φ(x), from x. φ is the density, exp(-x²/2) / √(2π). */
#define ROOT             (M_2_SQRTPI * M_SQRT1_2 * 0.5) /* 1 / √(2π) */
#define GELU_FALL(t)     (ol_bell_float(t) * (ol_tail_float(t) - (float)ROOT * (t)))
#define GELU_RATE(x)     ((x) < 0 ? GELU_FALL(GELU_T(x)) : 1 - GELU_FALL(GELU_T(x)))
#define GELU_SLOPE(g, x) ((g) * GELU_RATE(x))
OL_MAP_2(gelu_slope_f32, float, float, GELU_SLOPE)

OL_KERNEL static void gelu_rate_f64(int64_t count, const double *x, double *y) {
  double density[OL_TILE], inner[OL_TILE];
  OL_ASSUME_TILE(count);
  for (int64_t i = 0; i < count; i++) {
    inner[i] = x[i] * M_SQRT1_2;
    density[i] = x[i] * x[i] * -0.5;
  }
  ol_verf_f64(count, inner, inner);
  ol_vexp_f64(count, density, density);
  OL_APART for (int64_t i = 0; i < count; i++) y[i] =
      0.5 * (1 + inner[i]) + x[i] * (ROOT * density[i]);
}
#define TIMES(g, x, v) ((g) * (v))
OL_VIA_2(gelu_slope_f64, double, gelu_rate_f64, OL_SAME, TIMES)
OL_ROWS_OF_FLOATS(gelu_slope)

/* Its approximation: x/2 * (1 + tanh(√(2/π) (x + 0.044715 x³))). */
#define TANH_SCALE     ((T)(M_2_SQRTPI * M_SQRT1_2))
#define CUBIC          ((T)0.044715)
#define TANH_INNER(x)  (TANH_SCALE * ((x) + CUBIC * ((x) * (x) * (x))))
#define INNER_SLOPE(x) (TANH_SCALE * (1 + 3 * CUBIC * ((x) * (x))))
#define GELU_TANH_RATE(x, v)                                                                       \
  ((T)0.5 * (1 + (v)) + (T)0.5 * (x) * ((1 - (v) * (v)) * INNER_SLOPE(x)))
#define GELU_TANH_SLOPE(g, x, v) ((g) * GELU_TANH_RATE(x, v))
OL_FLOATS_VIA(gelu_tanh_rows, 1, ol_vtanh, TANH_INNER, GELU)
OL_FLOATS_VIA(gelu_tanh_slope, 2, ol_vtanh, TANH_INNER, GELU_TANH_SLOPE)

static ol_status gelu_forward(ol_error *error, ol_call *call) {
  return ol_map_call(error, call, call->arg[1].choice ? &gelu_tanh_rows : &gelu_rows, 1, NULL);
}

static ol_status gelu_backward(ol_error *error, ol_back *back) {
  const ol_rows *slope = back->arg[1].choice ? &gelu_tanh_slope : &gelu_slope;
  return ol_binary(error, "gelu", slope, back->grad_out[0], back->arg[0].tensor, &back->grad[0]);
}

/* softplus: log(1 + exp(beta x)) / beta, x itself above the threshold. s: beta, threshold. */
#define BETA_TIMES(x)           ((x) * s[0])
#define SOFTPLUS(x, v)          ((x) * s[0] > s[1] ? (x) : (v) / s[0])
#define SOFTPLUS_SLOPE(g, x, v) ((x) * s[0] > s[1] ? (g) : (g) * ((v) / ((v) + 1)))
OL_FLOATS_VIA(softplus_rows, 1, ol_log1p_exp, BETA_TIMES, SOFTPLUS)
OL_FLOATS_VIA(softplus_slope, 2, ol_vexp, BETA_TIMES, SOFTPLUS_SLOPE)

/* elu (Clevert et al., 2015). s: alpha. */
#define BELOW_ZERO(x)      ((x) > 0 ? 0 : (x)) /* NaN stays NaN */
#define ELU(x, v)          ((x) > 0 ? (x) : s[0] * (v))
#define ELU_SLOPE(g, x, v) ((x) > 0 ? (g) : (g) * (s[0] * (v)))
OL_FLOATS_VIA(elu_rows, 1, ol_vexpm1, BELOW_ZERO, ELU)
OL_FLOATS_VIA(elu_slope, 2, ol_vexp, BELOW_ZERO, ELU_SLOPE)

/* celu (Barron, 2017). s: alpha. */
#define BELOW_ZERO_SCALED(x) ((x) > 0 ? 0 : (x) / s[0])
OL_FLOATS_VIA(celu_rows, 1, ol_vexpm1, BELOW_ZERO_SCALED, ELU)
#define CELU_SLOPE(g, x, v) ((x) > 0 ? (g) : (g) * (v))
OL_FLOATS_VIA(celu_slope, 2, ol_vexp, BELOW_ZERO_SCALED, CELU_SLOPE)

/* selu (Klambauer et al., 2017), with their constants. */
#define SELU_SCALE          ((T)1.0507009873554804934193349852946)
#define SELU_ALPHA          ((T)(1.0507009873554804934193349852946 * 1.6732632423543772848170429916717))
#define SELU(x, v)          ((x) > 0 ? SELU_SCALE * (x) : SELU_ALPHA * (v))
#define SELU_SLOPE(g, x, v) ((x) > 0 ? (g) * SELU_SCALE : (g) * (SELU_ALPHA * (v)))
OL_FLOATS_VIA(selu_rows, 1, ol_vexpm1, BELOW_ZERO, SELU)
OL_FLOATS_VIA(selu_slope, 2, ol_vexp, BELOW_ZERO, SELU_SLOPE)
OL_FROM_ARGUMENT(selu)

/* mish (Misra, 2019): x * tanh(softplus(x)). With e = exp(x) and n = e (e + 2) that is
 * x n / (n + 2), and the slope n / (n + 2) + 4 x e (e + 1) / (n + 2)². Above 20 tanh is 1. */
#define BELOW_20(x)         ((x) < 20 ? (x) : 20)
#define MISH_N(v)           ((v) * ((v) + 2))
#define MISH_TANH(v)        (MISH_N(v) / (MISH_N(v) + 2))
#define MISH(x, v)          ((x) * MISH_TANH(v))
#define MISH_BEND(v)        (4 * ((v) / (MISH_N(v) + 2)) * (((v) + 1) / (MISH_N(v) + 2)))
#define MISH_SLOPE(g, x, v) ((g) * (MISH_TANH(v) + (x) * MISH_BEND(v)))
OL_FLOATS_VIA(mish_rows, 1, ol_vexp, BELOW_20, MISH)
OL_FLOATS_VIA(mish_slope, 2, ol_vexp, BELOW_20, MISH_SLOPE)
OL_FROM_ARGUMENT(mish)

#define SOFTSIGN(x)          ((x) / (1 + fabs(x)))
#define SOFTSIGN_SLOPE(g, x) ((g) / ((1 + fabs(x)) * (1 + fabs(x))))
OL_FLOATS(softsign_rows, 1, SOFTSIGN)
OL_FLOATS(softsign_slope, 2, SOFTSIGN_SLOPE)
OL_FROM_ARGUMENT(softsign)

/* logsigmoid: log(1 / (1 + exp(-x))), without overflow. */
#define LOGSIGMOID(x, v)          (((x) < 0 ? (x) : 0) - (v))
#define LOGSIGMOID_SLOPE(g, x, v) ((g) / (1 + (v)))
OL_FLOATS_VIA(logsigmoid_rows, 1, ol_log1p_exp, OL_MINUS_ABS, LOGSIGMOID)
OL_FLOATS_VIA(logsigmoid_slope, 2, ol_vexp, OL_SAME, LOGSIGMOID_SLOPE)
OL_FROM_ARGUMENT(logsigmoid)

#define TANHSHRINK(x, v)          ((x) - (v))
#define TANHSHRINK_SLOPE(g, x, v) ((g) * ((v) * (v)))
OL_FLOATS_VIA(tanhshrink_rows, 1, ol_vtanh, OL_SAME, TANHSHRINK)
OL_FLOATS_VIA(tanhshrink_slope, 2, ol_vtanh, OL_SAME, TANHSHRINK_SLOPE)
OL_FROM_ARGUMENT(tanhshrink)

OL_WITH_NUMBERS(softplus)
OL_WITH_NUMBERS(elu)

static ol_status check_celu(ol_error *error, const double s[OL_SCALARS]) {
  return s[0] != 0 ? OL_OK : ol_fail(error, OL_ARGUMENT, "celu: alpha is 0, wants another number");
}
OL_WITH_CHECKED_NUMBERS(celu, check_celu)

static const ol_op ops[] = {
  OL_UNARY_OPS(relu, "The larger of each element and 0.", "t", OL_RESULT_SAVED, "-1, 0, 2",
               "0., 0., 2."),
  OL_UNARY_OPS(sigmoid, "1 / (1 + exp(-x)).", "t", OL_RESULT_SAVED, "0, 2", "0.5000, 0.8808"),
  OL_UNARY_OPS(silu, "x * sigmoid(x), also called swish.", "t", OL_ARGUMENT_SAVED, "0, 2",
               "0.0000, 1.7616"),
  { .name = "gelu",
    .doc = "x times the share of a normal distribution that lies below x.",
    .example = "print(optlua.tensor({ 0, 2 }):gelu()) --> tensor([0.0000, 1.9545])",
    .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() }, { t(3, 4), \"tanh\" },"
               "  { t(4, 3):t(), \"tanh\" }, { t(), \"tanh\" } }",
    .param = { { "self", OL_TENSOR },
               { "approximate", OL_CHOICE, .optional = true, .choices = "none|tanh",
                 .doc = "tanh: through tanh(√(2/π) (x + 0.044715 x³))" } },
    .saves = OL_SAVE_ARG(0),
    OL_FUNCTIONS(gelu) },
  OL_NUMBERED_OP(softplus, "log(1 + exp(beta x)) / beta: a smooth relu.", "2.5, 1.3", "0, 2",
                 "0.6931, 2.1269", OL_SETTING("beta", 1, "the sharpness"),
                 OL_SETTING("threshold", 20, "where beta x is above it, the result is x")),
  OL_NUMBERED_OPS(elu, "x where it is positive, else alpha * (exp(x) - 1).", "0.3", "-1, 2",
                  "-0.6321,  2.0000", OL_SETTING("alpha", 1, "minus the value far below 0")),
  OL_NUMBERED_OPS(celu, "x where it is positive, else alpha * (exp(x / alpha) - 1).", "0.3",
                  "-1, 2", "-0.6321,  2.0000",
                  OL_SETTING("alpha", 1, "minus the value far below 0")),
  OL_UNARY_OPS(selu, "1.0507 x where it is positive, else 1.7581 (exp(x) - 1).", "t",
               OL_ARGUMENT_SAVED, "-1, 2", "-1.1113,  2.1014"),
  OL_UNARY_OPS(mish, "x * tanh(log(1 + exp(x))).", "t", OL_ARGUMENT_SAVED, "0, 2",
               "0.0000, 1.9440"),
  OL_UNARY_OP(softsign, "x / (1 + |x|).", "t", OL_ARGUMENT_SAVED, "-1, 3", "-0.5000,  0.7500"),
  OL_UNARY_OP(logsigmoid, "log(1 / (1 + exp(-x))).", "t", OL_ARGUMENT_SAVED, "0, 2",
              "-0.6931, -0.1269"),
  OL_UNARY_OP(tanhshrink, "x - tanh(x).", "t", OL_ARGUMENT_SAVED, "0, 2", "0.0000, 1.0360"),
  { 0 },
};

const ol_family ol_activation_ops = { .name = "activation", .doc = "Activations", .ops = ops };
