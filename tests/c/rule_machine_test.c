/* The machine: many runs at once, reductions, totals and the gradient factor; the meaning of
 * operations for special values; bad runs; every allocation failed in turn. */
#include "rule_build.h"

static const double specials[] = { -INFINITY, -2, -1, -0.0, 0, 0.25, 1, 3, INFINITY, NAN };

enum { SPECIALS = sizeof specials / sizeof *specials };

static ol_program *compile(void) {
  ol_program *program = NULL;
  ok(ol_program_compile(&error, graph, &program));
  return program;
}

static void begin(ol_dtype dtype, int operands) {
  ol_operand operand[MOST];
  ol_shape shape = { 1, { 8 } };
  for (int i = 0; i < operands; i++) operand[i] = (ol_operand){ dtype, NULL };
  ok(ol_graph_begin(&error, graph, &shape, operand, operands));
}

static arrays random_arrays(ol_dtype dtype, int operands, int64_t count) {
  arrays a = { 0 };
  for (int i = 0; i < operands; i++) {
    make_array(&a, dtype, count);
    for (int64_t k = 0; k < count; k++) set(&a, i, k, uniform(-1, 1));
  }
  return a;
}

/* Operations on special values: op.h, and PyTorch, say what comes out. */

static double meaning(ol_rule_op op, double x, double y, double z) {
  switch (op) {
  case OL_RULE_MIN: return x != x ? x : y != y ? y : y < x ? y : x;
  case OL_RULE_MAX: return x != x ? x : y != y ? y : y > x ? y : x;
  case OL_RULE_CLAMP: return meaning(OL_RULE_MIN, meaning(OL_RULE_MAX, x, y, 0), z, 0);
  case OL_RULE_SIGN: return x > 0 ? 1 : x < 0 ? -1 : 0;
  case OL_RULE_LT: return x < y;
  case OL_RULE_LE: return x <= y;
  case OL_RULE_GT: return x > y;
  case OL_RULE_GE: return x >= y;
  case OL_RULE_EQ: return x == y;
  case OL_RULE_NE: return x != y;
  case OL_RULE_WHERE: return x == 0 ? z : y;
  default: return NAN;
  }
}

static void means_what_is_documented(ol_rule_op op, ol_dtype dtype) {
  enum { COUNT = SPECIALS * SPECIALS * SPECIALS };
  begin(dtype, 4);
  store(0, apply(op, read_operand(0), read_operand(2), read_operand(3)));
  ol_program *program = compile();
  arrays a = random_arrays(dtype, 4, COUNT), b;
  for (int i = 0; i < COUNT; i++) {
    set(&a, 0, i, specials[i / SPECIALS / SPECIALS]);
    set(&a, 2, i, specials[i / SPECIALS % SPECIALS]);
    set(&a, 3, i, specials[i % SPECIALS]);
  }
  copy_arrays(&a, &b);
  run_machine(program, &b, COUNT, NULL, NULL);
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) {
    double in[] = { get(&a, 0, i), get(&a, 2, i), get(&a, 3, i) };
    double want = meaning(op, in[0], in[1], in[2]);
    wrong += !same_number(get(&b, 0, i), want);
    wrong += !same_number(ol_rule_op_number(op, in), want); /* plain numbers mean the same */
  }
  if (!CHECK(wrong == 0)) printf("  %s\n", ol_rule_op_table[op].name);
  free_arrays(&a);
  free_arrays(&b);
  ol_release(program);
}

static void special_values(void) {
  static const ol_rule_op ops[] = { OL_RULE_MIN, OL_RULE_MAX, OL_RULE_CLAMP, OL_RULE_SIGN,
                                    OL_RULE_LT,  OL_RULE_LE,  OL_RULE_GT,    OL_RULE_GE,
                                    OL_RULE_EQ,  OL_RULE_NE,  OL_RULE_WHERE };
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    means_what_is_documented(ops[i], OL_F32);
    means_what_is_documented(ops[i], OL_F64);
  }
}

