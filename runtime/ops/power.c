/* power: powers. */
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"

/* Integers wrap; a negative power of anything but 1 and -1 is 0. */
static inline int64_t pow_int(int64_t x, int64_t y) {
  uint64_t result = 1, base = (uint64_t)x;
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  for (; y > 0; y >>= 1, base *= base)
    if (y & 1) result *= base;
  return (int64_t)result;
}
OL_MAP_2(power_u8, uint8_t, uint8_t, pow_int)
OL_MAP_2(power_i64, int64_t, int64_t, pow_int)

#define DEFINE_POWER(suffix, type)                                                                 \
  static void power_##suffix(int64_t count, char *const *data, const double *scalars) {            \
    (void)scalars;                                                                                 \
    ol_vpow_##suffix(count, (const type *)data[1], (const type *)data[2], (type *)data[0]);        \
  }
DEFINE_POWER(f32, float)
DEFINE_POWER(f64, double)
OL_ROWS_OF_NUMBERS(power)

/* Of (g, x, y): g * y * x^(y-1), and 0 where y is 0. */
#define DEFINE_POWER_SLOPE(suffix, type)                                                           \
  OL_KERNEL static void power_slope_##suffix(int64_t count, char *const *data,                     \
                                             const double *scalars) {                              \
    const type *g = (const type *)data[1], *x = (const type *)data[2], *y = (const type *)data[3]; \
    type *out = (type *)data[0], v[OL_TILE];                                                       \
    (void)scalars;                                                                                 \
    OL_ASSUME_TILE(count);                                                                         \
    for (int64_t i = 0; i < count; i++) v[i] = y[i] - 1;                                           \
    ol_vpow_##suffix(count, x, v, v);                                                              \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = y[i] == 0 ? 0 : g[i] * (y[i] * v[i]);    \
  }
DEFINE_POWER_SLOPE(f32, float)
DEFINE_POWER_SLOPE(f64, double)
OL_ROWS_OF_FLOATS(power_slope)

/* Of (g, result, x): g * result * log(x), and 0 where x is 0 and the result is finite. */
#define EXPONENT_SLOPE(g, y, x, v) ((x) == 0 && (y) - (y) == 0 ? 0 : (g) * ((y) * (v)))
OL_FLOATS_VIA(exponent_slope, 3, ol_vlog, OL_SAME, EXPONENT_SLOPE)

/* The usual exponents need no logarithm. */
#define SQUARE(x)              ((x) * (x))
#define SQUARE_INT(x)          ((uint64_t)(x) * (uint64_t)(x))
#define SQUARE_SLOPE(g, x)     ((g) * (2 * (x)))
#define CUBE(x)                ((x) * (x) * (x))
#define CUBE_INT(x)            (SQUARE_INT(x) * (uint64_t)(x))
#define CUBE_SLOPE(g, x)       ((g) * (3 * ((x) * (x))))
#define ROOT(x)                (sqrt(x))
#define ROOT_SLOPE(g, x)       ((g) * ((T)0.5 / sqrt(x)))
#define RECIPROCAL(x)          (1 / (x))
#define RECIPROCAL_SLOPE(g, x) (-(g) / ((x) * (x)))
OL_NUMBERS(square, 1, SQUARE, SQUARE_INT)
OL_NUMBERS(cube, 1, CUBE, CUBE_INT)
OL_FLOATS(root, 1, ROOT)
OL_FLOATS(reciprocal, 1, RECIPROCAL)
OL_FLOATS(square_slope, 2, SQUARE_SLOPE)
OL_FLOATS(cube_slope, 2, CUBE_SLOPE)
OL_FLOATS(root_slope, 2, ROOT_SLOPE)
OL_FLOATS(reciprocal_slope, 2, RECIPROCAL_SLOPE)

static const struct shortcut {
  double exponent;
  const ol_rows *rows, *slope;
} shortcuts[] = { { 2, &square, &square_slope },
                  { 3, &cube, &cube_slope },
                  { 0.5, &root, &root_slope },
                  { -1, &reciprocal, &reciprocal_slope } };

