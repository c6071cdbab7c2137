/* Rules with matrices: products, transpositions, buffers. Elements are small integers, so that sums
 * are exact in any order and the bits of the naive evaluator can be asked for. */
#include "rule_build.h"

static int64_t shapes[][2] = { { 3, 5 }, { 5, 3 }, { 4, 4 },  { 1, 7 },
                               { 7, 1 }, { 0, 3 }, { 70, 40 } };

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void begin(ol_shape shape, ol_dtype p, ol_dtype state) {
  const ol_operand operand[] = { { p }, { p }, { state }, { state } };
  ok(ol_graph_begin(&error, graph, &shape, operand, 4));
}

static arrays integers(int64_t count) {
  arrays a = { 0 };
  for (int i = 0; i < 4; i++) {
    make_array(&a, (ol_dtype)graph->operand[i].dtype, count);
    for (int64_t k = 0; k < count; k++) set(&a, i, k, pick(5) - 2);
  }
  return a;
}

static void agrees(const char *what, int64_t count) {
  static const double factor = 2;
  ol_program *program;
  if (!ok(ol_program_compile(&error, graph, &program))) return;
  for (int i = 0; i < 4; i++) {
    arrays after = integers(count), expected;
    copy_arrays(&after, &expected);
    ol_set_threads(1 + i / 2);
    ok(run_naive(expected.data, count, i % 2 ? &factor : NULL, NULL));
    run_machine(program, &after, count, i % 2 ? &factor : NULL, NULL);
    if (!CHECK(same_arrays(&expected, &after))) printf("  %s\n", what), show(program);
    free_arrays(&after), free_arrays(&expected);
  }
  ol_release(program);
}

static ol_symbol turn(ol_symbol x) { return apply(OL_RULE_T, x, -1, -1); }
static ol_symbol multiply(ol_symbol x, ol_symbol y) { return apply(OL_RULE_MATMUL, x, y, -1); }

/* The gradient, a state and computed values as operands of products, as they stand and turned. */
static void products(ol_shape shape, ol_dtype p, ol_dtype state) {
  begin(shape, p, state);
  ol_symbol g = read_operand(1), m = add(read_operand(2), g), old = read_operand(3);
  store(2, m);
  ol_symbol left = multiply(m, turn(g));                  /* (R,R) */
  ol_symbol right = multiply(turn(old), read_operand(0)); /* (C,C) */
  store(0, add(multiply(left, m), multiply(old, right))); /* (R,C) */
  store(3, turn(multiply(turn(right), turn(old))));
  agrees("products", ol_shape_numel(&shape));
}

/* Newton-Schulz steps on the shorter side, as Muon takes them. */
static void steps(ol_shape shape) {
  begin(shape, OL_F64, OL_F64);
  bool tall = shape.size[0] > shape.size[1];
  store(2, add(read_operand(2), read_operand(1)));
  ol_symbol x = tall ? turn(read_operand(2)) : read_operand(2);
  ol_symbol a = multiply(x, turn(x));
  ol_symbol b = add(times(-2, a), times(3, multiply(a, a)));
  x = add(times(2, x), multiply(b, x));
  if (tall) x = turn(x);
  store(0, sub(read_operand(0), x));
  agrees("steps", ol_shape_numel(&shape));
}

/* Each square state becomes the other one turned: the old values must be kept. */
static void turned_swap(int64_t size) {
  begin((ol_shape){ 2, { size, size } }, OL_F32, OL_F32);
  ol_symbol a = read_operand(2), b = read_operand(3);
  store(2, turn(b));
  store(3, turn(a));
  store(0, multiply(a, turn(b)));
  agrees("turned swap", size * size);
}

/* A product and a reduction over a dimension see the old value of what is overwritten. */
static void old_values(ol_shape shape) {
  begin(shape, OL_F32, OL_F32);
  ol_symbol p = read_operand(0), m = read_operand(2);
  store(2, add(m, multiply(multiply(p, turn(m)), m)));
  store(0, sub(p, reduce_dim(OL_RULE_SUM, m, 0)));
  store(3, add(reduce_dim(OL_RULE_AMAX, read_operand(2), 1), p));
  agrees("old values", ol_shape_numel(&shape));
}

/* Several matrices in one step: small ones side by side, a large one by itself, beside runs without
 * products; all share scratch memory. */

enum { RUNS = SHAPES + 1 };

static ol_program *trace_one(int i, ol_shape shape) {
  ol_program *program = NULL;
  begin(shape, OL_F32, OL_F32);
  ol_symbol m = add(read_operand(2), read_operand(1));
  store(2, m);
  if (i % 3) m = multiply(multiply(m, turn(m)), times(2, m));
  store(0, sub(read_operand(0), m));
  ok(ol_program_compile(&error, graph, &program));
  CHECK_EQUAL(program->multiplies, i % 3 != 0);
  return program;
}

static void several_at_once(int threads) {
  ol_machine *machine;
  arrays after[RUNS], expected[RUNS];
  ol_run runs[RUNS];
  double *numbers[RUNS];
  ok(ol_machine_new(&error, &machine));
  ol_set_threads(threads);
  for (int i = 0; i < RUNS; i++) {
    ol_shape shape = { 2, { 600, 400 } };
    if (i < SHAPES) shape = (ol_shape){ 2, { shapes[i][0], shapes[i][1] } };
    ol_program *program = trace_one(i, shape);
    int64_t count = ol_shape_numel(&shape);
    after[i] = integers(count);
    copy_arrays(&after[i], &expected[i]);
    ok(run_naive(expected[i].data, count, NULL, NULL));
    numbers[i] = malloc(sizeof graph->number);
    memcpy(numbers[i], graph->number, sizeof graph->number);
    runs[i] = (ol_run){ program, numbers[i], after[i].data, count, NULL, NULL };
  }
  for (int i = 0; i < 2; i++) ok(ol_machine_prepare(&error, machine, runs, RUNS));
  ol_machine_commit(machine);
  for (int i = 0; i < RUNS; i++) {
    CHECK(same_arrays(&expected[i], &after[i]));
    free_arrays(&after[i]), free_arrays(&expected[i]);
    free(numbers[i]);
    ol_release((ol_program *)runs[i].program);
  }
  ol_machine_free(machine);
}

int main(void) {
  if (!ok(ol_graph_new(&error, &graph))) return check_summary();
  for (int i = 0; i < SHAPES; i++) {
    ol_shape shape = { 2, { shapes[i][0], shapes[i][1] } };
    products(shape, OL_F32, OL_F32);
    products(shape, OL_F64, OL_BF16);
    products(shape, OL_BF16, OL_F32);
    steps(shape);
    old_values(shape);
  }
  for (int64_t size = 1; size < 300; size += 149) turned_swap(size);
  for (int threads = 1; threads <= 3; threads += 2) several_at_once(threads);
  ol_graph_free(graph);
  CHECK_EQUAL(ol_memory_read().live_blocks, 0);
  return check_summary();
}
