/* plane: what normalisations do with planes, dense runs of the elements of one channel, and with
 * rows of columns, each of which has numbers of its own. All arithmetic is in double; sums run in
 * fixed lanes. */
#ifndef OL_OPS_PLANE_H
#define OL_OPS_PLANE_H

#include "autograd/op.h"

/* Functions of a plane of `count` elements x, and g, the gradient of what it became. */
typedef struct ol_planes {
  double (*sum)(int64_t count, const void *x);
  double (*squares)(int64_t count, const void *x, double mean); /* the sum of (x - mean)² */
  /* y = (x - mean) * scale + shift */
  void (*normalize)(int64_t count, const void *x, double mean, double scale, double shift, void *y);
  /* total[0] += sum of g, total[1] += sum of g * (x - mean) */
  void (*products)(int64_t count, const void *x, const void *g, double mean, double *total);
  /* y = g * scale - (x - mean) * tilt - shift */
  void (*slope)(int64_t count, const void *x, const void *g, double mean, double scale, double tilt,
                double shift, void *y);
} ol_planes;

/* The same for a row of `count` columns: numbers and totals are one a column; sums are added. */
typedef struct ol_columns {
  void (*sum)(int64_t count, const void *x, double *total);
  void (*squares)(int64_t count, const void *x, const double *mean, double *total);
  void (*normalize)(int64_t count, const void *x, const double *mean, const double *scale,
                    const double *shift, void *y);
  void (*products)(int64_t count, const void *x, const void *g, const double *mean, double *total,
                   double *dot);
  void (*slope)(int64_t count, const void *x, const void *g, const double *mean,
                const double *scale, const double *tilt, const double *shift, void *y);
} ol_columns;

/* The functions of a dtype: float32 or float64. */
const ol_planes *ol_planes_of(ol_dtype dtype);
const ol_columns *ol_columns_of(ol_dtype dtype);

/* A dense list of floats or doubles; NULL reads as `otherwise` everywhere. */
static inline double ol_float_at(ol_dtype dtype, const void *list, int64_t i, double otherwise) {
  if (!list) return otherwise;
  return dtype == OL_F32 ? (double)((const float *)list)[i] : ((const double *)list)[i];
}

static inline void ol_set_float_at(ol_dtype dtype, void *list, int64_t i, double value) {
  if (dtype == OL_F32)
    ((float *)list)[i] = (float)value;
  else
    ((double *)list)[i] = value;
}

#endif
