/* Every fused form: its expression, written out as plain operations, compiles to that one
 * instruction and gives the bits of its plain twin; well-known rules need no more instructions than
 * they should. */
#include "rule_build.h"

static const char *const names[] = {
#define NAME(name, expression) [OL_FORM_##name] = #name,
  OL_FORMS(NAME)
#undef NAME
};

enum { ELEMENTS = 1000, OPERANDS = 6, FORM_OPERANDS = 1 + OL_FORM_ARRAYS };

static void begin(int operands, ol_dtype dtype, ol_dtype state) {
  ol_operand operand[OPERANDS] = { 0 };
  ol_shape shape = { 1, { ELEMENTS } };
  for (int i = 0; i < operands; i++)
    operand[i].dtype = i < 2 ? dtype : state, operand[i].shape = NULL;
  ok(ol_graph_begin(&error, graph, &shape, operand, operands));
}

/* The expression as a rule spells it; arrays are operands 1 …, numbers all different. */
static ol_symbol plain(const uint8_t *at) {
  if (ol_form_is_number(*at)) return number(0.3 + 0.1 * (*at - 'a'));
  if (ol_form_is_array(*at)) return read_operand(1 + *at - 'x');
  ol_symbol in[3] = { -1, -1, -1 };
  const uint8_t *input = at + 1;
  for (int i = 0; i < ol_form_inputs(*at); i++, input = ol_form_skip(input)) in[i] = plain(input);
  return apply((ol_rule_op)*at, in[0], in[1], in[2]);
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
  begin(FORM_OPERANDS, dtype, dtype);
  store(0, plain(ol_form_table[form]));
  if (!ok(ol_program_compile(&error, graph, &program))) return;
  bool one = program->instructions == 1 && program->code->pass[0].instruction[0].code == form;
  if (!CHECK(one)) printf("  %s\n", names[form]), show(program);
  gives_the_naive_bits(program, FORM_OPERANDS);
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

static ol_symbol square(ol_symbol x) { return mul(x, x); }

/* (c*y + d*z) / (e*sqrt(w) + 1e-8) subtracted from p. */
static void step_by(ol_symbol direction, int variance) {
  ol_symbol denominator = add(times(10.5, root(read_operand(variance))), number(1e-8));
  store(0, sub(read_operand(0), times(1e-3, divide(direction, denominator))));
}

/* The gradient with a decay is part of three forms, and needs no instruction. */
static void adam_decay(void) {
  ol_symbol g = add(read_operand(1), times(0.01, read_operand(0)));
  store(2, add(times(0.9, read_operand(2)), times(0.1, g)));
  store(3, add(times(0.999, read_operand(3)), mul(times(0.001, g), g)));
  step_by(read_operand(2), 3);
}

static void rmsprop_decay(void) {
  ol_symbol g = add(read_operand(1), times(0.01, read_operand(0)));
  store(2, add(times(0.999, read_operand(2)), times(0.001, square(g))));
  step_by(g, 2);
}

/* A sign goes into the numbers. */
static void nadam_maximize(void) {
  ol_symbol g = apply(OL_RULE_NEG, read_operand(1), -1, -1);
  store(2, add(times(0.9, read_operand(2)), times(0.1, g)));
  store(3, add(times(0.999, read_operand(3)), times(0.001, square(g))));
  step_by(add(times(0.1, g), times(0.8, read_operand(2))), 3);
}

static void adabelief(void) {
  ol_symbol g = read_operand(1);
  store(2, add(times(0.9, read_operand(2)), times(0.1, g)));
  ol_symbol surprise = sub(g, read_operand(2));
  ol_symbol v = add(times(0.999, read_operand(3)), mul(times(0.001, surprise), surprise));
  store(3, add(v, number(1e-16)));
  step_by(read_operand(2), 3);
}

/* The difference of gradients is part of two forms. */
static void adan(void) {
  ol_symbol g = read_operand(1), difference = sub(g, read_operand(5));
  ol_symbol ahead = add(g, times(0.92, difference));
  store(2, add(times(0.98, read_operand(2)), times(0.02, g)));
  store(3, add(times(0.92, read_operand(3)), times(0.08, difference)));
  store(4, add(times(0.99, read_operand(4)), mul(times(0.01, ahead), ahead)));
  store(5, g);
  step_by(add(times(6.0, read_operand(2)), times(1.7, read_operand(3))), 4);
}

static void adamax(void) {
  ol_symbol g = read_operand(1);
  store(2, add(times(0.9, read_operand(2)), times(0.1, g)));
  ol_symbol size = add(apply(OL_RULE_ABS, g, -1, -1), number(1e-8));
  store(3, apply(OL_RULE_MAX, times(0.999, read_operand(3)), size, -1));
  store(0, sub(read_operand(0), times(0.1, divide(read_operand(2), read_operand(3)))));
}

static void rprop(void) {
  ol_symbol g = read_operand(1), agreement = mul(g, read_operand(2));
  ol_symbol turned = apply(OL_RULE_LT, agreement, number(0), -1);
  ol_symbol agreed = apply(OL_RULE_GT, agreement, number(0), -1);
  ol_symbol factor = apply(OL_RULE_WHERE, agreed, number(1.2), number(1));
  factor = apply(OL_RULE_WHERE, turned, number(0.5), factor);
  ol_symbol size = mul(read_operand(3), factor);
  store(3, apply(OL_RULE_CLAMP, size, number(1e-6), number(50)));
  store(2, apply(OL_RULE_WHERE, turned, number(0), g));
  ol_symbol sign = apply(OL_RULE_SIGN, read_operand(2), -1, -1);
  store(0, sub(read_operand(0), mul(sign, read_operand(3))));
}

static void signum(void) {
  store(2, add(times(0.9, read_operand(2)), times(0.1, read_operand(1))));
  ol_symbol sign = apply(OL_RULE_SIGN, read_operand(2), -1, -1);
  store(0, sub(read_operand(0), times(0.1, sign)));
}

/* Both forms could take the gradient apart; but then each would read what the other writes. */
static void schedule_free(void) {
  ol_symbol p = read_operand(0), g = add(read_operand(1), times(0.01, p));
  ol_symbol average = apply(OL_RULE_LERP, p, read_operand(2), number(0.1));
  store(0, add(average, times(-0.3, g)));
  store(2, sub(read_operand(2), times(0.1, g)));
}

static void schedule_free_adamw(void) {
  ol_symbol p = read_operand(0), g = read_operand(1);
  store(3, add(times(0.999, read_operand(3)), times(0.001, square(g))));
  ol_symbol d = divide(g, add(times(10.5, root(read_operand(3))), number(1e-8)));
  ol_symbol average = apply(OL_RULE_LERP, p, read_operand(2), number(0.1));
  store(0, add(average, times(-0.3, d)));
  store(2, sub(read_operand(2), times(0.1, d)));
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

/* Sums and differences that everything after them uses: none is worth to be made twice, and finding
 * that out takes no longer than for others. */
static void butterfly(void) {
  ol_symbol x = read_operand(0), y = read_operand(1);
  for (int i = 0; i < 80 && graph->nodes < 240; i++) {
    ol_symbol sum = add(x, y), difference = sub(x, y);
    x = mul(sum, difference);
    y = difference;
  }
  store(0, x);
  store(2, y);
}

/* A match keeps a goal for each place of an array. */
static void has_few_arrays(int form) {
  int places = 0;
  const uint8_t *at = ol_form_table[form], *end = ol_form_skip(at);
  for (; at < end; at++) places += ol_form_is_array(*at);
  CHECK(places <= 8);
}

int main(void) {
  if (!ok(ol_graph_new(&error, &graph))) return check_summary();
  for (int form = 0; form < OL_FORM_COUNT; form++) {
    is_one_instruction(form, OL_F32);
    is_one_instruction(form, OL_F64);
    has_few_arrays(form);
  }
  needs("SGD", sgd, 1, 3);
  needs("Adam with lerp", adam_lerp, 2, 3);
  needs("AdamW", adamw, 2, 3);
  needs("Lion", lion, 1, 2);
  needs("Adagrad", adagrad, 1, 2);
  needs("centered RMSprop", rmsprop_centered, 2, 4);
  needs("Adadelta", adadelta, 2, 4);
  needs("Adam with a decay", adam_decay, 2, 3);
  needs("RMSprop with a decay", rmsprop_decay, 1, 2);
  needs("NAdam uphill", nadam_maximize, 2, 3);
  needs("AdaBelief", adabelief, 2, 3);
  needs("Adan", adan, 4, 6);
  needs("Adamax", adamax, 2, 3);
  needs("Rprop", rprop, 2, 3);
  needs("Signum", signum, 1, 2);
  needs("Schedule-Free SGD with a decay", schedule_free, 1, 3);
  needs("Schedule-Free AdamW", schedule_free_adamw, 2, 4);
  needs("a butterfly", butterfly, 1, 160);
  ol_graph_free(graph);
  return check_summary();
}
