/* rule_build: short names to build graphs with, arrays of any float type, and the comparison of the
 * machine with the naive evaluator. */
#ifndef OL_TESTS_RULE_BUILD_H
#define OL_TESTS_RULE_BUILD_H

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "check.h"
#include "rule/cache.h"
#include "rule/code.h"
#include "rule/machine.h"
#include "rule/naive.h"

static ol_error error;
static ol_graph *graph;

/* Runs a call that must succeed. */
static inline bool ok(ol_status status) {
  if (status != OL_OK) printf("%s\n", error.message);
  return check_count(status == OL_OK, __FILE__, __LINE__, "the call succeeds");
}

/* Symbols. */

static inline ol_symbol read_operand(int operand) {
  ol_symbol symbol = -1;
  ok(ol_graph_read(&error, graph, operand, &symbol));
  return symbol;
}

static inline ol_symbol number(double value) {
  ol_symbol symbol = -1;
  ok(ol_graph_number(&error, graph, value, &symbol));
  return symbol;
}

static inline ol_symbol apply(ol_rule_op op, ol_symbol x, ol_symbol y, ol_symbol z) {
  ol_symbol inputs[] = { x, y, z }, symbol = -1;
  ok(ol_graph_apply(&error, graph, op, inputs, &symbol));
  return symbol;
}

static inline ol_symbol reduce(ol_rule_op op, ol_symbol x) {
  ol_symbol symbol = -1;
  ok(ol_graph_reduce(&error, graph, op, x, NULL, &symbol));
  return symbol;
}

static inline ol_symbol reduce_dim(ol_rule_op op, ol_symbol x, int64_t dim) {
  ol_symbol symbol = -1;
  ok(ol_graph_reduce(&error, graph, op, x, &dim, &symbol));
  return symbol;
}

static inline void store(int operand, ol_symbol value) {
  ok(ol_graph_store(&error, graph, operand, value));
}

static inline ol_symbol add(ol_symbol x, ol_symbol y) { return apply(OL_RULE_ADD, x, y, -1); }
static inline ol_symbol sub(ol_symbol x, ol_symbol y) { return apply(OL_RULE_SUB, x, y, -1); }
static inline ol_symbol mul(ol_symbol x, ol_symbol y) { return apply(OL_RULE_MUL, x, y, -1); }
static inline ol_symbol divide(ol_symbol x, ol_symbol y) { return apply(OL_RULE_DIV, x, y, -1); }
static inline ol_symbol root(ol_symbol x) { return apply(OL_RULE_SQRT, x, -1, -1); }
static inline ol_symbol times(double c, ol_symbol x) { return mul(number(c), x); }

/* Numbers that repeat: the sequence is fixed by the seed. */

static uint64_t random_state;

static inline uint32_t random_bits(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33);
}

/* 0 … below-1 */
static inline int pick(int below) { return (int)(random_bits() % (uint32_t)below); }

static inline double uniform(double low, double high) {
  return low + (high - low) * ((double)random_bits() / 2147483648.0);
}

/* A set of arrays, one for each operand. */

enum { MOST = OL_GRAPH_OPERANDS };

typedef struct arrays {
  int count;
  ol_dtype dtype[MOST];
  int packing[MOST];
  int64_t size[MOST]; /* elements */
  void *data[MOST];
} arrays;

static inline void set(const arrays *a, int operand, int64_t i, double value) {
  void *data = a->data[operand];
  if (a->dtype[operand] == OL_BF16)
    ((ol_bf16 *)data)[i] = ol_bf16_from_f32((float)value);
  else if (a->dtype[operand] == OL_F32)
    ((float *)data)[i] = (float)value;
  else
    ((double *)data)[i] = value;
}

static inline double get(const arrays *a, int operand, int64_t i) {
  const void *data = a->data[operand];
  if (a->packing[operand] & OL_PACK_CODES)
    return ol_codes_load(data, a->size[operand], a->packing[operand], i);
  if (a->dtype[operand] == OL_BF16) return ol_bf16_to_f32(((const ol_bf16 *)data)[i]);
  if (a->dtype[operand] == OL_F32) return ((const float *)data)[i];
  return ((const double *)data)[i];
}

