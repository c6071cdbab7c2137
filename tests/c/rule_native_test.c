/* Native code: which passes become machine code, and that it gives the bits of the naive evaluator
 * whatever is left of its rows, wherever tensors begin, and for whatever numbers a run has. */
#include "rule/native.h"

#include "rule_build.h"

static const int64_t counts[] = { 0, 1, 31, 32, 33, 63, 64, 65, 96, 1000, 70001 };
enum { COUNTS = sizeof counts / sizeof *counts };

static int native_passes(const ol_program *program) {
  int count = 0;
  for (int i = 0; i < program->code->passes; i++) count += program->code->pass[i].native != NULL;
  return count;
}

static ol_program *compile(const char *what, int passes) {
  ol_program *program = NULL;
  ok(ol_program_compile(&error, graph, &program));
  if (!CHECK(native_passes(program) == (ol_native_is_supported() ? passes : 0)))
    printf("  %s: %d passes\n", what, native_passes(program)), show(program);
  return program;
}

static void agrees(const char *what, const ol_program *program, const arrays *a, int64_t count) {
  static const double factor = 0.37;
  for (int i = 0; i < 2; i++) {
    const double *scale = i ? &factor : NULL;
    double totals[2] = { 0 }, expected_totals[2] = { 0 };
    arrays after, expected;
    copy_arrays(a, &after), copy_arrays(a, &expected);
    ol_machine_set_cache(i ? 1 : 1e12);
    ok(run_naive(expected.data, count, scale, expected_totals));
    run_machine(program, &after, count, scale, totals);
    if (!CHECK(same_arrays(&expected, &after)))
      printf("  %s, %lld elements\n", what, (long long)count);
    CHECK(same_number(totals[0], expected_totals[0]) && same_number(totals[1], expected_totals[1]));
    free_arrays(&after), free_arrays(&expected);
  }
  ol_machine_set_cache(0);
}

static arrays random_arrays(const int64_t *sizes) {
  arrays a = { 0 };
  for (int i = 0; i < graph->operands; i++) {
    make_packed(&a, (ol_dtype)graph->operand[i].dtype, graph->operand[i].packing, sizes[i]);
    if (a.packing[i] & OL_PACK_CODES)
      memset(a.data[i], 0, bytes_of(&a, i));
    else
      for (int64_t k = 0; k < sizes[i]; k++) set(&a, i, k, uniform(i == 3 ? 0 : -2, 2));
  }
  return a;
}

static arrays equal_arrays(int64_t count) {
  int64_t sizes[MOST];
  for (int i = 0; i < MOST; i++) sizes[i] = count;
  return random_arrays(sizes);
}

static void begin(ol_shape shape, ol_dtype p, ol_operand state) {
  const ol_operand operand[] = { { p }, { p }, state, state };
  ok(ol_graph_begin(&error, graph, &shape, operand, 4));
}

/* Adam, with a sum over what it does. */
static void adam(void) {
  ol_symbol p = read_operand(0), g = read_operand(1);
  ol_symbol m = add(times(0.9, read_operand(2)), times(0.1, g));
  ol_symbol v = add(times(0.99, read_operand(3)), mul(times(0.01, g), g));
  ol_symbol step = divide(m, add(root(v), number(1e-8)));
  store(2, m), store(3, v);
  store(0, sub(p, times(0.01, step)));
  ok(ol_graph_add_total(&error, graph, 1, mul(step, step)));
}

static void every_length(const char *what, ol_dtype p, ol_operand state) {
  for (int i = 0; i < COUNTS; i++) {
    begin((ol_shape){ 1, { counts[i] } }, p, state);
    adam();
    ol_program *program = compile(what, 1);
    arrays a = equal_arrays(counts[i]);
    for (int second = 0; second < 3; second++) { /* where the second tensor begins */
      noise[1].begin = second == 1 ? counts[i] / 2 : second == 2 ? counts[i] / 3 / 32 * 32 : 0;
      agrees(what, program, &a, counts[i]);
    }
    noise[1].begin = 0;
    free_arrays(&a);
    ol_release(program);
  }
}

