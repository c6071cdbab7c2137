/* division: division to whole numbers, and what it leaves. */
#include "ops/division.h"

#include <stdatomic.h>

#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"
#include "tensor/loop.h"

/* Integers. The least int64 divided by -1 wraps to itself and leaves 0; C leaves it undefined. */
static inline int64_t trunc_int(int64_t x, int64_t y) {
  return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static inline int64_t fmod_int(int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }

/* Whether the quotient of x and y was cut upwards. */
static inline bool cut(int64_t x, int64_t y) { return fmod_int(x, y) != 0 && (x < 0) != (y < 0); }

static inline int64_t floor_int(int64_t x, int64_t y) { return trunc_int(x, y) - cut(x, y); }

static inline int64_t remainder_int(int64_t x, int64_t y) {
  return fmod_int(x, y) + (cut(x, y) ? y : 0);
}

/* Floats. fmod is exact, so every libm gives the same bits. The floor is found from what is left,
 * as Python does, so that x = floor * y + remainder holds where it can. */
#define DEFINE_FLOAT(suffix, type)                                                                 \
  static inline type remainder_##suffix(type left, type y) {                                       \
    return left != 0 && (y < 0) != (left < 0) ? left + y : left;                                   \
  }                                                                                                \
  static inline type floor_##suffix(type left, type x, type y) {                                   \
    type quotient = (x - left) / y - (left != 0 && (y < 0) != (left < 0) ? 1 : 0);                 \
    type whole = floor(quotient);                                                                  \
    type nearest = quotient - whole > (type)0.5 ? whole + 1 : whole;                               \
    return y == 0 ? x / y : quotient == 0 ? copysign((type)0, x / y) : nearest;                    \
  }
DEFINE_FLOAT(f32, float)
DEFINE_FLOAT(f64, double)

/* What is left of float32, in double. While the quotient has at most 29 bits it is further from the
 * next whole number than rounding reaches, and its product with y and the difference are exact.
 * Everything else, also infinity and NaN, is for libm. */
static inline void left_f32(int64_t count, const float *x, const float *y, float *left) {
  int exact = 1;
  OL_APART for (int64_t i = 0; i < count; i++) {
    double quotient = trunc((double)x[i] / y[i]), rest = x[i] - quotient * y[i];
    left[i] = (float)copysign(rest, x[i]);
    exact &= fabs(quotient) < 0x1p29 && rest == rest;
  }
  for (int64_t i = 0; i < count && !exact; i++) left[i] = fmodf(x[i], y[i]);
}

static inline void left_f64(int64_t count, const double *x, const double *y, double *left) {
  for (int64_t i = 0; i < count; i++) left[i] = fmod(x[i], y[i]);
}

/* Rows of an expression of x, y and what is left, and one for integers. */
#define LEFT_KERNEL(name, suffix, type, expression)                                                \
  OL_MAP_BEGIN(name##_##suffix, type, type)                                                        \
  const T *y = (const T *)data[2];                                                                 \
  T left[OL_TILE];                                                                                 \
  left_##suffix(count, x, y, left);                                                                \
  OL_APART for (int64_t i = 0; i < count; i++) out[i] = expression(left[i], x[i], y[i]);           \
  }