/* x^c for the numbers with short cuts, and one without, on all instruction sets. */
static void powers(void) {
  static const double exponents[] = { 2, 3, 0.5, -0.5, -1, 1.5, 0 };
  const char *best = ol_machine_isa();
  for (size_t i = 0; i < 2 * sizeof exponents / sizeof *exponents; i++) {
    ol_dtype dtype = i % 2 ? OL_F64 : OL_F32;
    begin(dtype, 2);
    store(0, apply(OL_RULE_POW, read_operand(0), number(exponents[i / 2]), -1));
    ol_program *program = compile();
    arrays a = random_arrays(dtype, 2, 300), expected;
    for (int k = 0; k < SPECIALS; k++) set(&a, 0, k, specials[k]);
    copy_arrays(&a, &expected);
    ok(run_naive(expected.data, 300, NULL, NULL));
    for (const char *const *isa = ol_machine_isas(); *isa; isa++) {
      arrays after;
      copy_arrays(&a, &after);
      ol_machine_set_isa(*isa);
      run_machine(program, &after, 300, NULL, NULL);
      CHECK(same_arrays(&expected, &after));
      free_arrays(&after);
    }
    free_arrays(&a), free_arrays(&expected);
    ol_release(program);
  }
  ol_machine_set_isa(best);
}

/* A block of codes with a NaN has the same codes whatever the signs of NaN are, on every
 * instruction set. */
static void nan_has_one_code(void) {
  enum { COUNT = 259 };
  const ol_shape shape = { 1, { COUNT } };
  const ol_operand operand[] = { { OL_F32 }, { OL_F32 }, { OL_U8, NULL, OL_PACK_CODES } };
  const char *best = ol_machine_isa();
  ok(ol_graph_begin(&error, graph, &shape, operand, 3));
  store(2, sub(read_operand(0), read_operand(1)));
  ol_program *program = compile();
  for (const char *const *isa = ol_machine_isas(); *isa; isa++) {
    arrays a = { 0 };
    make_array(&a, OL_F32, COUNT), make_array(&a, OL_F32, COUNT);
    make_packed(&a, OL_U8, OL_PACK_CODES, COUNT);
    for (int k = 0; k < COUNT; k++)
      set(&a, 0, k, k % 3 ? -1 : -NAN), set(&a, 1, k, k % 2 ? NAN : 1);
    ol_machine_set_isa(*isa);
    run_machine(program, &a, COUNT, NULL, NULL);
    for (int k = 0; k < COUNT; k++) CHECK(((uint8_t *)a.data[2])[k] == 0 && isnan(get(&a, 2, k)));
    free_arrays(&a);
  }
  ol_machine_set_isa(best);
  ol_release(program);
}

/* lerp is exact at both ends, as PyTorch's. */
static void lerp_is_exact_at_its_ends(void) {
  begin(OL_F32, 3);
  store(0, apply(OL_RULE_LERP, read_operand(0), read_operand(2), number(1)));
  store(2, apply(OL_RULE_LERP, read_operand(2), read_operand(0), number(0)));
  ol_program *program = compile();
  arrays a = random_arrays(OL_F32, 3, 1000), b;
  copy_arrays(&a, &b);
  run_machine(program, &b, 1000, NULL, NULL);
  bool same = true;
  for (int i = 0; i < 1000; i++)
    same &= get(&b, 0, i) == get(&a, 2, i) && get(&b, 2, i) == get(&a, 2, i);
  CHECK(same);
  free_arrays(&a), free_arrays(&b);
  ol_release(program);
}

/* Runs. A rule with everything: reductions over two levels, totals, a swap. */

static void trace_rich_rule(void) {
  begin(OL_F32, 4);
  ol_symbol p = read_operand(0), g = read_operand(1), a = read_operand(2), b = read_operand(3);
  ol_symbol ratio = divide(reduce(OL_RULE_NORM, p), add(reduce(OL_RULE_NORM, g), number(1e-8)));
  store(2, b);
  store(3, a);
  store(0, sub(p, mul(mul(number(0.1), ratio), g)));
  ok(ol_graph_add_total(&error, graph, 1, mul(g, p)));
  ok(ol_graph_add_total(&error, graph, 0, ratio));
  ok(ol_graph_add_total(&error, graph, 1, number(0.5)));
}

static const int64_t sizes[] = { 3, 0, 70000, 256, 1, 200000, 65536, 1000 };

enum { RUNS = sizeof sizes / sizeof *sizes };

