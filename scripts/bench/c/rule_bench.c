/* rule_bench: the vector machine against the floors under it, in one run.
 *
 *   bytes   a loop that reads and writes the same arrays in place and hardly computes
 *   fused   the update as one loop, written by hand
 * Times are medians of interleaved runs; compare ratios, not times: where memory is placed changes
 * bandwidth from one run of the program to the next.
 *
 *   make build/bench/rule_bench && build/bench/rule_bench [largest size] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "rule/cache.h"
#include "rule/machine.h"

static ol_error error;

static void must(ol_status status) {
  if (status == OL_OK) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *times, int count) {
  qsort(times, (size_t)count, sizeof *times, by_size);
  return times[count / 2];
}

/* Rules, as a script writes them. */

static ol_graph *graph;

static ol_symbol number(double value) {
  ol_symbol symbol;
  must(ol_graph_number(&error, graph, value, &symbol));
  return symbol;
}

static ol_symbol array(int operand) {
  ol_symbol symbol;
  must(ol_graph_read(&error, graph, operand, &symbol));
  return symbol;
}

static ol_symbol apply(ol_rule_op op, ol_symbol x, ol_symbol y) {
  ol_symbol symbol, in[] = { x, y, -1 };
  must(ol_graph_apply(&error, graph, op, in, &symbol));
  return symbol;
}

static ol_symbol add(ol_symbol x, ol_symbol y) { return apply(OL_RULE_ADD, x, y); }
static ol_symbol sub(ol_symbol x, ol_symbol y) { return apply(OL_RULE_SUB, x, y); }
static ol_symbol mul(ol_symbol x, ol_symbol y) { return apply(OL_RULE_MUL, x, y); }
static ol_symbol divide(ol_symbol x, ol_symbol y) { return apply(OL_RULE_DIV, x, y); }

static ol_symbol store(int operand, ol_symbol value) {
  must(ol_graph_store(&error, graph, operand, value));
  return value;
}

static void trace_adamw(void) {
  ol_symbol p = array(0), g = array(1), m = array(2), v = array(3);
  p = mul(p, number(1 - 1e-5 * 0.01));
  m = store(2, add(mul(number(0.9), m), mul(number(0.1), g)));
  v = store(3, add(mul(number(0.999), v), mul(mul(number(0.001), g), g)));
  ol_symbol root = apply(OL_RULE_SQRT, v, -1);
  ol_symbol denominator = add(mul(number(1 / 0.3), root), number(1e-8));
  store(0, sub(p, mul(number(1e-5), divide(m, denominator))));
}

static void trace_sgd(void) {
  ol_symbol p = array(0), g = array(1), m = array(2);
  m = store(2, add(mul(number(0.9), m), g));
  store(0, sub(p, mul(number(1e-5), m)));
}

static void trace_lion(void) {
  ol_symbol p = array(0), g = array(1), m = array(2);
  ol_symbol mixed = add(mul(number(0.9), m), mul(number(0.1), g));
  store(2, add(mul(number(0.99), m), mul(number(0.01), g)));
  store(0, sub(mul(p, number(0.9999)), mul(number(1e-5), apply(OL_RULE_SIGN, mixed, -1))));
}

/* Loops by hand. The numbers come from outside, as they do in the machine. */

typedef struct streams {
  float *p, *g, *m, *v;
  int64_t count;
} streams;

static volatile float zero;

OL_KERNEL static void bytes_four(int64_t begin, int64_t end, void *context) {
  const streams *s = context;
  float *p = s->p, *g = s->g, *m = s->m, *v = s->v, none = zero;
  OL_APART for (int64_t i = begin; i < end; i++) {
    p[i] = p[i] + none * g[i];
    m[i] = m[i] + none;
    v[i] = v[i] + none;
  }
}

OL_KERNEL static void bytes_three(int64_t begin, int64_t end, void *context) {
  const streams *s = context;
  float *p = s->p, *g = s->g, *m = s->m, none = zero;
  OL_APART for (int64_t i = begin; i < end; i++) {
    p[i] = p[i] + none * g[i];
    m[i] = m[i] + none;
  }
}

OL_KERNEL static void fused_adamw(int64_t begin, int64_t end, void *context) {
  const streams *s = context;
  float *p = s->p, *g = s->g, *m = s->m, *v = s->v, none = zero;
  const float decay = 1 - 1e-7f + none, b1 = 0.9f + none, c1 = 0.1f + none, b2 = 0.999f + none,
              c2 = 0.001f + none, bias = 1 / 0.3f + none, eps = 1e-8f + none, lr = 1e-5f + none;
  OL_APART for (int64_t i = begin; i < end; i++) {
    float mi = b1 * m[i] + c1 * g[i], vi = b2 * v[i] + c2 * g[i] * g[i];
    p[i] = decay * p[i] - lr * (mi / (__builtin_sqrtf(vi) * bias + eps));
    m[i] = mi, v[i] = vi;
  }
}

