/* lanes: how sums run here: element i is added to lane i % 16, in double, and lanes are merged by
 * halves. This order is the promise of the same bits on every instruction set and thread count. */
#ifndef OL_BASE_LANES_H
#define OL_BASE_LANES_H

#include <stdint.h>

enum { OL_SUM_LANES = 16 };

/* The sum of the lanes, of which only the first keeps its meaning. */
static inline double ol_merge_lanes(double lane[OL_SUM_LANES]) {
  for (int width = OL_SUM_LANES / 2; width > 0; width /= 2)
    for (int k = 0; k < width; k++) lane[k] += lane[k + width];
  return lane[0];
}

/* Runs a statement for each i below count, with its lane in k: `lane[k] += x[i]`. */
#define OL_EACH_LANE(count, ...)                                                                   \
  do {                                                                                             \
    int64_t at_ = 0;                                                                               \
    for (; at_ + OL_SUM_LANES <= (count); at_ += OL_SUM_LANES)                                     \
      for (int k = 0; k < OL_SUM_LANES; k++) {                                                     \
        const int64_t i = at_ + k;                                                                 \
        __VA_ARGS__;                                                                               \
      }                                                                                            \
    for (int k = 0; at_ + k < (count); k++) {                                                      \
      const int64_t i = at_ + k;                                                                   \
      __VA_ARGS__;                                                                                 \
    }                                                                                              \
  } while (0)

#endif
