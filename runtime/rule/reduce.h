/* reduce: how lanes and chunks of a reduction become one number, the same in every kernel.
 *
 * A reduction is cut into chunks of OL_MACHINE_CHUNK elements. In a chunk, element i goes to lane i
 * mod 16, in double; a tree folds the lanes; chunks are joined in order. */
#ifndef OL_RULE_REDUCE_H
#define OL_RULE_REDUCE_H

#include <math.h>
#include <stdint.h>

#include "rule/op.h"

enum { OL_LANES = 16 };

/* What a lane begins with. */
static inline double ol_reduce_identity(ol_rule_op op) {
  if (op == OL_RULE_AMAX) return -INFINITY;
  return op == OL_RULE_AMIN ? INFINITY : 0;
}

/* Two partial results. */
static inline double ol_reduce_join(ol_rule_op op, double a, double b) {
  if (op == OL_RULE_AMAX) return b > a || b != b ? b : a;
  if (op == OL_RULE_AMIN) return b < a || b != b ? b : a;
  return a + b;
}

/* A partial result and an element. */
static inline double ol_reduce_take(ol_rule_op op, double a, double x) {
  return ol_reduce_join(op, a, op == OL_RULE_NORM ? x * x : x);
}

/* The lanes of a chunk. */
static inline double ol_reduce_fold(ol_rule_op op, const double lanes[OL_LANES]) {
  double tree[OL_LANES];
  for (int i = 0; i < OL_LANES; i++) tree[i] = lanes[i];
  for (int half = OL_LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) tree[i] = ol_reduce_join(op, tree[i], tree[i + half]);
  return tree[0];
}

/* The result over count elements. */
static inline double ol_reduce_finish(ol_rule_op op, double total, int64_t count) {
  if (op == OL_RULE_MEAN) return total / (double)count;
  return op == OL_RULE_NORM ? sqrt(total) : total;
}

#endif
