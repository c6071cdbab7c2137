/* Graphs: equal nodes are one, stores read back, shapes infer, bad input is refused; programs are
 * found again by structure; their text is stable. */
#include "rule_build.h"

static const ol_operand single[] = { { OL_F32 }, { OL_F32 }, { OL_F32 }, { OL_F32 } };

static void begin_shape(ol_shape shape, int operands) {
  ok(ol_graph_begin(&error, graph, &shape, single, operands));
}

static void begin(int operands) { begin_shape((ol_shape){ 2, { 2, 3 } }, operands); }

/* A call that must fail with this status and message. */
static void fails(ol_status got, ol_status want, const char *message) {
  CHECK_EQUAL(got, want);
  CHECK_STRING(error.message, message);
}

static ol_status try(ol_rule_op op, ol_symbol x, ol_symbol y) {
  ol_symbol in[] = { x, y, y }, out;
  return ol_graph_apply(&error, graph, op, in, &out);
}

static void equal_nodes_are_one(void) {
  begin(3);
  ol_symbol p = read_operand(0), g = read_operand(1);
  CHECK_EQUAL(read_operand(0), p);
  CHECK_EQUAL(add(p, g), add(p, g));
  CHECK_EQUAL(add(p, g), add(g, p));
  CHECK_EQUAL(mul(p, g), mul(g, p));
  CHECK(sub(p, g) != sub(g, p));
  CHECK_EQUAL(number(0.5), number(0.5));
  CHECK(number(0.0) != number(-0.0));
  CHECK_EQUAL(graph->numbers, 3);
  CHECK_EQUAL(add(number(2), number(3)), number(5)); /* plain numbers stay plain numbers */
  CHECK(mul(p, number(1)) != p);                     /* and are never folded by value */
  CHECK_EQUAL(apply(OL_RULE_MAX, number(7), p, -1), apply(OL_RULE_MAX, p, number(7), -1));
}

static void stores_read_back(void) {
  begin(4);
  ol_symbol old = read_operand(2), sum = add(old, read_operand(1));
  store(2, sum);
  CHECK_EQUAL(read_operand(2), sum);
  store(2, old);
  CHECK_EQUAL(read_operand(2), old);
  store(0, sum);
  CHECK(read_operand(0) != sum); /* p is always the value before the step */
  store(3, number(4));
  const ol_shape *shape;
  ok(ol_graph_shape_of(&error, graph, read_operand(3), &shape));
  CHECK(shape && shape->ndim == 2); /* a number that was assigned reads back as a tensor */
}

static void shapes_infer(void) {
  const ol_shape row = { 2, { 1, 3 } }, column = { 2, { 2, 1 } }, scalar = { 0 };
  const ol_operand operand[] = {
    { OL_F32 }, { OL_F32 }, { OL_F32, &row }, { OL_F32, &column }, { OL_F32, &scalar }
  };
  ol_shape own = { 2, { 2, 3 } };
  const ol_shape *shape;
  ok(ol_graph_begin(&error, graph, &own, operand, 5));
  ol_symbol p = read_operand(0);
  ok(ol_graph_shape_of(&error, graph, reduce(OL_RULE_NORM, p), &shape));
  CHECK(!shape);
  CHECK(!graph->shape_bound);
  ok(ol_graph_shape_of(&error, graph, reduce_dim(OL_RULE_MEAN, p, -1), &shape));
  CHECK(ol_shape_equal(shape, &column));
  CHECK(graph->shape_bound);
  ok(ol_graph_shape_of(&error, graph, reduce_dim(OL_RULE_MEAN, p, 0), &shape));
  CHECK(ol_shape_equal(shape, &row));
  ok(ol_graph_shape_of(&error, graph, mul(read_operand(2), read_operand(3)), &shape));
  CHECK(ol_shape_equal(shape, &own));
  ok(ol_graph_shape_of(&error, graph, add(read_operand(4), read_operand(2)), &shape));
  CHECK(ol_shape_equal(shape, &row));
  ol_symbol turned = apply(OL_RULE_T, p, -1, -1);
  CHECK_EQUAL(apply(OL_RULE_T, turned, -1, -1), p);
  ok(ol_graph_shape_of(&error, graph, apply(OL_RULE_MATMUL, p, turned, -1), &shape));
  CHECK(shape->ndim == 2 && shape->size[0] == 2 && shape->size[1] == 2);
  ok(ol_graph_store(&error, graph, 4, reduce(OL_RULE_NORM, p))); /* a number fills a state */
  fails(ol_graph_store(&error, graph, 0, reduce(OL_RULE_NORM, p)), OL_SHAPE,
        "the new p is one number; the shape (2, 3) is expected");
  fails(ol_graph_store(&error, graph, 0, read_operand(2)), OL_SHAPE,
        "the new p has the shape (1, 3); (2, 3) is expected");
  fails(ol_graph_store(&error, graph, 2, p), OL_SHAPE,
        "a value has the shape (2, 3); (1, 3) is expected");
}