/* Every reduction, over everything and over each dimension of a matrix with rows of this length. */
static void reductions(int64_t rows, int64_t columns, ol_dtype dtype, int passes) {
  const ol_shape own = { 2, { rows, columns } }, row = { 2, { rows, 1 } },
                 column = { 2, { 1, columns } };
  const ol_operand operand[] = { { dtype }, { dtype }, { dtype, &row, 0 }, { dtype, &column, 0 } };
  for (ol_rule_op op = OL_RULE_SUM; op <= OL_RULE_AMIN; op++) {
    ok(ol_graph_begin(&error, graph, &own, operand, 4));
    ol_symbol p = read_operand(0), g = read_operand(1), square = mul(g, g);
    store(2, reduce_dim(op, square, 1));
    store(3, reduce_dim(op, square, 0));
    store(0, sub(p, mul(reduce(op, g), mul(g, mul(read_operand(2), read_operand(3))))));
    ol_program *program = compile(ol_rule_op_table[op].name, passes);
    arrays a = random_arrays((int64_t[]){ rows * columns, rows * columns, rows, columns });
    set(&a, 1, columns / 2, NAN);
    agrees(ol_rule_op_table[op].name, program, &a, rows * columns);
    free_arrays(&a);
    ol_release(program);
  }
}

/* Sums whose order shows: float32 values of all sizes. */
static void order_of_sums(void) {
  for (int i = 0; i < COUNTS; i++) {
    begin((ol_shape){ 1, { counts[i] } }, OL_F32, (ol_operand){ OL_BF16, NULL, OL_PACK_RANDOM });
    adam();
    ok(ol_graph_add_total(&error, graph, 0, read_operand(1)));
    ol_program *program = compile("a sum", 1);
    arrays a = equal_arrays(counts[i]);
    for (int64_t k = 0; k < counts[i]; k++) set(&a, 1, k, ldexp(uniform(-2, 2), pick(60) - 30));
    for (int64_t second = 0; second < 40; second += 13) {
      noise[1].begin = second < counts[i] ? second : 0;
      agrees("a sum", program, &a, counts[i]);
    }
    noise[1].begin = 0;
    free_arrays(&a);
    ol_release(program);
  }
}

/* As many arrays as there are registers for them; their values are kept until the end. */
static void many_arrays(int count, int passes) {
  ol_operand operand[MOST];
  const ol_shape shape = { 1, { 1000 } };
  for (int i = 0; i < count; i++) operand[i] = (ol_operand){ OL_F32 };
  ok(ol_graph_begin(&error, graph, &shape, operand, count));
  ol_symbol sum = read_operand(1);
  for (int i = 2; i < count; i++) sum = add(sum, mul(read_operand(i), read_operand(i)));
  store(0, sum);
  ol_program *program = compile("many arrays", passes);
  arrays a = equal_arrays(1000);
  agrees("many arrays", program, &a, 1000);
  free_arrays(&a);
  ol_release(program);
}

/* Arrays that go on in other ways than rows do; the last is p times s in rows that begin anywhere,
 * of which the order of the sum shows. */
static void spread_arrays(int what, ol_shape own, ol_shape other, int passes) {
  const ol_operand operand[] = { { OL_F32 }, { OL_F32 }, { OL_F32, &other, 0 } };
  const int64_t count = ol_shape_numel(&own);
  ok(ol_graph_begin(&error, graph, &own, operand, 3));
  ol_symbol p = read_operand(0), g = read_operand(1), s = read_operand(2);
  switch (what) {
  case 0: store(0, sub(p, apply(OL_RULE_T, s, -1, -1))); break;
  case 1: store(0, mul(p, mul(s, apply(OL_RULE_T, s, -1, -1)))); break;
  case 2: {
    ol_symbol turned = mul(apply(OL_RULE_T, p, -1, -1), apply(OL_RULE_T, g, -1, -1));
    ok(ol_graph_add_total(&error, graph, 1, mul(g, turned)));
    break;
  }
  default: ok(ol_graph_add_total(&error, graph, 1, mul(p, s)));
  }
  ol_program *program = compile("spread arrays", passes);
  arrays a = random_arrays((int64_t[]){ count, count, ol_shape_numel(&other) });
  for (int64_t k = 0; k < count; k++) set(&a, 0, k, ldexp(uniform(-2, 2), pick(80) - 40));
  agrees("spread arrays", program, &a, count);
  free_arrays(&a);
  ol_release(program);
}

/* NaN stays NaN in bfloat16, wherever its bits are. */
static void every_nan(ol_operand state) {
  begin((ol_shape){ 1, { 64 } }, OL_F32, state);
  store(2, read_operand(0));
  ol_program *program = compile("NaN", 1);
  arrays a = equal_arrays(64);
  for (uint32_t k = 0; k < 64; k++)
    ((uint32_t *)a.data[0])[k] = (k % 2 ? 0x80000000 : 0) | (k < 32 ? 0x7f800001 : 0x7fffffff);
  run_machine(program, &a, 64, NULL, NULL);
  for (int k = 0; k < 64; k++) CHECK(isnan(get(&a, 2, k)));
  free_arrays(&a);
  ol_release(program);
}

