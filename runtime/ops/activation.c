/* activation: elementwise nonlinearities of networks. */
#include "ops/unary.h"

/* relu: max(x, 0); NaN stays NaN. The gradient passes where the result is positive. */
#define RELU(x)          ((x) < 0 ? 0 : (x))
#define RELU_SLOPE(g, y) ((y) > 0 ? (g) : 0)
OL_NUMBERS(relu_rows, 1, RELU, RELU)
OL_FLOATS(relu_slope, 2, RELU_SLOPE)
OL_FROM_RESULT(relu)

#define MINUS(x)            (-(x))
#define SIGMOID(x, v)       (1 / (1 + (v)))
#define SIGMOID_SLOPE(g, y) ((g) * ((1 - (y)) * (y)))
OL_FLOATS_VIA(sigmoid_rows, 1, ol_vexp, MINUS, SIGMOID, .widen = true)
OL_FLOATS(sigmoid_slope, 2, SIGMOID_SLOPE)
OL_FROM_RESULT(sigmoid)

/* silu: x * sigmoid(x); slope: s * (1 + x * (1 - s)) with s the sigmoid; v is exp(-x). */
#define SILU(x, v)          ((x) / (1 + (v)))
#define SILU_SLOPE(g, x, v) ((g) * (1 / (1 + (v))) * (1 + (x) * (1 - 1 / (1 + (v)))))
OL_FLOATS_VIA(silu_rows, 1, ol_vexp, MINUS, SILU)
OL_FLOATS_VIA(silu_slope, 2, ol_vexp, MINUS, SILU_SLOPE)
OL_FROM_ARGUMENT(silu)

/* gelu (Hendrycks & Gimpel, 2016): x * Φ(x), with Φ the normal distribution. */
#define GELU_INNER(x) ((x) * (T)M_SQRT1_2)
#define GELU(x, v)    ((x) * (T)0.5 * (1 + (v)))
OL_FLOATS_VIA(gelu_rows, 1, ol_verf, GELU_INNER, GELU)

/* Φ(x) + x φ(x), from x. */
#define DEFINE_GELU_RATE(suffix, type)                                                             \
  OL_KERNEL static void gelu_rate_##suffix(int64_t count, const type *x, type *y) {                \
    type density[OL_TILE], inner[OL_TILE];                                                         \
    OL_ASSUME_TILE(count);                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                          \
      inner[i] = x[i] * (type)M_SQRT1_2;                                                           \
      density[i] = x[i] * x[i] * (type) - 0.5;                                                     \
    }                                                                                              \
    ol_verf_##suffix(count, inner, inner);                                                         \
    ol_vexp_##suffix(count, density, density);                                                     \
    const type scale = (type)(M_2_SQRTPI * M_SQRT1_2 * 0.5);                                       \
    OL_APART for (int64_t i = 0; i < count; i++) y[i] =                                            \
        (type)0.5 * (1 + inner[i]) + x[i] * (scale * density[i]);                                  \
  }
DEFINE_GELU_RATE(f32, float)
DEFINE_GELU_RATE(f64, double)
#define TIMES(g, x, v) ((g) * (v))
OL_FLOATS_VIA(gelu_slope, 2, gelu_rate, OL_SAME, TIMES)

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
#define DEFINE_LOG1P_EXP(suffix, type)                                                             \
  static void log1p_exp_##suffix(int64_t count, const type *x, type *y) {                          \
    ol_vexp_##suffix(count, x, y);                                                                 \
    ol_vlog1p_##suffix(count, y, y);                                                               \
  }
DEFINE_LOG1P_EXP(f32, float)
DEFINE_LOG1P_EXP(f64, double)
#define BETA_TIMES(x)           ((x) * s[0])
#define SOFTPLUS(x, v)          ((x) * s[0] > s[1] ? (x) : (v) / s[0])
#define SOFTPLUS_SLOPE(g, x, v) ((x) * s[0] > s[1] ? (g) : (g) * ((v) / ((v) + 1)))
OL_FLOATS_VIA(softplus_rows, 1, log1p_exp, BETA_TIMES, SOFTPLUS)
OL_FLOATS_VIA(softplus_slope, 2, ol_vexp, BETA_TIMES, SOFTPLUS_SLOPE)

