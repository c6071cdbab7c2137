/* pointwise: the frame of elementwise ops.
 *
 * An elementwise op is a table of kernels by dtype, and a kernel is a loop over a dense tile. The
 * frame finds the common dtype, broadcasts, cuts the work into tiles, and copies through a buffer
 * what is strided, constant or of another dtype; so kernels know nothing of all that. */
#ifndef OL_OPS_POINTWISE_H
#define OL_OPS_POINTWISE_H

#include <tgmath.h>

#include "autograd/op.h"
#include "base/parallel.h"
#include "base/vecmath.h"

#define OL_TILE    512 /* the most elements that a kernel gets at once */
#define OL_SCALARS 3   /* numbers that parametrise a kernel */
#define OL_MAP_MAX 3   /* arguments of a kernel */

/* Works on count (1 … OL_TILE) elements of the result, data[0], and the arguments, data[1] …; all
 * dense. The result may be one of the arguments. */
typedef void ol_map_fn(int64_t count, char *const *data, const double *scalars);

/* The kernels of an op by common dtype of the arguments; NULL where it is not defined. */
typedef struct ol_rows {
  ol_map_fn *of[OL_DTYPES];
  bool mask;   /* the result is uint8, whatever the arguments are */
  bool choice; /* the first argument is uint8 and takes no part in the common dtype */
  bool widen;  /* integers are computed as float32 */
} ol_rows;

/* Runs rows over `count` arguments, promoted to a common dtype and broadcast, into a new tensor.
 * scalars: OL_SCALARS numbers, or NULL for zeros. Errors name op. */
ol_status ol_map(ol_error *error, const char *op, const ol_rows *rows, int count,
                 ol_tensor *const *x, const double *scalars, ol_tensor **out);

/* As ol_map, into target, which keeps its shape and dtype. Fails before it writes: when the result
 * is wider than target, or is of floats and target of integers. Touches target. */
ol_status ol_map_into(ol_error *error, const char *op, const ol_rows *rows, int count,
                      ol_tensor *const *x, const double *scalars, ol_tensor *target);

/* The forward function of an elementwise op: ol_map of `count` tensors, or, of an op in place,
 * ol_map_into the call's first parameter. */
ol_status ol_map_rows(ol_error *error, ol_call *call, const ol_rows *rows, int count,
                      ol_tensor *const *x, const double *scalars);

/* The same for the call's first `count` parameters. */
ol_status ol_map_call(ol_error *error, ol_call *call, const ol_rows *rows, int count,
                      const double *scalars);

/* For ops in place whose backward reads what they overwrite: keeps a copy of argument 0 in kept[0]
 * when needed and the call is recorded. Call it before writing. */
ol_status ol_keep_first(ol_error *error, ol_call *call, bool needed);

/* Argument 0 as forward saw it: saved, or kept by ol_keep_first. */
static inline ol_tensor *ol_first(const ol_back *back) {
  return back->arg[0].tensor ? back->arg[0].tensor : back->kept[0];
}

/* Zeros for every input that wants a gradient: for ops whose results do not move with them. */
ol_status ol_flat_backward(ol_error *error, ol_back *back);

/* The dtype of a result of tensors: the highest of them; tensors without dimensions count only
 * where they are floats and the others integers. (So x * 2.5 keeps the dtype of a float x.) */
ol_dtype ol_result_dtype(int count, ol_tensor *const *x);

/* Whether a number is whole and exact as an integer: below 2^53. */
static inline bool ol_is_whole(double x) {
  return x >= -0x1p53 && x <= 0x1p53 && x == (double)(int64_t)x;
}

/* ol_map of one and two arguments, without scalars. */
static inline ol_status ol_unary(ol_error *error, const char *op, const ol_rows *rows, ol_tensor *x,
                                 ol_tensor **out) {
  return ol_map(error, op, rows, 1, &x, NULL, out);
}

