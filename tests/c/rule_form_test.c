/* Every fused form: its expression, written out as plain operations, compiles to that one
 * instruction and gives the bits of its plain twin; well-known rules need no more instructions than
 * they should. */
#include "rule_build.h"

static const char *const names[] = {
#define NAME(name, expression) [OL_FORM_##name] = #name,
  OL_FORMS(NAME)
#undef NAME
};

enum { ELEMENTS = 1000, OPERANDS = 6 };

static void begin(int operands, ol_dtype dtype, ol_dtype state) {
  ol_operand operand[OPERANDS];
  ol_shape shape = { 1, { ELEMENTS } };
  for (int i = 0; i < operands; i++)
    operand[i].dtype = i < 2 ? dtype : state, operand[i].shape = NULL;
  ok(ol_graph_begin(&error, graph, &shape, operand, operands));
}

/* The expression as a rule spells it; arrays are operands 1 …, numbers all different. */
static ol_symbol plain(const uint8_t *at) {
  static const ol_rule_op ops[] = {
    [OL_EXPR_ADD] = OL_RULE_ADD,  [OL_EXPR_MUL] = OL_RULE_MUL,   [OL_EXPR_DIV] = OL_RULE_DIV,
    [OL_EXPR_MAX] = OL_RULE_MAX,  [OL_EXPR_SQRT] = OL_RULE_SQRT, [OL_EXPR_SIGN] = OL_RULE_SIGN,
    [OL_EXPR_LERP] = OL_RULE_LERP
  };
  if (ol_form_is_number(*at)) return number(0.3 + 0.1 * (*at - 'a'));
  if (ol_form_is_array(*at)) return read_operand(1 + *at - 'x');
  ol_symbol in[3] = { -1, -1, -1 };
  const uint8_t *input = at + 1;
  for (int i = 0; i < ol_form_inputs(*at); i++, input = ol_form_skip(input)) in[i] = plain(input);
  return apply(ops[*at], in[0], in[1], in[2]);
}

static arrays make_arrays(int operands) {
  arrays a = { 0 };
  for (int i = 0; i < operands; i++) {
    make_array(&a, (ol_dtype)graph->operand[i].dtype, ELEMENTS);
    for (int64_t k = 0; k < ELEMENTS; k++) set(&a, i, k, uniform(-1, 2));
  }
  return a;
}

static void gives_the_naive_bits(const ol_program *program, int operands) {
  const char *best = ol_machine_isa();
  arrays before = make_arrays(operands), expected;
  copy_arrays(&before, &expected);
  ok(run_naive(expected.data, ELEMENTS, NULL, NULL));
  for (const char *const *isa = ol_machine_isas(); *isa; isa++) {
    arrays after;
    ol_machine_set_isa(*isa);
    copy_arrays(&before, &after);
    run_machine(program, &after, ELEMENTS, NULL, NULL);
    CHECK(same_arrays(&expected, &after));
    free_arrays(&after);
  }
  ol_machine_set_isa(best);
  free_arrays(&before);
  free_arrays(&expected);
}

static void is_one_instruction(int form, ol_dtype dtype) {
  ol_program *program;
  begin(4, dtype, dtype);
  store(0, plain(ol_form_table[form]));
  if (!ok(ol_program_compile(&error, graph, &program))) return;
  bool one = program->instructions == 1 && program->code->pass[0].instruction[0].code == form;
  if (!CHECK(one)) printf("  %s\n", names[form]), show(program);
  gives_the_naive_bits(program, 4);
  ol_release(program);
}

/* Rules. Operands: p, g, then the states. */

static void sgd(void) {
  ol_symbol d = add(read_operand(1), times(0.01, read_operand(0)));
  store(2, add(times(0.9, read_operand(2)), d));
  store(0, sub(read_operand(0), times(0.1, add(d, times(0.9, read_operand(2))))));
}

