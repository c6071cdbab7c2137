/* histogram: how often the elements of a tensor fall into buckets that grow by a tenth. */
#ifndef OL_IO_HISTOGRAM_H
#define OL_IO_HISTOGRAM_H

#include "tensor/tensor.h"

enum {
  OL_HISTOGRAM_SIDE = 774, /* limits 1e-12, 1.1e-12, … below 1e20 */
  OL_HISTOGRAM_BUCKETS = 2 * OL_HISTOGRAM_SIDE + 2
};

typedef struct ol_histogram {
  double min, max, count, sum, sum_squares;
  double limit[OL_HISTOGRAM_BUCKETS]; /* limit[i - 1] <= x < limit[i] lie in bucket i */
  double bucket[OL_HISTOGRAM_BUCKETS];
  int buckets; /* those that say something come first: at least one */
} ol_histogram;

/* Counts the elements of a tensor of any shape and dtype; what is not finite is left out. The
 * buckets are those of TensorFlow's histograms (core/lib/histogram/histogram.cc). */
ol_status ol_histogram_of(ol_error *error, const ol_tensor *tensor, ol_histogram *out);

#endif
