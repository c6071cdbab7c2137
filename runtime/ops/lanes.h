/* lanes: how sums run here: element i is added to lane i % 16, in double, and lanes are merged by
 * halves. This order is the promise of the same bits on every instruction set and thread count. */
#ifndef OL_OPS_LANES_H
#define OL_OPS_LANES_H

#include <stdint.h>

enum { OL_SUM_LANES = 16 };

/* The sum of the lanes, of which only the first keeps its meaning. */
static inline double ol_merge_lanes(double lane[OL_SUM_LANES]) {
  for (int width = OL_SUM_LANES / 2; width > 0; width /= 2)
    for (int k = 0; k < width; k++) lane[k] += lane[k + width];
  return lane[0];
}

/* Runs STATEMENT(i) for each i below count, with its lane in k: `a[k] += x[i]`. */
#define OL_EACH_LANE(count, STATEMENT)                                                             \
  do {                                                                                             \
    int64_t at_ = 0;                                                                               \
    for (; at_ + OL_SUM_LANES <= (count); at_ += OL_SUM_LANES)                                     \
      for (int k = 0; k < OL_SUM_LANES; k++) STATEMENT(at_ + k);                                   \
    for (int k = 0; at_ + k < (count); k++) STATEMENT(at_ + k);                                    \
  } while (0)

#endif
