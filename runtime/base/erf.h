/* erf: the error function and the tail of a normal distribution for results in float32, to be used
 * inside loops that vectorise. */
#ifndef OL_BASE_ERF_H
#define OL_BASE_ERF_H

#include <stdint.h>

/* erf(x), exact enough to be rounded to float once: within 0.55 ulp. NaN stays NaN.
 *
 * x P(x²) / Q(x²) has a relative error below 3e-9 up to 4, where erf becomes 1 in float32: a
 * minimax fit (Sanathanan-Koerner iterations with Lawson's weights). All coefficients are positive,
 * so that nothing cancels. */
static inline double ol_erf_float(double given) {
  const double x = given > 3.97 ? 3.97 : given < -3.97 ? -3.97 : given, t = x * x;
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

/* exp(-t²/2) for t from 0 to 14.5; 0 from 13.25 on, where it is below 2^-126. Within 1.2 ulp.
 *
 * With h, which is t to eight binary places, h²/2 is exact, and so is its rest after multiples of
 * ln 2 (Cody & Waite, 1980). What t has more goes to the rest, of which the exponential is a
 * minimax polynomial. */
static inline float ol_bell_float(float t) {
  const float h = t + 0x1.8p15f - 0x1.8p15f, square = 0.5f * h * h;
  const union {
    float number;
    int32_t bits;
  } whole = { square * 1.44269504f + 0x1.8p23f }; /* whose last bits are those of n */
  const float n = whole.number - 0x1.8p23f;
  const float r = square - n * 0x1.62e4p-1f - n * 1.42860682e-6f + 0.5f * (t - h) * (t + h);
  float p = 0.00138012558f;
  p = p * r - 0.00837517228f;
  p = p * r + 0.0416690705f;
  p = p * r - 0.166664626f;
  p = p * r + 0.499999892f;
  p = p * r * r - r + 1;
  const int32_t exponent = 127 - (whole.bits - 0x4b400000); /* anything for NaN, which p keeps */
  const union {
    uint32_t bits;
    float power;
  } scale = { .bits = (uint32_t)(exponent > 0 ? exponent : 0) << 23 };
  return p * scale.power;
}

/* The share of a standard normal distribution that lies above t, over exp(-t²/2); for t from 0 to
 * 14.5. Within 3.2 ulp.
 *
 * It is f / (t + 2.5), with f between 0.5 and 1.3, a polynomial in t / (t + 2.5) that was fitted as
 * above, with a relative error below 1.6e-8; the rest is of rounding. */
static inline float ol_tail_float(float t) {
  const float d = 1 / (t + 2.5f), s = t * d - 0.25f;
  float f = -0.0802469048f;
  f = f * s + 0.101214983f;
  f = f * s + 0.0657138319f;
  f = f * s - 0.0253597806f;
  f = f * s - 0.148512546f;
  f = f * s - 0.106496835f;
  f = f * s + 0.268255999f;
  f = f * s + 0.3895199f;
  f = f * s - 1.10288741f;
  f = f * s + 0.954403996f;
  return f * d;
}

#endif