static inline size_t bytes_of(const arrays *a, int i) {
  if (a->packing[i] & OL_PACK_CODES) return ol_codes_size(a->size[i]);
  return ol_dtype_size(a->dtype[i]) * (size_t)a->size[i];
}

static inline void make_packed(arrays *a, ol_dtype dtype, int packing, int64_t size) {
  int i = a->count++;
  a->dtype[i] = dtype;
  a->packing[i] = packing;
  a->size[i] = size;
  a->data[i] = malloc(bytes_of(a, i) + 1);
}

static inline void make_array(arrays *a, ol_dtype dtype, int64_t size) {
  make_packed(a, dtype, 0, size);
}

/* Fills an array of codes. */
static inline void set_codes(const arrays *a, int i, double element(void)) {
  float block[OL_CODES_BLOCK];
  for (int64_t at = 0; at < a->size[i]; at += OL_CODES_BLOCK) {
    int n = a->size[i] - at < OL_CODES_BLOCK ? (int)(a->size[i] - at) : OL_CODES_BLOCK;
    for (int k = 0; k < n; k++) block[k] = (float)element();
    ol_codes_store(block, n, a->data[i], a->size[i], at, a->packing[i], 1);
  }
}

static inline void copy_arrays(const arrays *from, arrays *to) {
  *to = (arrays){ 0 };
  for (int i = 0; i < from->count; i++) {
    make_packed(to, from->dtype[i], from->packing[i], from->size[i]);
    memcpy(to->data[i], from->data[i], bytes_of(from, i));
  }
}

static inline void free_arrays(arrays *a) {
  for (int i = 0; i < a->count; i++) free(a->data[i]);
  a->count = 0;
}

/* Bit for bit; a NaN equals any other. */
static inline bool same_number(double x, double y) {
  return (x != x && y != y) || memcmp(&x, &y, sizeof x) == 0;
}

static inline bool same_arrays(const arrays *a, const arrays *b) {
  for (int i = 0; i < a->count; i++)
    for (int64_t k = 0; k < a->size[i]; k++) {
      double x = get(a, i, k), y = get(b, i, k);
      if (same_number(x, y)) continue;
      printf("  array %d, element %lld: %.17g and %.17g\n", i, (long long)k, x, y);
      return false;
    }
  return true;
}

/* Prints the program of a test that failed. */
static inline void show(const ol_program *program) {
  static const char *const names[MOST] = { "p",  "g",  "s2", "s3", "s4",  "s5",
                                           "s6", "s7", "s8", "s9", "s10", "s11" };
  char *text;
  if (!ok(ol_program_text(&error, program, names, graph->number, &text))) return;
  printf("%s", text);
  ol_free(text);
}

/* Two tensors in a row, or one with codes: both begin at 0. */
static ol_noise_part noise[] = { { 0, 0x123456789abcdefu }, { 0, 0x123456789abcdefu } };
static const uint64_t salt[MOST] = { 0, 0, 1, 2, 3, 4, 5 };

/* What the graph means for these arrays. */
static inline ol_status run_naive(void *const *data, int64_t count, const double *factor,
                                  double *totals) {
  ol_run run = { NULL, NULL, data, count, factor, totals, noise, noise[1].begin > 0 ? 2 : 1, salt };
  return ol_naive_run(&error, graph, &run);
}

/* Runs the graph through compiler and machine on these arrays. */
static inline bool run_machine(const ol_program *program, const arrays *a, int64_t count,
                               const double *factor, double *totals) {
  ol_machine *machine;
  if (!ok(ol_machine_new(&error, &machine))) return false;
  ol_run run = { program, graph->number, a->data, count,
                 factor,  totals,        noise,   noise[1].begin > 0 ? 2 : 1,
                 salt };
  bool good = ok(ol_machine_prepare(&error, machine, &run, 1));
  ol_machine_commit(machine);
  ol_machine_free(machine);
  return good;
}

#endif