static void many_runs_at_once(void) {
  static const double factor = 0.75;
  double expected_totals[2] = { 0 };
  arrays before[RUNS], expected[RUNS];
  trace_rich_rule();
  ol_program *program = compile();
  CHECK(program->reduces && !program->coalesces && program->levels == 2);
  CHECK_EQUAL(program->total_count, 2);
  for (int i = 0; i < RUNS; i++) {
    before[i] = random_arrays(OL_F32, 4, sizes[i]);
    copy_arrays(&before[i], &expected[i]);
    ok(run_naive(expected[i].data, sizes[i], &factor, expected_totals));
  }
  for (int threads = 1; threads <= 3; threads++) {
    ol_machine *machine;
    ol_run runs[RUNS];
    arrays after[RUNS];
    double totals[2] = { 0 };
    ol_set_threads(threads);
    ok(ol_machine_new(&error, &machine));
    for (int i = 0; i < RUNS; i++) {
      copy_arrays(&before[i], &after[i]);
      runs[i] = (ol_run){ program, graph->number, after[i].data, sizes[i], &factor, totals };
    }
    ok(ol_machine_prepare(&error, machine, runs, RUNS));
    CHECK(same_arrays(&before[2], &after[2])); /* nothing is written yet */
    ol_machine_commit(machine);
    for (int i = 0; i < RUNS; i++) CHECK(same_arrays(&expected[i], &after[i]));
    for (int i = 0; i < 2; i++) CHECK(same_number(totals[i], expected_totals[i]));
    ol_machine_commit(machine); /* nothing is prepared: nothing happens */
    for (int i = 0; i < RUNS; i++) CHECK(same_arrays(&expected[i], &after[i]));
    for (int i = 0; i < RUNS; i++) free_arrays(&after[i]);
    ol_machine_free(machine);
  }
  for (int i = 0; i < RUNS; i++) free_arrays(&before[i]), free_arrays(&expected[i]);
  ol_release(program);
}

/* Neighbours as one run give what they give one by one. */
static void neighbours_coalesce(void) {
  enum { PIECES = 50, PIECE = 1000, ALL = PIECES * PIECE };
  begin(OL_F32, 3);
  store(2, add(times(0.9, read_operand(2)), read_operand(1)));
  store(0, sub(read_operand(0), times(0.1, read_operand(2))));
  ol_program *program = compile();
  CHECK(program->coalesces);
  arrays whole = random_arrays(OL_F32, 3, ALL), pieces;
  copy_arrays(&whole, &pieces);
  run_machine(program, &whole, ALL, NULL, NULL);
  for (int i = 0; i < PIECES; i++) {
    arrays one = pieces;
    for (int k = 0; k < 3; k++) one.data[k] = (float *)pieces.data[k] + (int64_t)i * PIECE;
    run_machine(program, &one, PIECE, NULL, NULL);
  }
  CHECK(same_arrays(&whole, &pieces));
  free_arrays(&whole), free_arrays(&pieces);
  ol_release(program);
}

/* No factor multiplies nothing: a rule that copies g keeps its bits; a factor rounds once. */
static void the_gradient_factor(void) {
  static const double third = 1.0 / 3;
  begin(OL_F32, 3);
  store(2, read_operand(1));
  ol_program *program = compile();
  arrays a = random_arrays(OL_F32, 3, 300);
  run_machine(program, &a, 300, NULL, NULL);
  CHECK(memcmp(a.data[1], a.data[2], 300 * sizeof(float)) == 0);
  run_machine(program, &a, 300, &third, NULL);
  bool scaled = true;
  for (int i = 0; i < 300; i++)
    scaled &= (float)get(&a, 2, i) == (float)third * (float)get(&a, 1, i);
  CHECK(scaled);
  free_arrays(&a);
  ol_release(program);
}

/* Arrays that a rule does not touch may be missing; others not. */
static void missing_arrays_are_refused(void) {
  ol_machine *machine;
  begin(OL_F32, 4);
  store(2, read_operand(1));
  ol_program *program = compile();
  arrays a = random_arrays(OL_F32, 4, 10);
  void *some[] = { NULL, a.data[1], a.data[2], NULL }, *none[] = { NULL, NULL, a.data[2], NULL };
  ok(ol_machine_new(&error, &machine));
  ol_run good = { program, graph->number, some, 10, NULL, NULL };
  ol_run bad = { program, graph->number, none, 10, NULL, NULL };
  ok(ol_machine_prepare(&error, machine, &good, 1));
  CHECK_EQUAL(ol_machine_prepare(&error, machine, &bad, 1), OL_ARGUMENT);
  CHECK_STRING(error.message, "array 2 of a rule is missing");
  ol_machine_commit(machine); /* a failed preparation leaves nothing to commit */
  CHECK(memcmp(a.data[1], a.data[2], 10 * sizeof(float)) != 0);
  ol_machine_free(machine);
  free_arrays(&a);
  ol_release(program);
}

