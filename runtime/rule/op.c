/* op: the table of operations, and their meaning for plain numbers. */
#include "rule/op.h"

#include <math.h>

#include "base/vecmath.h"

const ol_rule_op_info ol_rule_op_table[OL_RULE_OP_COUNT] = {
#define ENTRY(op, label, count, args, text)                                                        \
  [OL_RULE_##op] = { .name = label, .inputs = count, .arguments = args, .doc = text },
  OL_RULE_OPS(ENTRY)
#undef ENTRY
};

static double power(double x, double y) {
  if (y == 2) return x * x;
  if (y == 3) return x * x * x;
  if (y == 0.5) return sqrt(x);
  if (y == -0.5) return 1 / sqrt(x);
  if (y == -1) return 1 / x;
  double z;
  ol_vpow_f64(1, &x, &y, &z);
  return z;
}

static double function(void (*f)(int64_t, const double *, double *), double x) {
  double y;
  f(1, &x, &y);
  return y;
}

static double minimum(double x, double y) { return x != x || x <= y ? x : y; }
static double maximum(double x, double y) { return x != x || x >= y ? x : y; }

static double lerp(double x, double y, double w) {
  return fabs(w) < 0.5 ? x + w * (y - x) : y - (y - x) * (1 - w);
}

double ol_rule_op_number(ol_rule_op op, const double *in) {
  switch (op) {
  case OL_RULE_ADD: return in[0] + in[1];
  case OL_RULE_SUB: return in[0] - in[1];
  case OL_RULE_MUL: return in[0] * in[1];
  case OL_RULE_DIV: return in[0] / in[1];
  case OL_RULE_POW: return power(in[0], in[1]);
  case OL_RULE_NEG: return -in[0];
  case OL_RULE_SQRT: return sqrt(in[0]);
  case OL_RULE_RSQRT: return 1 / sqrt(in[0]);
  case OL_RULE_ABS: return fabs(in[0]);
  case OL_RULE_SIGN: return (in[0] > 0) - (in[0] < 0);
  case OL_RULE_EXP: return function(ol_vexp_f64, in[0]);
  case OL_RULE_LOG: return function(ol_vlog_f64, in[0]);
  case OL_RULE_TANH: return function(ol_vtanh_f64, in[0]);
  case OL_RULE_MIN: return minimum(in[0], in[1]);
  case OL_RULE_MAX: return maximum(in[0], in[1]);
  case OL_RULE_LT: return in[0] < in[1];
  case OL_RULE_LE: return in[0] <= in[1];
  case OL_RULE_GT: return in[0] > in[1];
  case OL_RULE_GE: return in[0] >= in[1];
  case OL_RULE_EQ: return in[0] == in[1];
  case OL_RULE_NE: return in[0] != in[1];
  case OL_RULE_CLAMP: return minimum(maximum(in[0], in[1]), in[2]);
  case OL_RULE_LERP: return lerp(in[0], in[1], in[2]);
  case OL_RULE_WHERE: return in[0] != 0 ? in[1] : in[2];
  default: return NAN; /* reductions and products take tensors */
  }
}