#define LEFT_ROWS(name, expression, integers)                                                      \
  OL_MAP_2(name##_u8, uint8_t, uint8_t, integers)                                                  \
  OL_MAP_2(name##_i64, int64_t, int64_t, integers)                                                 \
  LEFT_KERNEL(name, f32, float, expression)                                                        \
  LEFT_KERNEL(name, f64, double, expression)                                                       \
  OL_ROWS_OF_NUMBERS(name)

#define OF_FLOAT(name, x)     _Generic((x), float: name##_f32, default: name##_f64)
#define TRUNC(x, y)           (trunc((x) / (y)))
#define FLOOR(left, x, y)     OF_FLOAT(floor, x)(left, x, y)
#define FMOD(left, x, y)      (left)
#define REMAINDER(left, x, y) OF_FLOAT(remainder, x)(left, y)
OL_NUMBERS(divide_trunc, 2, TRUNC, trunc_int)
LEFT_ROWS(divide_floor, FLOOR, floor_int)
LEFT_ROWS(divide_fmod, FMOD, fmod_int)
LEFT_ROWS(divide_remainder, REMAINDER, remainder_int)

static const ol_rows *const divisions[] = { [OL_DIVIDE_TRUNC] = &divide_trunc,
                                            [OL_DIVIDE_FLOOR] = &divide_floor,
                                            [OL_DIVIDE_FMOD] = &divide_fmod,
                                            [OL_DIVIDE_REMAINDER] = &divide_remainder };

/* Sets the flag that is the context when a row holds a zero. */
#define FIND_ZERO(suffix, type)                                                                    \
  static void find_zero_##suffix(int64_t count, char *const *data, const int64_t *stride,          \
                                 const void *context) {                                            \
    bool found = false;                                                                            \
    for (int64_t i = 0; i < count; i++) found |= *(const type *)(data[0] + i * stride[0]) == 0;    \
    if (found) atomic_store((atomic_bool *)context, true);                                         \
  }
FIND_ZERO(u8, uint8_t)
FIND_ZERO(i64, int64_t)

static bool holds_zero(ol_tensor *y) {
  ol_loop loop;
  atomic_bool found = false;
  ol_loop_init(&loop, &y->shape, 1, &y);
  ol_loop_run(&loop, OL_GRAIN, y->dtype == OL_U8 ? find_zero_u8 : find_zero_i64, &found);
  return atomic_load(&found);
}

/* Divisors are looked at as they will be divided by: 256 among uint8 is 0. */
static ol_status check_divisors(ol_error *error, const char *op, ol_tensor *x, ol_tensor *y) {
  ol_dtype dtype = ol_result_dtype(2, (ol_tensor *[]){ x, y });
  ol_tensor *divisor = y;
  if (ol_dtype_is_float(dtype) || x->numel == 0) return OL_OK;
  if (y->dtype != dtype) OL_TRY(ol_tensor_convert(error, y, dtype, &divisor));
  bool zero = holds_zero(divisor);
  if (divisor != y) ol_release(divisor);
  return zero ? ol_fail(error, OL_ARGUMENT, "%s: integer division by zero", op) : OL_OK;
}

ol_status ol_divide_call(ol_error *error, ol_call *call, ol_division kind) {
  OL_TRY(check_divisors(error, call->op->name, call->arg[0].tensor, call->arg[1].tensor));
  return ol_map_call(error, call, divisions[kind], 2, NULL);
}

static ol_status floor_divide_forward(ol_error *error, ol_call *call) {
  return ol_divide_call(error, call, OL_DIVIDE_FLOOR);
}

static ol_status fmod_forward(ol_error *error, ol_call *call) {
  return ol_divide_call(error, call, OL_DIVIDE_FMOD);
}

static ol_status remainder_forward(ol_error *error, ol_call *call) {
  return ol_divide_call(error, call, OL_DIVIDE_REMAINDER);
}

/* For the divisor: -g times the whole quotient, of (g, x, y). */
#define FMOD_GRAD(g, x, y)      (-(g) * TRUNC(x, y))
#define REMAINDER_GRAD(g, x, y) (-(g) * FLOOR(fmod(x, y), x, y))
OL_FLOATS(fmod_grad, 3, FMOD_GRAD)
OL_FLOATS(remainder_grad, 3, REMAINDER_GRAD)

static ol_status left_backward(ol_error *error, ol_back *back, const ol_rows *divisor) {
  ol_tensor *g = back->grad_out[0];
  if (back->needs[0]) back->grad[0] = ol_retain(g);
  if (!back->needs[1]) return OL_OK;
  return ol_ternary(error, back->op->name, divisor, g, back->arg[0].tensor, back->arg[1].tensor,
                    &back->grad[1]);
}

static ol_status fmod_backward(ol_error *error, ol_back *back) {
  return left_backward(error, back, &fmod_grad);
}

static ol_status remainder_backward(ol_error *error, ol_back *back) {
  return left_backward(error, back, &remainder_grad);
}

#define SELF_OTHER                                                                                 \
  { "self", OL_OPERAND, .doc = "a tensor or number" },                                             \
      { "other", OL_OPERAND, .doc = "the divisor; broadcasts with self" }

static const ol_op ops[] = {
  { .name = "floor_divide",
    .doc = "Divides and rounds down; integers divided by 0 raise. No gradient flows.",
    .example = "print(optlua.tensor({ 7, -7 }):floor_divide(2)) --> tensor([ 3., -4.])",
    .samples = "{ { c(2, 3), c(2, 3) }, { c(2, 3), c(3) }, { c(), c() }, { c(0, 3), c(3) },"
               "  { c(4, 3):t(), c(3, 4) }, { c(2, 3), 0.3 } }",
    .param = { SELF_OTHER },
    .forward = floor_divide_forward },
  { .name = "fmod",
    .doc = "What division rounded towards zero leaves: it has the sign of self.",
    .example = "print(optlua.tensor({ 7, -7 }):fmod(4)) --> tensor([ 3., -3.])",
    .samples = "{ { t(2, 3), p(2, 3) }, { t(2, 3), p(3) }, { t(), p() }, { t(0, 3), p(3) },"
               "  { t(4, 3):t(), p(3, 4) }, { t(2, 3), 0.7 } }",
    .param = { SELF_OTHER },
    .saves = OL_SAVE_FOR_OTHERS(0) | OL_SAVE_ARG(1),
    .forward = fmod_forward,
    .backward = fmod_backward },
  { .name = "remainder",
    .doc = "What division rounded down leaves: it has the sign of other, as Lua's %.",
    .example = "print(optlua.tensor({ 7, -7 }):remainder(4)) --> tensor([3., 1.])",
    .samples = "{ { t(2, 3), p(2, 3) }, { t(2, 3), p(3) }, { t(), p() }, { t(0, 3), p(3) },"
               "  { t(4, 3):t(), p(3, 4) }, { t(2, 3), 0.7 } }",
    .param = { SELF_OTHER },
    .saves = OL_SAVE_FOR_OTHERS(0) | OL_SAVE_ARG(1),
    .forward = remainder_forward,
    .backward = remainder_backward },
  { 0 },
};

const ol_family ol_division_ops = { .name = "division", .doc = "Whole division", .ops = ops };
