/* naive: every node over the whole array, in double, rounded to the type after each operation.
 *
 * For + - * / and square roots this is what float arithmetic gives: the 53 bits of a double are
 * more than twice the 24 of a float and two, so that rounding twice rounds once. */
#include "rule/naive.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/vecmath.h"
#include "rule/kernel.h"
#include "tensor/blas.h"

typedef struct naive {
  const ol_graph *graph;
  void *const *arrays;
  int64_t count; /* elements of the parameter */
  const double *gradient_factor;
  const ol_run *run;
  double *value[OL_GRAPH_NODES]; /* of each node; one element for numbers */
} naive;

static double round_to(const naive *v, double x) {
  return v->graph->dtype == OL_F32 ? (double)(float)x : x;
}

static int64_t count_of(const naive *v, int shape) {
  if (shape == OL_RULE_SCALAR) return 1;
  return shape == OL_RULE_OWN ? v->count : ol_shape_numel(&v->graph->shape[shape]);
}

static ol_bf16 at_random(const naive *v, int operand, int64_t i, double x) {
  const ol_noise_part *part = v->run->noise, *end = part + v->run->noise_parts;
  while (part + 1 < end && part[1].begin <= i) part++;
  uint64_t salt = v->run->salt ? v->run->salt[operand] : 0;
  int64_t place = i - part->begin;
  uint32_t word = ol_noise(ol_noise_counter(part->key + salt, ol_noise_word(place)));
  return ol_bf16_at_random((float)x, word, place);
}

static double load(const naive *v, int operand, int64_t i) {
  const void *array = v->arrays[operand];
  const ol_dtype dtype = (ol_dtype)v->graph->operand[operand].dtype;
  const int packing = v->graph->operand[operand].packing;
  if (packing & OL_PACK_CODES) return ol_codes_load(array, v->count, packing, i);
  if (dtype == OL_BF16) return ol_bf16_to_f32(((const ol_bf16 *)array)[i]);
  return dtype == OL_F32 ? ((const float *)array)[i] : ((const double *)array)[i];
}

static void store(const naive *v, int operand, int64_t i, double x) {
  void *array = v->arrays[operand];
  const ol_dtype dtype = (ol_dtype)v->graph->operand[operand].dtype;
  if (v->graph->operand[operand].packing & OL_PACK_RANDOM)
    ((ol_bf16 *)array)[i] = at_random(v, operand, i, x);
  else if (dtype == OL_BF16)
    ((ol_bf16 *)array)[i] = ol_bf16_from_f32((float)x);
  else if (dtype == OL_F32)
    ((float *)array)[i] = (float)x;
  else
    ((double *)array)[i] = x;
}

/* One element. */

typedef void function_f32(int64_t, const float *, float *);
typedef void function_f64(int64_t, const double *, double *);

static double function(const naive *v, function_f32 *single, function_f64 *wide, double x) {
  float xs = (float)x, ys;
  double y;
  if (v->graph->dtype == OL_F32) {
    single(1, &xs, &ys);
    return ys;
  }
  wide(1, &x, &y);
  return y;
}

static double power(const naive *v, double x, double y, bool number) {
  float xs = (float)x, ys = (float)y, zs;
  double z;
  if (number && y == 2) return round_to(v, x * x);
  if (number && y == 3) return round_to(v, round_to(v, x * x) * x);
  if (number && y == 0.5) return round_to(v, sqrt(x));
  if (number && y == -0.5) return round_to(v, 1 / round_to(v, sqrt(x)));
  if (number && y == -1) return round_to(v, 1 / x);
  if (v->graph->dtype == OL_F32) {
    ol_vpow_f32(1, &xs, &ys, &zs);
    return zs;
  }
  ol_vpow_f64(1, &x, &y, &z);
  return z;
}

static double lerp(const naive *v, double x, double y, double w) {
  double span = round_to(v, y - x);
  if (fabs(w) < 0.5) return round_to(v, x + round_to(v, w * span));
  return round_to(v, y - round_to(v, span * round_to(v, 1 - w)));
}

static double element(const naive *v, ol_rule_op op, const double *in, bool number) {
  switch (op) {
  case OL_RULE_POW: return power(v, in[0], in[1], number);
  case OL_RULE_RSQRT: return round_to(v, 1 / round_to(v, sqrt(in[0])));
  case OL_RULE_EXP: return function(v, ol_vexp_f32, ol_vexp_f64, in[0]);
  case OL_RULE_LOG: return function(v, ol_vlog_f32, ol_vlog_f64, in[0]);
  case OL_RULE_TANH: return function(v, ol_vtanh_f32, ol_vtanh_f64, in[0]);
  case OL_RULE_LERP: return lerp(v, in[0], in[1], in[2]);
  case OL_RULE_FILL: return in[0];
  default: return round_to(v, ol_rule_op_number(op, in));
  }
}

