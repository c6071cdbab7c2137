/* pointwise: the frame of elementwise ops: rows for every dtype, chosen and run over a loop. */
#ifndef OL_OPS_POINTWISE_H
#define OL_OPS_POINTWISE_H

#include "base/parallel.h"
#include "tensor/loop.h"

/* The row functions of an elementwise op, by dtype of the operands; NULL where it is not defined.
 * Row operands: result first, then the arguments. */
typedef struct ol_rows {
  ol_row_fn *of[OL_DTYPES];
} ol_rows;

/* Runs rows over x into a new tensor of x's shape and dtype. Errors name op. */
ol_status ol_unary(ol_error *error, const char *op, const ol_rows *rows, ol_tensor *x,
                   ol_tensor **out);

/* Runs rows over x and y, promoted to a common dtype and broadcast, into a new tensor. */
ol_status ol_binary(ol_error *error, const char *op, const ol_rows *rows, ol_tensor *x,
                    ol_tensor *y, ol_tensor **out);

/* Defines `static const ol_rows name` for float32 and float64 from an expression macro of one
 * argument; the loop over dense rows vectorises. */
#define OL_UNARY_ROW(name, suffix, type, expression)                                               \
  OL_KERNEL static void name##_##suffix(int64_t count, char *const *data, const int64_t *stride,   \
                                        const void *context) {                                     \
    (void)context;                                                                                 \
    if (stride[0] == sizeof(type) && stride[1] == sizeof(type)) {                                  \
      type *y = (type *)data[0];                                                                   \
      const type *x = (const type *)data[1];                                                       \
      for (int64_t i = 0; i < count; i++) y[i] = expression(x[i]);                                 \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      *(type *)(data[0] + i * stride[0]) = expression(*(const type *)(data[1] + i * stride[1]));   \
  }

#define OL_DEFINE_UNARY(name, expression)                                                          \
  OL_UNARY_ROW(name, f32, float, expression)                                                       \
  OL_UNARY_ROW(name, f64, double, expression)                                                      \
  static const ol_rows name = { { [OL_F32] = name##_f32, [OL_F64] = name##_f64 } };

/* As above for two arguments. Dense rows, and rows of which one argument is constant. */
#define OL_BINARY_ROW(name, suffix, type, expression)                                              \
  OL_KERNEL static void name##_##suffix(int64_t count, char *const *data, const int64_t *stride,   \
                                        const void *context) {                                     \
    (void)context;                                                                                 \
    type *z = (type *)data[0];                                                                     \
    const type *x = (const type *)data[1], *y = (const type *)data[2];                             \
    bool dense = stride[0] == sizeof(type);                                                        \
    if (dense && stride[1] == sizeof(type) && stride[2] == sizeof(type)) {                         \
      for (int64_t i = 0; i < count; i++) z[i] = expression(x[i], y[i]);                           \
    } else if (dense && stride[1] == sizeof(type) && stride[2] == 0) {                             \
      const type b = *y;                                                                           \
      for (int64_t i = 0; i < count; i++) z[i] = expression(x[i], b);                              \
    } else if (dense && stride[1] == 0 && stride[2] == sizeof(type)) {                             \
      const type a = *x;                                                                           \
      for (int64_t i = 0; i < count; i++) z[i] = expression(a, y[i]);                              \
    } else {                                                                                       \
      for (int64_t i = 0; i < count; i++)                                                          \
        *(type *)(data[0] + i * stride[0]) = expression(*(const type *)(data[1] + i * stride[1]),  \
                                                        *(const type *)(data[2] + i * stride[2])); \
    }                                                                                              \
  }

#define OL_DEFINE_BINARY(name, expression)                                                         \
  OL_BINARY_ROW(name, f32, float, expression)                                                      \
  OL_BINARY_ROW(name, f64, double, expression)                                                     \
  static const ol_rows name = { { [OL_F32] = name##_f32, [OL_F64] = name##_f64 } };

#endif