static void stale_symbols_are_refused(void) {
  static const char *const message = "a symbol of an earlier call of a rule is used";
  ol_graph *other;
  const ol_shape *shape;
  begin(2);
  ol_symbol stale = read_operand(0), out;
  begin(2);
  ol_symbol fresh = read_operand(0);
  CHECK(ol_graph_owns(graph, fresh) && !ol_graph_owns(graph, stale));
  fails(try(OL_RULE_ADD, fresh, stale), OL_STATE, message);
  fails(ol_graph_store(&error, graph, 0, stale), OL_STATE, message);
  fails(ol_graph_reduce(&error, graph, OL_RULE_SUM, stale, NULL, &out), OL_STATE, message);
  fails(ol_graph_shape_of(&error, graph, stale, &shape), OL_STATE, message);
  fails(ol_graph_add_total(&error, graph, 0, stale), OL_STATE, message);
  fails(try(OL_RULE_ADD, fresh, fresh + 1), OL_STATE, message);
  fails(try(OL_RULE_ADD, fresh, -1), OL_STATE, message);
  if (!ok(ol_graph_new(&error, &other))) return;
  ok(ol_graph_begin(&error, other, &(ol_shape){ 0 }, single, 2));
  CHECK(!ol_graph_owns(other, fresh));
  ol_graph_free(other);
}

static void bad_operations_are_refused(void) {
  begin(3);
  ol_symbol p = read_operand(0), out;
  int64_t dim = 2;
  fails(ol_graph_number(&error, graph, NAN, &out), OL_NONFINITE, "a number of the rule is NaN");
  fails(try(OL_RULE_SUB, number(INFINITY), number(INFINITY)), OL_NONFINITE,
        "a number of the rule is NaN");
  fails(try(OL_RULE_SUM, p, p), OL_ARGUMENT, "sum: not elementwise");
  fails(ol_graph_reduce(&error, graph, OL_RULE_ADD, p, NULL, &out), OL_ARGUMENT,
        "add: not a reduction");
  fails(ol_graph_store(&error, graph, 1, p), OL_ARGUMENT, "the gradient is not assigned to");
  fails(ol_graph_read(&error, graph, 3, &out), OL_RANGE, "array 4 of a rule that has 3");
  fails(ol_graph_store(&error, graph, -1, p), OL_RANGE, "array 0 of a rule that has 3");
  fails(ol_graph_add_total(&error, graph, 99, p), OL_RANGE, "group_add: more than 32 totals");
  CHECK_EQUAL(ol_graph_reduce(&error, graph, OL_RULE_SUM, p, &dim, &out), OL_RANGE);
}

static void bad_shapes_are_refused(void) {
  begin_shape((ol_shape){ 2, { 2, 3 } }, 2);
  ol_symbol p = read_operand(0), turned = apply(OL_RULE_T, p, -1, -1);
  fails(try(OL_RULE_ADD, p, turned), OL_SHAPE, "add: shapes (2, 3) and (3, 2) do not broadcast");
  fails(try(OL_RULE_MATMUL, p, p), OL_SHAPE, "matmul: shapes (2, 3) and (2, 3) do not fit");
  fails(try(OL_RULE_T, number(1), -1), OL_SHAPE, "t: takes a matrix, not a number");
  begin_shape((ol_shape){ 1, { 3 } }, 2);
  fails(try(OL_RULE_T, read_operand(0), -1), OL_SHAPE, "t: takes a matrix, not shape (3)");
  ol_shape wide = { 1, { 4 } }, own = { 1, { 3 } };
  const ol_operand wrong[] = { { OL_F32 }, { OL_F32 }, { OL_F32, &wide } };
  fails(ol_graph_begin(&error, graph, &own, wrong, 3), OL_SHAPE,
        "a state of shape (4) does not broadcast to a parameter of (3)");
  const ol_operand integers[] = { { OL_F32 }, { OL_I64 } };
  fails(ol_graph_begin(&error, graph, &own, integers, 2), OL_DTYPE,
        "a rule's arrays are floats, not int64");
  fails(ol_graph_begin(&error, graph, &own, wrong, 33), OL_RANGE,
        "a rule of 33 arrays; 32 are allowed");
}

