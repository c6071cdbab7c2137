/* histogram: limits that mirror at 0, a search for each element. */
#include "io/histogram.h"

#include <float.h>
#include <math.h>

enum { SIDE = OL_HISTOGRAM_SIDE, BUCKETS = OL_HISTOGRAM_BUCKETS };

/* … -1.1e-12, -1e-12, 0, 1e-12, 1.1e-12 …, and the last one above everything. */
static void set_limits(ol_histogram *h) {
  double limit = 1e-12;
  h->limit[SIDE] = 0;
  for (int i = 0; i < SIDE; i++, limit *= 1.1) {
    h->limit[SIDE + 1 + i] = limit;
    h->limit[SIDE - 1 - i] = -limit;
  }
  h->limit[BUCKETS - 1] = DBL_MAX;
}

/* The first bucket whose limit is above x; the last holds the largest number too. */
static int find(const ol_histogram *h, double x) {
  int low = 0, high = BUCKETS - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (h->limit[middle] > x)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void add(ol_histogram *h, double x) {
  if (!isfinite(x)) return;
  if (h->count == 0 || x < h->min) h->min = x;
  if (h->count == 0 || x > h->max) h->max = x;
  h->count++;
  h->sum += x;
  h->sum_squares += x * x;
  h->bucket[find(h, x)]++;
}

/* Moves together what says something: buckets that hold elements, and the last of empty ones in
 * front of them, which says where they begin. Nothing at all leaves the last bucket. */
static void condense(ol_histogram *h) {
  for (int i = 0; i < BUCKETS; i++) {
    bool says = h->bucket[i] > 0 || (i + 1 < BUCKETS ? h->bucket[i + 1] > 0 : h->count == 0);
    if (!says) continue;
    h->limit[h->buckets] = h->limit[i];
    h->bucket[h->buckets++] = h->bucket[i];
  }
}

ol_status ol_histogram_of(ol_error *error, const ol_tensor *tensor, ol_histogram *out) {
  ol_tensor *wide;
  OL_TRY(ol_tensor_convert(error, tensor, OL_F64, &wide));
  const double *x = ol_tensor_data(wide);
  *out = (ol_histogram){ 0 };
  set_limits(out);
  for (int64_t i = 0; i < wide->numel; i++) add(out, x[i]);
  condense(out);
  ol_release(wide);
  return OL_OK;
}