OL_KERNEL static void fused_sgd(int64_t begin, int64_t end, void *context) {
  const streams *s = context;
  float *p = s->p, *g = s->g, *m = s->m, none = zero;
  const float momentum = 0.9f + none, lr = 1e-5f + none;
  OL_APART for (int64_t i = begin; i < end; i++) {
    float mi = momentum * m[i] + g[i];
    p[i] = p[i] - lr * mi;
    m[i] = mi;
  }
}

OL_KERNEL static void fused_lion(int64_t begin, int64_t end, void *context) {
  const streams *s = context;
  float *p = s->p, *g = s->g, *m = s->m, none = zero;
  const float b1 = 0.9f + none, c1 = 0.1f + none, b2 = 0.99f + none, c2 = 0.01f + none,
              decay = 0.9999f + none, lr = 1e-5f + none;
  OL_APART for (int64_t i = begin; i < end; i++) {
    float mixed = b1 * m[i] + c1 * g[i];
    float sign = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : 0.0f;
    m[i] = b2 * m[i] + c2 * g[i];
    p[i] = decay * p[i] - lr * sign;
  }
}

typedef struct rule {
  const char *name;
  int operands;
  void (*trace)(void);
  ol_range_fn *bytes, *fused;
} rule;

static const rule rules[] = {
  { "AdamW", 4, trace_adamw, bytes_four, fused_adamw },
  { "SGD", 3, trace_sgd, bytes_three, fused_sgd },
  { "Lion", 3, trace_lion, bytes_three, fused_lion },
};

/* Measuring. */

static void trace(const rule *r) {
  static const ol_operand operands[] = { { OL_F32 }, { OL_F32 }, { OL_F32 }, { OL_F32 } };
  ol_shape shape = { 1, { 1 } };
  must(ol_graph_begin(&error, graph, &shape, operands, r->operands));
  r->trace();
}

static void fill(float *x, int64_t count, float offset) {
  for (int64_t i = 0; i < count; i++) x[i] = (float)(i % 1013) * 1e-3f + offset;
}

static streams make_streams(int64_t count) {
  streams s = { .count = count };
  float **array_of[] = { &s.p, &s.g, &s.m, &s.v };
  for (int i = 0; i < 4; i++) {
    *array_of[i] = ol_alloc(sizeof(float) * (size_t)count);
    if (!*array_of[i]) exit(1);
    fill(*array_of[i], count, i == 3 ? 0.1f : -0.5f);
  }
  return s;
}

static void free_streams(streams *s) { ol_free(s->p), ol_free(s->g), ol_free(s->m), ol_free(s->v); }

static void loop(ol_range_fn *fn, streams *s) {
  ol_parallel_for(s->count, OL_MACHINE_CHUNK, fn, s);
}

static void step(ol_machine *machine, const ol_run *runs, int64_t count) {
  must(ol_machine_prepare(&error, machine, runs, count));
  ol_machine_commit(machine);
}

enum { SAMPLES = 15 };

/* Medians of bytes, fused and machine, in seconds. */
static void measure(const rule *r, ol_machine *machine, streams *s, double out[3]) {
  double times[3][SAMPLES];
  void *arrays[] = { s->p, s->g, s->m, s->v };
  ol_program *program;
  trace(r);
  must(ol_program_compile(&error, graph, &program));
  ol_run run = { program, graph->number, arrays, s->count, NULL, NULL };
  int inner = s->count < 4000000 ? (int)(4000000 / s->count) : 1;
  int samples = s->count > 50000000 ? 7 : SAMPLES;
  for (int i = -1; i < samples; i++)
    for (int what = 0; what < 3; what++) {
      double start = now();
      for (int k = 0; k < inner; k++) {
        if (what == 0)
          loop(r->bytes, s);
        else if (what == 1)
          loop(r->fused, s);
        else
          step(machine, &run, 1);
      }
      if (i >= 0) times[what][i] = (now() - start) / inner;
    }
  for (int what = 0; what < 3; what++) out[what] = median(times[what], samples);
  ol_release(program);
}