/* The element of a tensor of shape `from` that meets element i of shape `to`. */
static int64_t meet(const naive *v, int from, int to, int64_t i) {
  if (from == OL_RULE_SCALAR) return 0;
  if (from == to) return i;
  const ol_shape *own = &v->graph->shape[from], *whole = &v->graph->shape[to];
  int64_t at = 0, stride = 1;
  for (int d = whole->ndim - 1, e = own->ndim - 1; e >= 0; d--, e--) {
    if (own->size[e] > 1) at += i % whole->size[d] * stride;
    stride *= own->size[e];
    i /= whole->size[d];
  }
  return at;
}

static bool is_plain(const naive *v, int n) {
  while (v->graph->node[n].op == OL_RULE_FILL) n = v->graph->node[n].in[0];
  return v->graph->node[n].shape == OL_RULE_SCALAR;
}

static void eval_elementwise(naive *v, int n) {
  const ol_graph_node *node = &v->graph->node[n];
  int inputs = ol_rule_op_table[node->op].inputs;
  bool scalar = node->shape == OL_RULE_SCALAR;
  bool number = inputs > 1 && is_plain(v, node->in[1]);
  int64_t count = count_of(v, node->shape);
  for (int64_t i = 0; i < count; i++) {
    double in[3];
    for (int k = 0; k < inputs; k++) {
      int shape = v->graph->node[node->in[k]].shape;
      double x = v->value[node->in[k]][meet(v, shape, node->shape, i)];
      in[k] = scalar ? x : round_to(v, x);
    }
    v->value[n][i] = scalar ? ol_rule_op_number((ol_rule_op)node->op, in)
                            : element(v, (ol_rule_op)node->op, in, number);
  }
}

/* Reductions: `count` elements at x, x+stride … */
static double reduce_lanes(ol_rule_op op, const double *x, int64_t count) {
  double total = ol_reduce_identity(op);
  for (int64_t begin = 0; begin < count; begin += OL_MACHINE_CHUNK) {
    double lanes[OL_LANES];
    for (int k = 0; k < OL_LANES; k++) lanes[k] = ol_reduce_identity(op);
    for (int64_t i = begin; i < count && i < begin + OL_MACHINE_CHUNK; i++) {
      lanes[i % OL_LANES] = ol_reduce_take(op, lanes[i % OL_LANES], x[i]);
    }
    total = ol_reduce_join(op, total, ol_reduce_fold(op, lanes));
  }
  return ol_reduce_finish(op, total, count);
}

static double reduce_column(ol_rule_op op, const double *x, int64_t count, int64_t stride) {
  double total = ol_reduce_identity(op);
  for (int64_t i = 0; i < count; i++) total = ol_reduce_take(op, total, x[i * stride]);
  return ol_reduce_finish(op, total, count);
}

static void eval_reduction(naive *v, int n) {
  const ol_graph_node *node = &v->graph->node[n];
  ol_rule_op op = (ol_rule_op)node->op;
  int from = v->graph->node[node->in[0]].shape;
  const double *x = v->value[node->in[0]];
  if (node->dim < 0) {
    v->value[n][0] = reduce_lanes(op, x, count_of(v, from));
    return;
  }
  ol_units u = ol_kernel_units(&v->graph->shape[from], node->dim, 1);
  for (int64_t i = 0; i < u.outer * u.inner; i++) {
    const double *first = x + i / u.inner * u.size * u.inner + i % u.inner;
    double total =
        u.inner == 1 ? reduce_lanes(op, first, u.size) : reduce_column(op, first, u.size, u.inner);
    v->value[n][i] = round_to(v, total);
  }
}

static void eval_transpose(naive *v, int n) {
  const ol_shape *to = &v->graph->shape[v->graph->node[n].shape];
  const double *x = v->value[v->graph->node[n].in[0]];
  for (int64_t i = 0; i < to->size[0]; i++)
    for (int64_t k = 0; k < to->size[1]; k++)
      v->value[n][i * to->size[1] + k] = x[k * to->size[0] + i];
}

