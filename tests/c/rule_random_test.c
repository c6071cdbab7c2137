/* Random rules: what the compiler and the machine make of them equals the naive evaluator bit for
 * bit, on every instruction set and number of threads. The argument is the number of rules. */
#include "rule_build.h"

enum { TOTALS = 3, POOL = 64 };

/* A rule being made: symbols to choose from. */
typedef struct pool {
  int count;
  ol_symbol symbol[POOL];
} pool;

static void keep(pool *p, ol_symbol symbol) {
  if (p->count < POOL)
    p->symbol[p->count++] = symbol;
  else
    p->symbol[pick(POOL)] = symbol;
}

/* Late symbols more often than early ones. */
static ol_symbol choose(const pool *p) {
  int from_end = pick(2) ? pick(4) : pick(p->count);
  return p->symbol[p->count - 1 - (from_end < p->count ? from_end : 0)];
}

static double some_number(void) {
  static const double numbers[] = { 0,    -0.0, 1,   -1,   0.5, -0.5, 2,        3,       0.9,  0.1,
                                    1e-3, 1e-8, 100, 1e30, -2,  0.25, INFINITY, 1.0 / 3, 1e-40 };
  return numbers[pick(sizeof numbers / sizeof *numbers)];
}

/* An operation; where it fails (numbers that give NaN, shapes) some symbol instead. */
static ol_symbol attempt(const pool *p, ol_rule_op op, ol_symbol x, ol_symbol y, ol_symbol z) {
  ol_symbol in[] = { x, y, z }, out;
  return ol_graph_apply(&error, graph, op, in, &out) == OL_OK ? out : choose(p);
}

/* What the letters of a form stand for. */
typedef struct letters {
  ol_symbol number[OL_FORM_NUMBERS], array[OL_FORM_ARRAYS];
} letters;

/* A form, spelled in one of its many ways. */
static ol_symbol spell(const uint8_t *at, const pool *p, const letters *stand) {
  if (ol_form_is_array(*at)) return stand->array[*at - 'x'];
  if (ol_form_is_number(*at)) return stand->number[*at - 'a'];
  const uint8_t *input = at + 1;
  ol_symbol in[3] = { -1, -1, -1 }, kept = -1;
  bool letter = false;
  for (int i = 0; i < ol_form_inputs(*at); i++, input = ol_form_skip(input)) {
    in[i] = spell(input, p, stand);
    if (ol_form_is_number(*input))
      letter = true;
    else
      kept = in[i];
  }
  bool absent = letter && pick(3) == 0;
  switch (*at) {
  case OL_RULE_DIV: return absent ? kept : attempt(p, OL_RULE_DIV, in[0], in[1], -1);
  case OL_RULE_MUL:
    if (absent) return pick(3) ? kept : attempt(p, OL_RULE_NEG, kept, -1, -1);
    return pick(2) ? attempt(p, OL_RULE_MUL, in[0], in[1], -1)
                   : attempt(p, OL_RULE_MUL, in[1], in[0], -1);
  case OL_RULE_ADD: {
    if (absent) return kept;
    ol_rule_op op = pick(2) ? OL_RULE_ADD : OL_RULE_SUB;
    return pick(2) ? attempt(p, op, in[0], in[1], -1) : attempt(p, op, in[1], in[0], -1);
  }
  default: return attempt(p, (ol_rule_op)*at, in[0], in[1], in[2]);
  }
}

static ol_symbol some_form(const pool *p) {
  letters stand;
  for (int i = 0; i < OL_FORM_NUMBERS; i++) stand.number[i] = number(some_number());
  for (int i = 0; i < OL_FORM_ARRAYS; i++) stand.array[i] = choose(p);
  return spell(ol_form_table[pick(OL_FORM_COUNT)], p, &stand);
}

static ol_symbol some_operation(const pool *p) {
  if (pick(4) == 0) return some_form(p);
  if (pick(12) == 0)
    return reduce((ol_rule_op)(OL_RULE_SUM + pick(OL_RULE_AMIN - OL_RULE_SUM + 1)), choose(p));
  ol_rule_op op = pick(3) ? (ol_rule_op)(OL_RULE_ADD + pick(4))
                          : (ol_rule_op)(OL_RULE_ADD + pick(OL_RULE_WHERE - OL_RULE_ADD + 1));
  ol_symbol in[3];
  for (int i = 0; i < 3; i++) in[i] = pick(4) ? choose(p) : number(some_number());
  return attempt(p, op, in[0], in[1], in[2]);
}

