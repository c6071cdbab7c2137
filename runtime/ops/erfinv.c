/* erfinv: the inverse of the error function (Giles, 2012, "Approximating the erfinv function"): a
 * polynomial of -log(1 - x²) for the centre and one for the tails, good to float32; in float64 two
 * steps of Newton's method follow. */
#include "ops/unary.h"

static const double centre[] = { 2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                 -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                 -0.00417768164,  0.246640727,    1.50140941 };
static const double tail[] = { -0.000200214257, 0.000100950558, 0.00134934322,
                               -0.00367342844,  0.00573950773,  -0.0076224613,
                               0.00943887047,   1.00167406,     2.83297682 };
enum { TERMS = 9 };

/* The result is written last: it may be the argument. */
#define DEFINE_ERFINV(suffix, T, newton)                                                           \
  OL_KERNEL static void estimate_##suffix(int64_t count, const T *x, const T *log, T *y) {         \
    OL_ASSUME_TILE(count);                                                                         \
    OL_APART for (int64_t i = 0; i < count; i++) {                                                 \
      const T w = -log[i], near = w - (T)2.5, far = (T)sqrt(w) - 3;                                \
      T p = (T)centre[0], q = (T)tail[0];                                                          \
      for (int k = 1; k < TERMS; k++) p = p * near + (T)centre[k], q = q * far + (T)tail[k];       \
      y[i] = x[i] * (w < 5 ? p : q);                                                               \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static void erfinv_rows_##suffix(int64_t count, char *const *data,                     \
                                             const double *scalars) {                              \
    const T *x = (const T *)data[1];                                                               \
    T y[OL_TILE], v[OL_TILE], w[OL_TILE], *out = (T *)data[0];                                     \
    (void)scalars;                                                                                 \
    OL_ASSUME_TILE(count);                                                                         \
    for (int64_t i = 0; i < count; i++) w[i] = (1 - x[i]) * (1 + x[i]);                            \
    ol_vlog_##suffix(count, w, w);                                                                 \
    estimate_##suffix(count, x, w, y);                                                             \
    for (int step = 0; step < newton; step++) {                                                    \
      for (int64_t i = 0; i < count; i++) w[i] = -y[i] * y[i];                                     \
      ol_vexp_##suffix(count, w, w);                                                               \
      ol_verf_##suffix(count, y, v);                                                               \
      for (int64_t i = 0; i < count; i++) y[i] -= (v[i] - x[i]) / ((T)M_2_SQRTPI * w[i]);          \
    }                                                                                              \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = x[i] == 1    ? (T)INFINITY               \
                                                          : x[i] == -1 ? -(T)INFINITY              \
                                                                       : y[i];                     \
  }
DEFINE_ERFINV(f32, float, 0)
DEFINE_ERFINV(f64, double, 2)
OL_ROWS_OF_FLOATS(erfinv_rows, .widen = true)

#define SQUARE(y)             ((y) * (y))
#define ERFINV_SLOPE(g, y, v) ((g) * ((T)(1 / M_2_SQRTPI) * (v)))
OL_FLOATS_VIA(erfinv_slope, 2, ol_vexp, SQUARE, ERFINV_SLOPE)
OL_FROM_RESULT(erfinv)

static const ol_op ops[] = { OL_UNARY_OPS(erfinv,
                                          "The number whose error function is x, from -1 to 1.",
                                          "u", OL_RESULT_SAVED, "0, 0.5", "0.0000, 0.4769"),
                             { 0 } };

const ol_family ol_erfinv_ops = { .name = "erfinv", .doc = "Inverse error function", .ops = ops };
