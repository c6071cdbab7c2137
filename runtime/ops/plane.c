/* plane: loops over planes and over rows of columns. */
#include "ops/plane.h"

#include "base/lanes.h"
#include "base/parallel.h"

#define X(i)            ((double)x[i])
#define G(i)            ((double)g[i])
#define ADD(i)          a[k] += X(i)
#define ADD_SQUARE(i)   a[k] += (X(i) - mean) * (X(i) - mean)
#define ADD_PRODUCTS(i) a[k] += G(i), b[k] += G(i) * (X(i) - mean)

#define DEFINE_PLANES(suffix, type)                                                                \
  OL_KERNEL static double sum_##suffix(int64_t count, const void *from) {                          \
    const type *x = from;                                                                          \
    double a[OL_SUM_LANES] = { 0 };                                                                \
    OL_EACH_LANE(count, ADD(i));                                                                   \
    return ol_merge_lanes(a);                                                                      \
  }                                                                                                \
  OL_KERNEL static double squares_##suffix(int64_t count, const void *from, double mean) {         \
    const type *x = from;                                                                          \
    double a[OL_SUM_LANES] = { 0 };                                                                \
    OL_EACH_LANE(count, ADD_SQUARE(i));                                                            \
    return ol_merge_lanes(a);                                                                      \
  }                                                                                                \
  OL_KERNEL static void normalize_##suffix(int64_t count, const void *from, double mean,           \
                                           double scale, double shift, void *to) {                 \
    const type *x = from;                                                                          \
    type *y = to;                                                                                  \
    OL_APART for (int64_t i = 0; i < count; i++) y[i] = (type)((X(i) - mean) * scale + shift);     \
  }                                                                                                \
  OL_KERNEL static void products_##suffix(int64_t count, const void *from, const void *gradient,   \
                                          double mean, double *total) {                            \
    const type *x = from, *g = gradient;                                                           \
    if (count < OL_SUM_LANES) {                                                                    \
      for (int64_t k = 0; k < count; k++) total[0] += G(k), total[1] += G(k) * (X(k) - mean);      \
      return;                                                                                      \
    }                                                                                              \
    double a[OL_SUM_LANES] = { 0 }, b[OL_SUM_LANES] = { 0 };                                       \
    OL_EACH_LANE(count, ADD_PRODUCTS(i));                                                          \
    total[0] += ol_merge_lanes(a);                                                                 \
    total[1] += ol_merge_lanes(b);                                                                 \
  }                                                                                                \
  OL_KERNEL static void slope_##suffix(int64_t count, const void *from, const void *gradient,      \
                                       double mean, double scale, double tilt, double shift,       \
                                       void *to) {                                                 \
    const type *x = from, *g = gradient;                                                           \
    type *y = to;                                                                                  \
    OL_APART for (int64_t i = 0; i < count; i++) y[i] =                                            \
        (type)(G(i) * scale - (X(i) - mean) * tilt - shift);                                       \
  }                                                                                                \
  static const ol_planes planes_##suffix = { sum_##suffix, squares_##suffix, normalize_##suffix,   \
                                             products_##suffix, slope_##suffix };

#define DEFINE_COLUMNS(suffix, type)                                                               \
  OL_KERNEL static void column_sum_##suffix(int64_t count, const void *from, double *total) {      \
    const type *x = from;                                                                          \
    OL_APART for (int64_t i = 0; i < count; i++) total[i] += X(i);                                 \
  }                                                                                                \
  OL_KERNEL static void column_squares_##suffix(int64_t count, const void *from,                   \
                                                const double *mean, double *total) {               \
    const type *x = from;                                                                          \
    OL_APART for (int64_t i = 0; i < count; i++) total[i] += (X(i) - mean[i]) * (X(i) - mean[i]);  \
  }                                                                                                \
  OL_KERNEL static void column_normalize_##suffix(int64_t count, const void *from,                 \
                                                  const double *mean, const double *scale,         \
                                                  const double *shift, void *to) {                 \
    const type *x = from;                                                                          \
    type *y = to;                                                                                  \
    OL_APART for (int64_t i = 0; i < count; i++) y[i] =                                            \
        (type)((X(i) - mean[i]) * scale[i] + shift[i]);                                            \
  }                                                                                                \
  OL_KERNEL static void column_products_##suffix(int64_t count, const void *from,                  \
                                                 const void *gradient, const double *mean,         \
                                                 double *total, double *dot) {                     \
    const type *x = from, *g = gradient;                                                           \
    OL_APART for (int64_t i = 0; i < count; i++) {                                                 \
      total[i] += G(i);                                                                            \
      dot[i] += G(i) * (X(i) - mean[i]);                                                           \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static void column_slope_##suffix(                                                     \
      int64_t count, const void *from, const void *gradient, const double *mean,                   \
      const double *scale, const double *tilt, const double *shift, void *to) {                    \
    const type *x = from, *g = gradient;                                                           \
    type *y = to;                                                                                  \
    OL_APART for (int64_t i = 0; i < count; i++) y[i] =                                            \
        (type)(G(i) * scale[i] - (X(i) - mean[i]) * tilt[i] - shift[i]);                           \
  }                                                                                                \
  static const ol_columns columns_##suffix = { column_sum_##suffix, column_squares_##suffix,       \
                                               column_normalize_##suffix,                          \
                                               column_products_##suffix, column_slope_##suffix };

DEFINE_PLANES(f32, float)
DEFINE_PLANES(f64, double)
DEFINE_COLUMNS(f32, float)
DEFINE_COLUMNS(f64, double)

const ol_planes *ol_planes_of(ol_dtype dtype) {
  return dtype == OL_F32 ? &planes_f32 : &planes_f64;
}

const ol_columns *ol_columns_of(ol_dtype dtype) {
  return dtype == OL_F32 ? &columns_f32 : &columns_f64;
}