/* Sums in double; BLAS sums in another order. */
static void eval_matmul(naive *v, int n) {
  const ol_graph_node *node = &v->graph->node[n];
  const ol_shape *a = &v->graph->shape[v->graph->node[node->in[0]].shape];
  const ol_shape *c = &v->graph->shape[node->shape];
  const double *x = v->value[node->in[0]], *y = v->value[node->in[1]];
  for (int64_t i = 0; i < c->size[0]; i++)
    for (int64_t j = 0; j < c->size[1]; j++) {
      double sum = 0;
      for (int64_t k = 0; k < a->size[1]; k++) sum += x[i * a->size[1] + k] * y[k * c->size[1] + j];
      v->value[n][i * c->size[1] + j] = round_to(v, sum);
    }
}

static void eval_operand(naive *v, int n) {
  int operand = v->graph->node[n].in[0];
  int64_t count = count_of(v, v->graph->operand[operand].shape);
  for (int64_t i = 0; i < count; i++) {
    double x = load(v, operand, i);
    bool scaled = operand == 1 && v->gradient_factor;
    v->value[n][i] = scaled ? round_to(v, round_to(v, *v->gradient_factor) * x) : x;
  }
}

static void eval(naive *v, int n) {
  const ol_graph_node *node = &v->graph->node[n];
  if (node->op == OL_RULE_OPERAND)
    eval_operand(v, n);
  else if (node->op == OL_RULE_NUMBER)
    v->value[n][0] = v->graph->number[node->in[0]];
  else if (node->op == OL_RULE_MATMUL)
    eval_matmul(v, n);
  else if (node->op == OL_RULE_T)
    eval_transpose(v, n);
  else if (ol_rule_op_is_reduction((ol_rule_op)node->op))
    eval_reduction(v, n);
  else
    eval_elementwise(v, n);
}

/* Whether an operand that the node reads has an array: unused ones may be missing. */
static bool is_missing(const naive *v, int n) {
  const ol_graph_node *node = &v->graph->node[n];
  if (node->op == OL_RULE_OPERAND) return !v->arrays[node->in[0]] && v->count > 0;
  for (int i = 0; node->op > OL_RULE_NUMBER && i < ol_rule_op_table[node->op].inputs; i++)
    if (!v->value[node->in[i]]) return true;
  return false;
}

static ol_status eval_all(ol_error *error, naive *v) {
  for (int n = 0; n < v->graph->nodes; n++) {
    if (is_missing(v, n)) continue;
    size_t size = sizeof(double) * (size_t)count_of(v, v->graph->node[n].shape);
    OL_TRY(OL_ALLOC(error, size, "the naive evaluator", &v->value[n]));
    eval(v, n);
  }
  return OL_OK;
}

static void write_codes(const naive *v, int operand, const double *value) {
  const int packing = v->graph->operand[operand].packing;
  uint64_t key = packing & OL_PACK_RANDOM ? v->run->noise->key : 0;
  if (v->run->salt) key += v->run->salt[operand];
  float block[OL_CODES_BLOCK];
  for (int64_t at = 0; at < v->count; at += OL_CODES_BLOCK) {
    int n = v->count - at < OL_CODES_BLOCK ? (int)(v->count - at) : OL_CODES_BLOCK;
    for (int k = 0; k < n; k++) block[k] = (float)value[at + k];
    ol_codes_store(block, n, v->arrays[operand], v->count, at, packing, key);
  }
}

static void write_result(const naive *v, int operand) {
  int n = v->graph->operand[operand].store;
  const ol_graph_node *node = n < 0 ? NULL : &v->graph->node[n];
  if (node && node->op == OL_RULE_OPERAND && node->in[0] == operand) return; /* as it was */
  if (n >= 0 && v->graph->operand[operand].packing & OL_PACK_CODES) {
    write_codes(v, operand, v->value[n]);
    return;
  }
  int64_t count = n < 0 ? 0 : count_of(v, v->graph->operand[operand].shape);
  for (int64_t k = 0; k < count; k++) store(v, operand, k, v->value[n][k]);
}

static void write_results(const naive *v, double *totals) {
  for (int i = 0; i < v->graph->operands; i++) write_result(v, i);
  for (int i = 0; i < v->graph->totals; i++)
    totals[v->graph->total[i].slot] += v->value[v->graph->total[i].node][0];
}

ol_status ol_naive_run(ol_error *error, const ol_graph *graph, const ol_run *run) {
  naive v = { .graph = graph,
              .arrays = run->arrays,
              .count = run->count,
              .gradient_factor = run->gradient_factor,
              .run = run };
  ol_status status = eval_all(error, &v);
  if (status == OL_OK) write_results(&v, run->totals);
  for (int n = 0; n < graph->nodes; n++) ol_free(v.value[n]);
  return status;
}