/* The shortcut for x to the power y, or NULL: y must be one number that x's dtype absorbs. */
static const struct shortcut *find_shortcut(ol_tensor *x, ol_tensor *y) {
  if (y->shape.ndim > 0 || ol_result_dtype(2, (ol_tensor *[]){ x, y }) != x->dtype) return NULL;
  double exponent = ol_tensor_get(y, 0);
  for (size_t i = 0; i < sizeof shortcuts / sizeof *shortcuts; i++)
    if (shortcuts[i].exponent == exponent && shortcuts[i].rows->of[x->dtype]) return &shortcuts[i];
  return NULL;
}

static ol_status check_exponent(ol_error *error, const char *op, ol_tensor *x, ol_tensor *y) {
  if (ol_dtype_is_float(x->dtype) || ol_dtype_is_float(y->dtype) || y->shape.ndim > 0 ||
      ol_tensor_get_integer(y, 0) >= 0)
    return OL_OK;
  return ol_fail(error, OL_ARGUMENT,
                 "%s: a negative power of integers is a fraction; convert with :to(\"float32\")",
                 op);
}

static ol_status pow_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *y = call->arg[1].tensor;
  OL_TRY(check_exponent(error, call->op->name, x, y));
  OL_TRY(ol_keep_first(error, call, true));
  const struct shortcut *shortcut = find_shortcut(x, y);
  if (shortcut) return ol_map_call(error, call, shortcut->rows, 1, NULL);
  return ol_map_call(error, call, &power, 2, NULL);
}

static ol_status pow_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *x = ol_first(back), *y = back->arg[1].tensor;
  const struct shortcut *shortcut = back->needs[0] ? find_shortcut(x, y) : NULL;
  if (shortcut)
    OL_TRY(ol_binary(error, "pow", shortcut->slope, g, x, &back->grad[0]));
  else if (back->needs[0])
    OL_TRY(ol_ternary(error, "pow", &power_slope, g, x, y, &back->grad[0]));
  if (!back->needs[1]) return OL_OK;
  return ol_ternary(error, "pow", &exponent_slope, g, back->out[0], x, &back->grad[1]);
}

#define PARTS                                                                                      \
  .param = { { "self", OL_OPERAND, .doc = "the base: a tensor or number" },                        \
             { "exponent", OL_OPERAND, .doc = "broadcasts with self" } },                          \
  .forward = pow_forward, .backward = pow_backward

static const ol_op ops[] = {
  { .name = "pow",
    .doc = "Raises self to the power of exponent elementwise.",
    .example = "print(optlua.tensor({ 1, 2, 3 }):pow(2)) --> tensor([1., 4., 9.])",
    .samples = "{ { p(2, 3), t(2, 3) }, { p(2, 3), t(3) }, { p(3, 1), t(2, 1, 4) }, { p(), t() },"
               "  { p(0, 3), t(3) }, { p(4, 3):t(), t(3, 4) }, { t(2, 3), 2 }, { t(4, 3):t(), 3 },"
               "  { p(2, 3), 0.5 }, { t(2, 3), -1 }, { p(2, 3), 1.7 }, { 2, t(2, 3) } }",
    .saves = OL_SAVE_ARG(0) | OL_SAVE_FOR_OTHERS(1) | OL_SAVE_OUT(0),
    PARTS },
  { .name = "pow_",
    .doc = "pow, in place.",
    .example = "print(optlua.tensor({ 1, 2, 3 }):pow_(2)) --> tensor([1., 4., 9.])",
    .samples = "{ { p(2, 3), t(2, 3) }, { p(2, 3), t(3) }, { p(), t() }, { p(0, 3), t(3) },"
               "  { p(4, 3):t(), t(3, 4) }, { t(2, 3), 2 } }",
    .saves = OL_SAVE_FOR_OTHERS(1) | OL_SAVE_OUT(0),
    .flags = OL_OP_INPLACE,
    PARTS },
  { 0 },
};

const ol_family ol_power_ops = { .name = "power", .doc = "Powers", .ops = ops };