static void wrong_runs_are_refused(void) {
  ol_machine *machine;
  ok(ol_machine_new(&error, &machine));
  arrays a = random_arrays(OL_F32, 4, 10);
  begin(OL_F32, 2);
  store(0, sub(read_operand(0), reduce_dim(OL_RULE_SUM, read_operand(0), 0)));
  ol_program *program = compile();
  ol_run run = { program, graph->number, a.data, 10, NULL, NULL };
  CHECK_EQUAL(ol_machine_prepare(&error, machine, &run, 1), OL_SHAPE);
  CHECK_STRING(error.message, "a rule that was traced for 8 elements runs on 10");
  ol_release(program);
  trace_rich_rule();
  program = compile();
  run = (ol_run){ program, graph->number, a.data, 10, NULL, NULL };
  CHECK_EQUAL(ol_machine_prepare(&error, machine, &run, 1), OL_ARGUMENT);
  CHECK_STRING(error.message, "a rule that uses group_add runs without a group");
  ol_release(program);
  ol_machine_free(machine);
  free_arrays(&a);
}

/* Fails every allocation in turn, from the graph to the commit: an error, nothing written, nothing
 * leaked; once none fails, the right result. */

static ol_status whole_step(arrays *a, double *totals) {
  ol_graph *own = NULL;
  ol_program_cache *cache = NULL;
  ol_program *program = NULL;
  ol_machine *machine = NULL;
  char *text = NULL;
  static const char *const names[] = { "p", "g", "a", "b" };
  ol_status status = ol_graph_new(&error, &own);
  if (status == OL_OK) status = ol_program_cache_new(&error, 2, &cache);
  if (status == OL_OK) status = ol_program_cache_get(&error, cache, graph, &program);
  if (status == OL_OK) status = ol_program_text(&error, program, names, NULL, &text);
  if (status == OL_OK) status = ol_machine_new(&error, &machine);
  ol_run run = { program, graph->number, a->data, a->size[0], NULL, totals };
  if (status == OL_OK) status = ol_machine_prepare(&error, machine, &run, 1);
  if (machine) ol_machine_commit(machine);
  ol_free(text);
  ol_machine_free(machine);
  ol_release(program);
  ol_program_cache_free(cache);
  ol_graph_free(own);
  return status;
}

static void allocations_fail(void) {
  enum { COUNT = 1000 };
  trace_rich_rule();
  ol_set_threads(2);
  arrays before = random_arrays(OL_F32, 4, COUNT), expected, after;
  copy_arrays(&before, &expected);
  copy_arrays(&before, &after);
  double want[2] = { 0 }, totals[2] = { 0 };
  ok(run_naive(expected.data, COUNT, NULL, want));
  int64_t live = ol_memory_read().live_blocks, failures = 0;
  ol_status status = OL_MEMORY;
  while (status != OL_OK && failures < 1000) {
    ol_memory_fail_after(failures++, false);
    status = whole_step(&after, totals);
    ol_memory_fail_after(-1, false);
    CHECK_EQUAL(ol_memory_read().live_blocks, live);
    if (status != OL_OK) CHECK(status == OL_MEMORY && same_arrays(&before, &after));
  }
  CHECK(failures > 15);
  CHECK(same_arrays(&expected, &after));
  CHECK(same_number(totals[0], want[0]) && same_number(totals[1], want[1]));
  for (int64_t i = 0; i < 20; i++) { /* the naive evaluator too */
    arrays naive;
    copy_arrays(&before, &naive);
    ol_memory_fail_after(i, false);
    status = run_naive(naive.data, COUNT, NULL, totals);
    ol_memory_fail_after(-1, false);
    CHECK(same_arrays(status == OL_OK ? &expected : &before, &naive));
    CHECK_EQUAL(ol_memory_read().live_blocks, live);
    free_arrays(&naive);
  }
  free_arrays(&before), free_arrays(&expected), free_arrays(&after);
}

int main(void) {
  if (!ok(ol_graph_new(&error, &graph))) return check_summary();
  special_values();
  powers();
  nan_has_one_code();
  lerp_is_exact_at_its_ends();
  many_runs_at_once();
  neighbours_coalesce();
  the_gradient_factor();
  missing_arrays_are_refused();
  wrong_runs_are_refused();
  allocations_fail();
  ol_graph_free(graph);
  CHECK_EQUAL(ol_memory_read().live_blocks, 0);
  return check_summary();
}