/* leaky_relu. s: negative_slope. */
#define LEAKY(x)          ((x) > 0 ? (x) : (x) * s[0])
#define LEAKY_SLOPE(g, x) ((x) > 0 ? (g) : (g) * s[0])
OL_FLOATS(leaky_relu_rows, 1, LEAKY)
OL_FLOATS(leaky_relu_slope, 2, LEAKY_SLOPE)

/* elu (Clevert et al., 2015). s: alpha. */
#define BELOW_ZERO(x)      ((x) < 0 ? (x) : 0)
#define ELU(x, v)          ((x) > 0 ? (x) : s[0] * (v))
#define ELU_SLOPE(g, x, v) ((x) > 0 ? (g) : (g) * (s[0] * (v)))
OL_FLOATS_VIA(elu_rows, 1, ol_vexpm1, BELOW_ZERO, ELU)
OL_FLOATS_VIA(elu_slope, 2, ol_vexp, BELOW_ZERO, ELU_SLOPE)

/* The numbers that follow self among the parameters. */
static void read_numbers(const ol_op *op, const ol_value *arg, double s[OL_SCALARS]) {
  for (int p = 1; op->param[p].name; p++) s[p - 1] = arg[p].number;
}

/* Forward and backward of an op of x and numbers, which are the scalars of the rows name_rows of x,
 * and name_slope of (g, x). */
#define WITH_NUMBERS(name)                                                                         \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    double s[OL_SCALARS] = { 0 };                                                                  \
    read_numbers(call->op, call->arg, s);                                                          \
    return ol_map_call(error, call, &name##_rows, 1, s);                                           \
  }                                                                                                \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    double s[OL_SCALARS] = { 0 };                                                                  \
    ol_tensor *x[] = { back->grad_out[0], back->arg[0].tensor };                                   \
    read_numbers(back->op, back->arg, s);                                                          \
    return ol_map(error, #name, &name##_slope, 2, x, s, &back->grad[0]);                           \
  }
WITH_NUMBERS(softplus)
WITH_NUMBERS(leaky_relu)
WITH_NUMBERS(elu)

#define NUMBER(word, value, sentence)                                                              \
  { word, OL_NUMBER, .optional = true, .preset = value, .doc = sentence }

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
  { .name = "softplus",
    .doc = "log(1 + exp(beta x)) / beta: a smooth relu.",
    .example = "print(optlua.tensor({ 0, 2 }):softplus()) --> tensor([0.6931, 2.1269])",
    .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() }, { t(3, 4), 2.5, 1.3 } }",
    .param = { { "self", OL_TENSOR },
               NUMBER("beta", 1, "the sharpness"),
               NUMBER("threshold", 20, "where beta x is above it, the result is x") },
    .saves = OL_SAVE_ARG(0),
    OL_FUNCTIONS(softplus) },
  { .name = "leaky_relu",
    .doc = "x where it is positive, else negative_slope * x.",
    .example = "print(optlua.tensor({ -100, 2 }):leaky_relu()) --> tensor([-1.,  2.])",
    .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() }, { t(3, 4), 0.3 } }",
    .param = { { "self", OL_TENSOR }, NUMBER("negative_slope", 0.01, "the factor below 0") },
    .saves = OL_SAVE_ARG(0),
    OL_FUNCTIONS(leaky_relu) },
  { .name = "elu",
    .doc = "x where it is positive, else alpha * (exp(x) - 1).",
    .example = "print(optlua.tensor({ -1, 2 }):elu()) --> tensor([-0.6321,  2.0000])",
    .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() }, { t(3, 4), 0.3 } }",
    .param = { { "self", OL_TENSOR }, NUMBER("alpha", 1, "minus the value far below 0") },
    .saves = OL_SAVE_ARG(0),
    OL_FUNCTIONS(elu) },
  { 0 },
};

const ol_family ol_activation_ops = { .name = "activation", .doc = "Activations", .ops = ops };