static void size_is_bounded(void) {
  begin(2);
  ol_symbol x = read_operand(0), g = read_operand(1);
  ol_status status = OL_OK;
  for (int i = 0; i < OL_GRAPH_NODES && status == OL_OK; i++) {
    ol_symbol in[] = { x, g, -1 };
    status = ol_graph_apply(&error, graph, i % 2 ? OL_RULE_ADD : OL_RULE_MUL, in, &x);
  }
  fails(status, OL_RANGE, "a rule of more than 256 operations");
  CHECK_EQUAL(graph->nodes, OL_GRAPH_NODES);
  ol_program *program;
  store(0, x);
  if (ok(ol_program_compile(&error, graph, &program))) ol_release(program);
}

static void the_widest_type_computes(void) {
  static const struct {
    ol_dtype p, state, want;
  } cases[] = { { OL_F32, OL_BF16, OL_F32 },
                { OL_BF16, OL_BF16, OL_F32 },
                { OL_F32, OL_F64, OL_F64 },
                { OL_F64, OL_BF16, OL_F64 } };
  ol_shape shape = { 1, { 3 } };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const ol_operand operand[] = { { cases[i].p }, { cases[i].p }, { cases[i].state } };
    ok(ol_graph_begin(&error, graph, &shape, operand, 3));
    CHECK_EQUAL(graph->dtype, cases[i].want);
  }
}

/* Programs are found by structure. */

static void rule(double lr, bool decay) {
  begin(3);
  ol_symbol p = read_operand(0), g = read_operand(1);
  if (decay) g = add(g, mul(number(0.25), p));
  store(2, add(mul(number(0.9), read_operand(2)), g));
  store(0, sub(p, mul(number(lr), read_operand(2))));
}

static ol_program *look_up(ol_program_cache *cache) {
  ol_program *program = NULL;
  ok(ol_program_cache_get(&error, cache, graph, &program));
  ol_release(program); /* the cache keeps it */
  return program;
}

static void programs_are_found_again(void) {
  ol_program_cache *cache;
  if (!ok(ol_program_cache_new(&error, 2, &cache))) return;
  rule(0.1, false);
  const ol_program *first = look_up(cache);
  rule(0.2, false); /* another number is the same program */
  CHECK(look_up(cache) == first);
  rule(0.0, false);
  CHECK(look_up(cache) == first);
  rule(0.1, true);
  CHECK(look_up(cache) != first);
  CHECK_EQUAL(ol_program_cache_read(cache).hits, 2);
  CHECK_EQUAL(ol_program_cache_read(cache).compiled, 2);
  rule(0.9, false); /* equal numbers share a slot: another structure; evicts the oldest */
  look_up(cache);
  CHECK_EQUAL(ol_program_cache_read(cache).evicted, 1);
  CHECK_EQUAL(ol_program_cache_read(cache).programs, 2);
  CHECK(!ol_program_cache_read(cache).restless);
  ol_program_cache_free(cache);
}

static void types_and_shapes_are_structure(void) {
  ol_program_cache *cache;
  ol_shape shape = { 2, { 2, 3 } }, other = { 2, { 2, 4 } };
  const ol_operand narrow[] = { { OL_F32 }, { OL_F32 }, { OL_BF16 } };
  if (!ok(ol_program_cache_new(&error, 8, &cache))) return;
  for (int i = 0; i < 2; i++) {
    ok(ol_graph_begin(&error, graph, &shape, i ? narrow : single, 3));
    store(2, add(read_operand(2), read_operand(1)));
    look_up(cache);
  }
  CHECK_EQUAL(ol_program_cache_read(cache).compiled, 2);
  begin_shape(other, 3); /* whole tensors and elements only: any shape will do */
  store(2, add(read_operand(2), read_operand(1)));
  look_up(cache);
  CHECK_EQUAL(ol_program_cache_read(cache).hits, 1);
  for (int i = 0; i < 2; i++) {
    begin_shape(i ? other : shape, 3);
    store(2, sub(read_operand(2), reduce_dim(OL_RULE_MEAN, read_operand(1), 0)));
    look_up(cache);
  }
  CHECK_EQUAL(ol_program_cache_read(cache).compiled, 4);
  ol_program_cache_free(cache);
}

