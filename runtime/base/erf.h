/* erf: the error function for results in float32, to be used inside loops that vectorise. */
#ifndef OL_BASE_ERF_H
#define OL_BASE_ERF_H

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

#endif