/* A power is compiled for its exponent, and its code not taken for another one. */
static void exponents_that_change(double compiled) {
  static const double exponents[] = { 2, 3, 0.5, -0.5, -1, 1.5 };
  begin((ol_shape){ 1, { 100 } }, OL_F32, (ol_operand){ OL_F32 });
  store(0, apply(OL_RULE_POW, read_operand(3), number(compiled), -1));
  ol_program *program = compile("a power", compiled != 1.5);
  arrays a = equal_arrays(100);
  for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
    const ol_native *native = program->code->pass[0].native;
    graph->number[0] = exponents[i];
    CHECK(!native || ol_native_fits(native, graph->number) == (exponents[i] == compiled));
    agrees("a power", program, &a, 100);
  }
  free_arrays(&a);
  ol_release(program);
}

/* What is left to the kernels. */

static void functions(void) { store(0, apply(OL_RULE_EXP, read_operand(1), -1, -1)); }

static void codes(void) { store(2, add(read_operand(2), read_operand(1))); }

/* More numbers than there is room for, though they are used one after the other. */
static void many_numbers(void) {
  ol_symbol x = read_operand(0);
  for (int i = 0; i < 80; i++) x = add(x, number(1 + i / 128.0));
  store(0, x);
}

static void many_exponents(void) {
  ol_symbol x = read_operand(3), sum = x;
  const double exponents[] = { 2, 3, 0.5, -0.5, -1 };
  for (int i = 0; i < 5; i++) sum = add(sum, apply(OL_RULE_POW, x, number(exponents[i]), -1));
  store(0, sum);
}

/* Code of more bytes than there is room for. */
static void much_code(void) {
  ol_symbol x = read_operand(0), g = read_operand(1);
  for (int i = 0; i < 110; i++) x = apply(OL_RULE_LERP, x, g, apply(OL_RULE_SIGN, x, -1, -1));
  store(0, x);
}

/* More values at once than there are registers. */
static void many_values(void) {
  ol_symbol values[20], sum = read_operand(0), product = read_operand(0);
  for (int i = 0; i < 20; i++) values[i] = root(add(read_operand(3), number(i)));
  for (int i = 0; i < 20; i++) sum = add(sum, values[i]);
  for (int i = 0; i < 20; i++) product = mul(product, values[i]);
  store(0, sum), store(2, product);
}

static void left_to_kernels(const char *what, void rule(void), ol_operand state) {
  begin((ol_shape){ 1, { 300 } }, OL_F32, state);
  rule();
  ol_program *program = compile(what, 0);
  arrays a = equal_arrays(300);
  agrees(what, program, &a, 300);
  free_arrays(&a);
  ol_release(program);
}

int main(void) {
  if (!ok(ol_graph_new(&error, &graph))) return 1;
  every_length("float32", OL_F32, (ol_operand){ OL_F32 });
  every_length("float64", OL_F64, (ol_operand){ OL_F64 });
  every_length("bfloat16 to nearest", OL_F32, (ol_operand){ OL_BF16 });
  every_length("bfloat16 at random", OL_F32, (ol_operand){ OL_BF16, NULL, OL_PACK_RANDOM });
  reductions(7, 1000, OL_F32, 6);
  reductions(9, 1001, OL_F64, 6);
  reductions(300, 20, OL_F32, 3); /* all but what goes along the rows */
  order_of_sums();
  many_arrays(12, 1);
  many_arrays(13, 0);
  spread_arrays(0, (ol_shape){ 3, { 3, 300, 300 } }, (ol_shape){ 2, { 300, 300 } }, 0);
  spread_arrays(1, (ol_shape){ 2, { 300, 300 } }, (ol_shape){ 2, { 300, 1 } }, 1);
  spread_arrays(2, (ol_shape){ 2, { 1, 300 } }, (ol_shape){ 2, { 1, 300 } }, 0);
  spread_arrays(3, (ol_shape){ 2, { 30, 301 } }, (ol_shape){ 2, { 30, 1 } }, 1);
  every_nan((ol_operand){ OL_BF16 });
  every_nan((ol_operand){ OL_BF16, NULL, OL_PACK_RANDOM });
  for (int i = 0; i < 6; i++) exponents_that_change((double[]){ 2, 3, 0.5, -0.5, -1, 1.5 }[i]);
  left_to_kernels("functions", functions, (ol_operand){ OL_F32 });
  left_to_kernels("codes", codes, (ol_operand){ OL_U8, NULL, OL_PACK_CODES });
  left_to_kernels("many numbers", many_numbers, (ol_operand){ OL_F32 });
  left_to_kernels("many exponents", many_exponents, (ol_operand){ OL_F32 });
  left_to_kernels("much code", much_code, (ol_operand){ OL_F32 });
  left_to_kernels("many values", many_values, (ol_operand){ OL_F32 });
  ol_graph_free(graph);
  return check_summary();
}