static void adam_lerp(void) {
  ol_symbol g = read_operand(1);
  store(2, apply(OL_RULE_LERP, read_operand(2), g, number(0.1)));
  store(3, add(times(0.999, read_operand(3)), times(0.001, mul(g, g))));
  ol_symbol scaled = divide(root(read_operand(3)), number(0.5));
  ol_symbol step = divide(read_operand(2), add(scaled, number(1e-8)));
  store(0, sub(read_operand(0), times(1e-3, step)));
}

/* Greedy matching would take (1-b2)*g by itself. */
static void adamw(void) {
  ol_symbol p = times(0.99, read_operand(0)), g = read_operand(1);
  store(2, add(times(0.9, read_operand(2)), times(0.1, g)));
  store(3, add(times(0.999, read_operand(3)), mul(times(0.001, g), g)));
  ol_symbol denominator = add(root(read_operand(3)), number(1e-8));
  store(0, sub(p, divide(times(1e-3, read_operand(2)), denominator)));
}

static void lion(void) {
  ol_symbol mixed = add(times(0.9, read_operand(2)), times(0.1, read_operand(1)));
  ol_symbol sign = apply(OL_RULE_SIGN, mixed, -1, -1);
  store(2, add(times(0.99, read_operand(2)), times(0.01, read_operand(1))));
  store(0, sub(times(0.9999, read_operand(0)), times(1e-4, sign)));
}

static void adagrad(void) {
  ol_symbol g = read_operand(1);
  store(2, add(read_operand(2), mul(g, g)));
  ol_symbol step = divide(times(0.1, g), add(root(read_operand(2)), number(1e-10)));
  store(0, sub(read_operand(0), step));
}

static void rmsprop_centered(void) {
  ol_symbol g = read_operand(1);
  store(2, add(times(0.99, read_operand(2)), times(0.01, mul(g, g))));
  store(3, apply(OL_RULE_LERP, read_operand(3), g, number(0.01)));
  ol_symbol variance = sub(read_operand(2), mul(read_operand(3), read_operand(3)));
  ol_symbol safe = apply(OL_RULE_MAX, variance, number(0), -1);
  ol_symbol deviation = add(root(safe), number(1e-8));
  store(0, sub(read_operand(0), divide(times(0.1, g), deviation)));
}

static void adadelta(void) {
  ol_symbol g = read_operand(1);
  store(2, add(times(0.9, read_operand(2)), mul(times(0.1, g), g)));
  ol_symbol up = root(add(read_operand(3), number(1e-6)));
  ol_symbol down = root(add(read_operand(2), number(1e-6)));
  ol_symbol delta = mul(divide(up, down), g);
  store(3, add(times(0.9, read_operand(3)), mul(times(0.1, delta), delta)));
  store(0, sub(read_operand(0), delta));
}

static void needs(const char *name, void (*rule)(void), int states, int instructions) {
  ol_program *program;
  begin(2 + states, OL_F32, OL_F32);
  rule();
  if (!ok(ol_program_compile(&error, graph, &program))) return;
  if (!CHECK(program->instructions <= instructions)) {
    printf("  %s: %d instructions, not %d\n", name, program->instructions, instructions);
    show(program);
  }
  CHECK_EQUAL(program->levels, 1);
  CHECK(program->coalesces && !program->reduces && !program->shape_bound);
  gives_the_naive_bits(program, 2 + states);
  ol_release(program);
}

int main(void) {
  if (!ok(ol_graph_new(&error, &graph))) return check_summary();
  for (int form = 0; form < OL_FORM_COUNT; form++) {
    is_one_instruction(form, OL_F32);
    is_one_instruction(form, OL_F64);
  }
  needs("SGD", sgd, 1, 3);
  needs("Adam with lerp", adam_lerp, 2, 3);
  needs("AdamW", adamw, 2, 3);
  needs("Lion", lion, 1, 2);
  needs("Adagrad", adagrad, 1, 2);
  needs("centered RMSprop", rmsprop_centered, 2, 4);
  needs("Adadelta", adadelta, 2, 4);
  ol_graph_free(graph);
  return check_summary();
}
