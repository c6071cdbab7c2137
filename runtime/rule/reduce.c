/* reduce: how lanes and chunks of a reduction become one number, the same in every kernel. */
#include <math.h>

#include "rule/kernel.h"

double ol_reduce_identity(ol_rule_op op) {
  if (op == OL_RULE_AMAX) return -INFINITY;
  return op == OL_RULE_AMIN ? INFINITY : 0;
}

double ol_reduce_join(ol_rule_op op, double a, double b) {
  if (op == OL_RULE_AMAX) return b > a || b != b ? b : a;
  if (op == OL_RULE_AMIN) return b < a || b != b ? b : a;
  return a + b;
}

double ol_reduce_fold(ol_rule_op op, const double lanes[OL_LANES]) {
  double tree[OL_LANES];
  for (int i = 0; i < OL_LANES; i++) tree[i] = lanes[i];
  for (int half = OL_LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) tree[i] = ol_reduce_join(op, tree[i], tree[i + half]);
  return tree[0];
}

double ol_reduce_finish(ol_rule_op op, double total, int64_t count) {
  if (op == OL_RULE_MEAN) return total / (double)count;
  return op == OL_RULE_NORM ? sqrt(total) : total;
}