/* Stores of anything that fits: computed values, swaps, numbers, nothing. */
static void some_stores(const pool *p, int operands) {
  for (int i = 0; i < operands; i++) {
    if (i == 1 || pick(4) == 0) continue;
    ol_symbol value = pick(6) == 0 ? number(some_number()) : choose(p);
    if (pick(8) == 0) value = read_operand(pick(operands));
    if (ol_graph_store(&error, graph, i, value) != OL_OK) continue;
  }
  for (int i = pick(3); i > 0; i--) ok(ol_graph_add_total(&error, graph, pick(TOTALS), choose(p)));
}

static void some_rule(int operands, int operations) {
  pool p = { 0 };
  for (int i = 0; i < operands; i++) keep(&p, read_operand(i));
  for (int i = 0; i < operations && graph->nodes < OL_GRAPH_NODES - 40; i++) {
    keep(&p, some_operation(&p));
    int state = pick(operands);
    if (state < 2 || pick(8)) continue; /* an assignment in the middle, read back */
    if (ol_graph_store(&error, graph, state, choose(&p)) == OL_OK) keep(&p, read_operand(state));
  }
  some_stores(&p, operands);
}

/* Arrays. */

static ol_dtype some_dtype(void) {
  return (ol_dtype[]){ OL_F32, OL_F32, OL_BF16, OL_F64 }[pick(4)];
}

/* A type for a state, and how it is packed. */
static ol_operand some_storage(bool may_be_codes) {
  ol_operand out = { some_dtype(), NULL, pick(2) ? OL_PACK_RANDOM : 0 };
  if (!may_be_codes || pick(4)) return out;
  out.dtype = OL_U8;
  out.packing |= OL_PACK_CODES | (pick(2) ? OL_PACK_POSITIVE : 0);
  return out;
}

static double some_element(void) {
  static const double special[] = { 0, -0.0, INFINITY, -INFINITY, NAN, 1e-42, 3e38, 1 };
  if (pick(40) == 0) return special[pick(sizeof special / sizeof *special)];
  return uniform(-2, 2);
}

/* Blocks of codes with these are not NaN as a whole. */
static double tame_element(void) { return pick(9) ? uniform(-2, 2) : pick(2) ? 0 : 1e-42; }

static ol_shape some_shape(int64_t count, bool matrix) {
  if (!matrix) return (ol_shape){ 1, { count } };
  static const ol_shape shapes[] = { { 2, { 5, 7 } },    { 2, { 300, 3 } },   { 2, { 3, 300 } },
                                     { 3, { 4, 1, 6 } }, { 2, { 16, 16 } },   { 3, { 2, 40, 260 } },
                                     { 2, { 1, 9 } },    { 1, { 11 } },       { 0, { 0 } },
                                     { 2, { 0, 3 } },    { 2, { 3, 30000 } }, { 2, { 70, 1000 } } };
  return shapes[pick(sizeof shapes / sizeof *shapes)];
}

/* A state's shape: some dimensions of the parameter's are 1, or missing at the front. */
static ol_shape narrower(ol_shape shape) {
  for (int d = 0; d < shape.ndim; d++)
    if (pick(2)) shape.size[d] = 1;
  int drop = 0;
  while (drop < shape.ndim && shape.size[drop] == 1 && pick(3) == 0) drop++;
  for (int d = drop; d < shape.ndim; d++) shape.size[d - drop] = shape.size[d];
  shape.ndim -= drop;
  return shape;
}

/* One operation that binds the rule to its shape. */
static void bind_to_shape(pool *p) {
  const ol_shape *shape;
  ol_symbol x = choose(p), out;
  if (ol_graph_shape_of(&error, graph, x, &shape) != OL_OK || !shape) return;
  if (shape->ndim == 2 && pick(3) == 0) {
    keep(p, apply(OL_RULE_T, x, -1, -1));
    return;
  }
  int64_t dim = pick(3) - 1;
  ol_rule_op op = (ol_rule_op)(OL_RULE_SUM + pick(OL_RULE_AMIN - OL_RULE_SUM + 1));
  if (ol_graph_reduce(&error, graph, op, x, &dim, &out) == OL_OK) keep(p, out);
}

static void some_bound_rule(int operands, int operations) {
  pool p = { 0 };
  for (int i = 0; i < operands; i++) keep(&p, read_operand(i));
  for (int i = 0; i < operations && graph->nodes < OL_GRAPH_NODES - 40; i++) {
    if (pick(4) == 0) bind_to_shape(&p);
    ol_symbol in[] = { choose(&p), choose(&p), number(some_number()) }, out;
    ol_rule_op op = (ol_rule_op)(OL_RULE_ADD + pick(4));
    if (pick(6) == 0) op = OL_RULE_LERP;
    if (ol_graph_apply(&error, graph, op, in, &out) == OL_OK) keep(&p, out);
  }
  some_stores(&p, operands);
}