static void restless_rules_are_reported(void) {
  ol_program_cache *cache;
  if (!ok(ol_program_cache_new(&error, 4, &cache))) return;
  for (int i = 1; i <= 64; i++) {
    CHECK(!ol_program_cache_read(cache).restless);
    begin(2);
    ol_symbol x = read_operand(0);
    for (int k = 0; k < i; k++) x = add(x, read_operand(1));
    store(0, x);
    look_up(cache);
  }
  CHECK(ol_program_cache_read(cache).restless);
  look_up(cache);
  CHECK(!ol_program_cache_read(cache).restless);
  ol_program_cache_free(cache);
}

/* Text. */

static void reads_as(const double *numbers, const char *want) {
  static const char *const names[] = { "p", "g", "m", "v" };
  ol_program *program;
  char *text = NULL;
  if (!ok(ol_program_compile(&error, graph, &program))) return;
  ok(ol_program_text(&error, program, names, numbers, &text));
  CHECK_STRING(text, want);
  ol_free(text);
  ol_release(program);
}

static void text_is_readable(void) {
  rule(0.1, true);
  reads_as(graph->number, "float32, 1 pass, 2 instructions, 20 bytes an element\n"
                          "reads p g m, writes p m\n"
                          "pass 1\n"
                          "  m = 0.9*m + (g + 0.25*p)\n"
                          "  p = p - 0.1*m\n");
  begin(4);
  ol_symbol p = read_operand(0), g = read_operand(1), m = read_operand(2);
  ol_symbol out = divide(p, apply(OL_RULE_MAX, reduce(OL_RULE_NORM, p), number(1e-7), -1));
  store(0, out);
  store(2, g);
  store(3, m);
  ok(ol_graph_add_total(&error, graph, 0, mul(g, out)));
  reads_as(NULL, "float32, 2 passes, 6 instructions, 32 bytes an element\n"
                 "reads p g m, writes p m v\n"
                 "pass 1, level 1\n"
                 "  v = m\n"
                 "  m = g\n"
                 "  n0 = norm(p)\n"
                 "  n1 = max(n0, c0)\n"
                 "pass 2, level 2\n"
                 "  p = p / n1\n"
                 "  t1 = g * p\n"
                 "  n2 = sum(t1)\n"
                 "group total 1 += n2\n");
}

/* Types and layouts that are not those of the arithmetic go through tiles. */
static void text_shows_conversions(void) {
  const ol_shape own = { 2, { 2, 3 } }, row = { 2, { 1, 3 } };
  const ol_operand operand[] = { { OL_F32 }, { OL_F32 }, { OL_BF16 }, { OL_F32, &row } };
  ok(ol_graph_begin(&error, graph, &own, operand, 4));
  ol_symbol v = read_operand(3), product = mul(read_operand(1), v);
  store(2, sub(read_operand(2), product));
  reads_as(NULL, "float32, 1 pass, 4 instructions, 10 bytes an element\n"
                 "reads g m v, writes m\n"
                 "pass 1\n"
                 "  t1 = float32(m)\n"
                 "  t2 = spread(v)\n"
                 "  t1 = t1 - t2*g\n"
                 "  m = bfloat16(t1)\n");
  ol_symbol turned = apply(OL_RULE_T, read_operand(0), -1, -1);
  store(0, apply(OL_RULE_MATMUL, read_operand(0),
                 apply(OL_RULE_MATMUL, turned, read_operand(0), -1), -1));
  store(2, read_operand(1));
  reads_as(NULL, "float32, 2 passes, 2 instructions, 42 bytes an element\n"
                 "reads p g, writes p m\n"
                 "pass 1, level 1\n"
                 "  m = bfloat16(g)\n"
                 "  buffer1 = matmul(t(p), p)  (3, 2, 3)\n"
                 "  buffer2 = matmul(p, buffer1)  (2, 3, 3)\n"
                 "pass 2, level 2\n"
                 "  p = buffer2\n");
}

int main(void) {
  if (!ok(ol_graph_new(&error, &graph))) return check_summary();
  equal_nodes_are_one();
  stores_read_back();
  shapes_infer();
  stale_symbols_are_refused();
  bad_operations_are_refused();
  bad_shapes_are_refused();
  size_is_bounded();
  the_widest_type_computes();
  programs_are_found_again();
  types_and_shapes_are_structure();
  restless_rules_are_reported();
  text_is_readable();
  text_shows_conversions();
  ol_graph_free(graph);
  CHECK_EQUAL(ol_memory_read().live_blocks, 0);
  return check_summary();
}