static inline ol_status ol_binary(ol_error *error, const char *op, const ol_rows *rows,
                                  ol_tensor *x, ol_tensor *y, ol_tensor **out) {
  return ol_map(error, op, rows, 2, (ol_tensor *[]){ x, y }, NULL, out);
}

static inline ol_status ol_ternary(ol_error *error, const char *op, const ol_rows *rows,
                                   ol_tensor *x, ol_tensor *y, ol_tensor *z, ol_tensor **out) {
  return ol_map(error, op, rows, 3, (ol_tensor *[]){ x, y, z }, NULL, out);
}

/* Tells the compiler what a kernel may rely on: a tile is not empty and fits into OL_TILE. */
#define OL_ASSUME_TILE(count)                                                                      \
  do {                                                                                             \
    if ((count) < 1 || (count) > OL_TILE) __builtin_unreachable();                                 \
  } while (0)

/* clang-format off */

/* One kernel from an expression macro of the arguments' elements. Inside the expression, T is the
 * dtype's C type and s[0] … are the scalars. R is the type of the result. */
#define OL_MAP_BEGIN(kernel, R, type)                                                              \
  OL_KERNEL static void kernel(int64_t count, char *const *data, const double *scalars) {          \
    typedef type T __attribute__((unused));                                                        \
    const T s[OL_SCALARS] __attribute__((unused)) = { (T)scalars[0], (T)scalars[1],                \
                                                      (T)scalars[2] };                             \
    R *out = (R *)data[0];                                                                         \
    const T *x = (const T *)data[1];                                                               \
    OL_ASSUME_TILE(count);

#define OL_MAP_1(kernel, R, type, expression)                                                      \
  OL_MAP_BEGIN(kernel, R, type)                                                                    \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = (R)(expression(x[i]));                   \
  }

#define OL_MAP_2(kernel, R, type, expression)                                                      \
  OL_MAP_BEGIN(kernel, R, type)                                                                    \
    const T *y = (const T *)data[2];                                                               \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = (R)(expression(x[i], y[i]));             \
  }

#define OL_MAP_3(kernel, R, type, expression)                                                      \
  OL_MAP_BEGIN(kernel, R, type)                                                                    \
    const T *y = (const T *)data[2], *z = (const T *)data[3];                                      \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = (R)(expression(x[i], y[i], z[i]));       \
  }

/* One kernel through a function of vecmath (or alike: count, from, to): v = function(before(last
 * argument)), then after(arguments…, v). */
#define OL_VIA_1(kernel, type, function, before, after)                                            \
  OL_MAP_BEGIN(kernel, type, type)                                                                 \
    T v[OL_TILE];                                                                                  \
    for (int64_t i = 0; i < count; i++) v[i] = (T)(before(x[i]));                                  \
    function(count, v, v);                                                                         \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = (T)(after(x[i], v[i]));                  \
  }

#define OL_VIA_2(kernel, type, function, before, after)                                            \
  OL_MAP_BEGIN(kernel, type, type)                                                                 \
    const T *y = (const T *)data[2];                                                               \
    T v[OL_TILE];                                                                                  \
    for (int64_t i = 0; i < count; i++) v[i] = (T)(before(y[i]));                                  \
    function(count, v, v);                                                                         \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = (T)(after(x[i], y[i], v[i]));            \
  }

#define OL_VIA_3(kernel, type, function, before, after)                                            \
  OL_MAP_BEGIN(kernel, type, type)                                                                 \
    const T *y = (const T *)data[2], *z = (const T *)data[3];                                      \
    T v[OL_TILE];                                                                                  \
    for (int64_t i = 0; i < count; i++) v[i] = (T)(before(z[i]));                                  \
    function(count, v, v);                                                                         \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = (T)(after(x[i], y[i], z[i], v[i]));      \
  }

#define OL_SAME(x) (x)

/* One kernel that is a function of vecmath. */
#define OL_DIRECT(kernel, type, function)                                                          \
  static void kernel(int64_t count, char *const *data, const double *scalars) {                    \
    (void)scalars;                                                                                 \
    function(count, (const type *)data[1], (type *)data[0]);                                       \
  }