/* Comparison. */

typedef struct trial {
  int64_t count;
  bool bound;
  const double *factor;
  arrays before, expected;
  double totals[TOTALS];
} trial;

static void begin_trial(trial *t, int64_t count, bool bound) {
  int operands = 2 + pick(5);
  ol_shape shape = some_shape(count, bound), state[MOST];
  ol_operand operand[MOST];
  *t = (trial){ .bound = bound, .count = ol_shape_numel(&shape) };
  for (int i = 0; i < operands; i++) {
    state[i] = bound && i >= 2 && pick(2) ? narrower(shape) : shape;
    bool own = ol_shape_equal(&state[i], &shape);
    operand[i] = some_storage(i >= 2 && own);
    if (i < 2 && pick(4)) operand[i].dtype = OL_F32;
    if (bound && i >= 2 && !(operand[i].packing & OL_PACK_CODES)) operand[i].shape = &state[i];
    make_packed(&t->before, operand[i].dtype, operand[i].packing, ol_shape_numel(&state[i]));
    if (operand[i].packing & OL_PACK_CODES)
      set_codes(&t->before, i, pick(3) ? tame_element : some_element);
    for (int64_t k = 0; k < t->before.size[i] && operand[i].dtype != OL_U8; k++)
      set(&t->before, i, k, some_element());
  }
  ok(ol_graph_begin(&error, graph, &shape, operand, operands));
}

static bool agrees(const trial *t, const ol_program *program) {
  arrays after;
  double totals[TOTALS] = { 0 };
  copy_arrays(&t->before, &after);
  bool same = run_machine(program, &after, t->count, t->factor, totals) &&
              same_arrays(&t->expected, &after);
  for (int i = 0; i < TOTALS; i++) {
    if (same_number(totals[i], t->totals[i])) continue;
    printf("  total %d: %.17g and %.17g\n", i, totals[i], t->totals[i]);
    same = false;
  }
  free_arrays(&after);
  return same;
}

/* Every instruction set; several numbers of threads, where there is work for them; arrays from
 * memory, and from a cache. */
static void compare(const trial *t, const ol_program *program, int rule) {
  const char *best = ol_machine_isa();
  ol_machine_set_cache(rule % 2 ? 1 : 1e12);
  for (const char *const *isa = ol_machine_isas(); *isa; isa++)
    for (int threads = 1; threads <= (t->count > OL_MACHINE_CHUNK || t->bound ? 3 : 1); threads++) {
      ol_machine_set_isa(*isa);
      ol_set_threads(threads);
      if (CHECK(agrees(t, program))) continue;
      printf("  rule %d, %lld elements, %s, %d threads\n", rule, (long long)t->count, *isa,
             threads);
      show(program);
    }
  ol_machine_set_isa(best);
}

static bool has_codes(const arrays *a) {
  for (int i = 0; i < a->count; i++)
    if (a->packing[i] & OL_PACK_CODES) return true;
  return false;
}

static void try_rule(int rule) {
  static const int64_t counts[] = { 0, 1, 255, 256, 257, 70000 };
  static const double factor = 0.37;
  trial t;
  ol_program *program;
  random_state = (uint64_t)rule * 1000003u + 17;
  bool bound = rule % 4 == 3;
  int64_t count = rule % 100 == 0 ? counts[5] : counts[pick(5)];
  begin_trial(&t, count, bound);
  if (bound)
    some_bound_rule(t.before.count, 1 + pick(14));
  else
    some_rule(t.before.count, 1 + pick(25));
  if (pick(3) == 0) t.factor = &factor;
  noise[1] = (ol_noise_part){ has_codes(&t.before) ? 0 : t.count / 3, 99 };
  copy_arrays(&t.before, &t.expected);
  ok(run_naive(t.expected.data, t.count, t.factor, t.totals));
  if (ok(ol_program_compile(&error, graph, &program))) {
    compare(&t, program, rule);
    ol_release(program);
  }
  free_arrays(&t.before);
  free_arrays(&t.expected);
}

int main(int argc, char **argv) {
  int rules = argc > 1 ? atoi(argv[1]) : 3000;
  int first = argc > 2 ? atoi(argv[2]) : 0;
  if (!ok(ol_graph_new(&error, &graph))) return check_summary();
  for (int rule = first; rule < first + rules; rule++) try_rule(rule);
  ol_graph_free(graph);
  CHECK_EQUAL(ol_memory_read().live_blocks, 0);
  return check_summary();
}