static void bench_sizes(ol_machine *machine, int64_t largest) {
  static const int64_t sizes[] = { 124000000, 10000000, 1000000, 100000, 10000 };
  printf("%-6s %10s %8s %11s %9s %9s\n", "rule", "elements", "threads", "ms", "/ bytes", "/ fused");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i] > largest) continue;
    streams s = make_streams(sizes[i]);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
      for (int threads = 1; threads <= 2; threads++) {
        double t[3];
        ol_set_threads(threads);
        measure(&rules[k], machine, &s, t);
        printf("%-6s %10lld %8d %11.4f %9.2f %9.2f\n", rules[k].name, (long long)sizes[i], threads,
               1e3 * t[2], t[2] / t[0], t[2] / t[1]);
      }
    free_streams(&s);
  }
}

/* Many small tensors: neighbours in slabs as one run, or each a run; or each allocated apart. */

enum { TENSORS = 10000, SMALL = 1000 };

static void bench_small(ol_machine *machine) {
  static const char *const names[] = { "one contiguous tensor", "slabs, coalesced",
                                       "slabs, a run each", "each array apart" };
  static void *slab[TENSORS][4], *apart[TENSORS][4], *whole[4];
  ol_run *in_slab = malloc(sizeof *in_slab * TENSORS), *alone = malloc(sizeof *alone * TENSORS);
  streams s = make_streams((int64_t)TENSORS * SMALL);
  ol_program *program;
  trace(&rules[0]);
  must(ol_program_compile(&error, graph, &program));
  for (int i = 0; i < TENSORS; i++) {
    float *from[] = { s.p, s.g, s.m, s.v };
    for (int k = 0; k < 4; k++) {
      whole[k] = from[k];
      slab[i][k] = from[k] + (int64_t)i * SMALL;
      apart[i][k] = ol_alloc(sizeof(float) * SMALL);
      memcpy(apart[i][k], slab[i][k], sizeof(float) * SMALL);
    }
    in_slab[i] = (ol_run){ program, graph->number, slab[i], SMALL, NULL, NULL };
    alone[i] = (ol_run){ program, graph->number, apart[i], SMALL, NULL, NULL };
  }
  ol_run one = { program, graph->number, whole, s.count, NULL, NULL };
  const ol_run *const runs[] = { &one, &one, in_slab, alone };
  const int64_t counts[] = { 1, 1, TENSORS, TENSORS };
  printf("\n%d tensors of %d, AdamW\n", TENSORS, SMALL);
  for (int threads = 1; threads <= 2; threads++) {
    double times[4][SAMPLES];
    ol_set_threads(threads);
    for (int i = -1; i < SAMPLES; i++)
      for (int k = 0; k < 4; k++) {
        double start = now();
        step(machine, runs[k], counts[k]);
        if (i >= 0) times[k][i] = now() - start;
      }
    double floor = median(times[0], SAMPLES);
    for (int k = 0; k < 4; k++) {
      double t = k == 0 ? floor : median(times[k], SAMPLES);
      printf("  %-22s %d threads %9.3f ms %6.2f\n", names[k], threads, 1e3 * t, t / floor);
    }
  }
  for (int i = 0; i < TENSORS; i++)
    for (int k = 0; k < 4; k++) ol_free(apart[i][k]);
  free(in_slab), free(alone);
  free_streams(&s);
  ol_release(program);
}

static void bench_look_up(void) {
  enum { CALLS = 20000 };
  ol_program_cache *cache;
  ol_program *program;
  must(ol_program_cache_new(&error, 64, &cache));
  printf("\n%-6s %12s %12s %12s   microseconds\n", "rule", "trace", "look up", "compile");
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    double start = now();
    for (int i = 0; i < CALLS; i++) trace(&rules[k]);
    double traced = now();
    for (int i = 0; i < CALLS; i++) {
      must(ol_program_cache_get(&error, cache, graph, &program));
      ol_release(program);
    }
    double found = now();
    for (int i = 0; i < CALLS / 10; i++) {
      must(ol_program_compile(&error, graph, &program));
      ol_release(program);
    }
    double compiled = now();
    printf("%-6s %12.3f %12.3f %12.1f\n", rules[k].name, 1e6 * (traced - start) / CALLS,
           1e6 * (found - traced) / CALLS, 1e7 * (compiled - found) / CALLS);
  }
  ol_program_cache_free(cache);
}

int main(int argc, char **argv) {
  ol_machine *machine;
  must(ol_graph_new(&error, &graph));
  must(ol_machine_new(&error, &machine));
  printf("instruction set %s\n", ol_machine_isa());
  bench_sizes(machine, argc > 1 ? atoll(argv[1]) : INT64_MAX);
  bench_small(machine);
  bench_look_up();
  ol_machine_free(machine);
  ol_graph_free(graph);
  return 0;
}
