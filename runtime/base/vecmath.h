/* vecmath: elementary functions over arrays, with the same bits on every instruction set.
 *
 * They are SLEEF's consistent variants without FMA (Sleef_cinz_*), within 1.0 ulp, but for some of
 * floats, which would take two to four times as long: those of OL_VECMATH_FAST are SLEEF's variants
 * for 3.5 ulp (2.4 were seen of tanh), and erf, of which SLEEF has no other, is our own (0.55 ulp).
 * y may be x. */
#ifndef OL_BASE_VECMATH_H
#define OL_BASE_VECMATH_H

#include <stdint.h>

/* clang-format off */
#define OL_VECMATH_FINE(X) \
  X(exp) X(expm1) X(log1p) X(log10) X(acos) X(sinh) X(cosh)
#define OL_VECMATH_FAST(X) X(log) X(log2) X(sin) X(cos) X(tan) X(asin) X(atan) X(tanh)
#define OL_VECMATH_UNARY(X) OL_VECMATH_FINE(X) OL_VECMATH_FAST(X) X(erf)
/* clang-format on */

#define OL_VECMATH_DECLARE(name)                                                                   \
  void ol_v##name##_f32(int64_t count, const float *x, float *y);                                  \
  void ol_v##name##_f64(int64_t count, const double *x, double *y);
OL_VECMATH_UNARY(OL_VECMATH_DECLARE)
#undef OL_VECMATH_DECLARE

/* z[i] = x[i] to the power y[i]. */
void ol_vpow_f32(int64_t count, const float *x, const float *y, float *z);
void ol_vpow_f64(int64_t count, const double *x, const double *y, double *z);

/* The instruction set in use: "avx512f", "avx", "sse2", "advsimd" or "scalar". */
const char *ol_vecmath_isa(void);

#endif