#define OL_ROWS_OF_FLOATS(name, ...)                                                               \
  static const ol_rows name = { .of = { [OL_F32] = name##_f32, [OL_F64] = name##_f64 },            \
                                __VA_ARGS__ };
#define OL_ROWS_OF_NUMBERS(name, ...)                                                              \
  static const ol_rows name = { .of = { name##_u8, name##_i64, NULL, name##_f32, name##_f64 },     \
                                __VA_ARGS__ };

/* `static const ol_rows name` for float32 and float64, from an expression of n arguments. Members
 * of ol_rows may follow, e.g. `.widen = true`. */
#define OL_FLOATS(name, n, expression, ...)                                                        \
  OL_MAP_##n(name##_f32, float, float, expression)                                                 \
  OL_MAP_##n(name##_f64, double, double, expression)                                               \
  OL_ROWS_OF_FLOATS(name, __VA_ARGS__)

/* As OL_FLOATS, with another expression for int64 and uint8. */
#define OL_NUMBERS(name, n, expression, integers, ...)                                             \
  OL_MAP_##n(name##_u8, uint8_t, uint8_t, integers)                                                \
  OL_MAP_##n(name##_i64, int64_t, int64_t, integers)                                               \
  OL_MAP_##n(name##_f32, float, float, expression)                                                 \
  OL_MAP_##n(name##_f64, double, double, expression)                                               \
  OL_ROWS_OF_NUMBERS(name, __VA_ARGS__)

/* Rows that give masks, from a condition on elements of any of the four dtypes. */
#define OL_MASKS(name, n, condition)                                                               \
  OL_MAP_##n(name##_u8, uint8_t, uint8_t, condition)                                               \
  OL_MAP_##n(name##_i64, uint8_t, int64_t, condition)                                              \
  OL_MAP_##n(name##_f32, uint8_t, float, condition)                                                \
  OL_MAP_##n(name##_f64, uint8_t, double, condition)                                               \
  OL_ROWS_OF_NUMBERS(name, .mask = true)

/* Rows of OL_VIA: function##_f32 and function##_f64 are called. */
#define OL_FLOATS_VIA(name, n, function, before, after, ...)                                       \
  OL_VIA_##n(name##_f32, float, function##_f32, before, after)                                     \
  OL_VIA_##n(name##_f64, double, function##_f64, before, after)                                    \
  OL_ROWS_OF_FLOATS(name, __VA_ARGS__)

/* Rows of a bare function of vecmath; integers are computed as float32. */
#define OL_FLOATS_DIRECT(name, function)                                                           \
  OL_DIRECT(name##_f32, float, function##_f32)                                                     \
  OL_DIRECT(name##_f64, double, function##_f64)                                                    \
  OL_ROWS_OF_FLOATS(name, .widen = true)

/* name_forward and name_backward of an op of one argument with rows name_rows. Its gradient is the
 * rows name_slope of (grad_out, result), or of (grad_out, argument); or it is 0. */
#define OL_FORWARD_1(name, keep)                                                                   \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    OL_TRY(ol_keep_first(error, call, keep));                                                      \
    return ol_map_call(error, call, &name##_rows, 1, NULL);                                            \
  }

#define OL_FROM_RESULT(name)                                                                       \
  OL_FORWARD_1(name, false)                                                                        \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    return ol_binary(error, #name, &name##_slope, back->grad_out[0], back->out[0],                 \
                     &back->grad[0]);                                                              \
  }

#define OL_FROM_ARGUMENT(name)                                                                     \
  OL_FORWARD_1(name, true)                                                                         \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    return ol_binary(error, #name, &name##_slope, back->grad_out[0], ol_first(back),               \
                     &back->grad[0]);                                                              \
  }

#define OL_FLAT(name)                                                                              \
  OL_FORWARD_1(name, false)                                                                        \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    return ol_flat_backward(error, back);                                                          \
  }

/* clang-format on */

#endif
