/* graph: builds nodes, each once; infers shapes; notes stores. */
#include "rule/graph.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

enum { INDEX_BITS = 8, CALL_MASK = 0x7fffff, BUCKETS = 2 * OL_GRAPH_NODES };

ol_status ol_graph_new(ol_error *error, ol_graph **out) {
  OL_TRY(ol_alloc_for(error, sizeof **out, "an expression graph", (void **)out));
  **out = (ol_graph){ 0 };
  return OL_OK;
}

void ol_graph_free(ol_graph *graph) { ol_free(graph); }

/* Symbols: the number of the call above the index of the node. Calls are counted over all graphs,
 * so that symbols of another graph are strangers too. */

static uint32_t next_call(void) {
  static _Atomic uint32_t calls;
  uint32_t call = ++calls & CALL_MASK;
  return call ? call : next_call();
}

static ol_symbol symbol_of(const ol_graph *graph, int node) {
  return (ol_symbol)(graph->call << INDEX_BITS | (uint32_t)node);
}

bool ol_graph_owns(const ol_graph *graph, ol_symbol symbol) {
  return (uint32_t)symbol >> INDEX_BITS == graph->call &&
         (symbol & (OL_GRAPH_NODES - 1)) < graph->nodes;
}

static ol_status resolve(ol_error *error, const ol_graph *graph, ol_symbol symbol, int *node) {
  if (!ol_graph_owns(graph, symbol))
    return ol_fail(error, OL_STATE, "a symbol of an earlier call of a rule is used");
  *node = symbol & (OL_GRAPH_NODES - 1);
  return OL_OK;
}

static bool is_number(const ol_graph *graph, int node) {
  return graph->node[node].op == OL_RULE_NUMBER;
}

static bool is_scalar(const ol_graph *graph, int node) {
  return graph->node[node].shape == OL_RULE_SCALAR;
}

/* Finds an equal node, or adds one. A node is written and read field by field, and stays in
 * registers: a processor waits long where it reads as one what was written in pieces. */

static uint32_t hash(const ol_graph_node *n) {
  uint32_t what = (uint32_t)n->op << 16 | (uint32_t)(uint8_t)n->shape << 8 | (uint8_t)n->dim;
  uint32_t from = (uint32_t)(uint16_t)n->in[0] << 16 | (uint16_t)n->in[1];
  return (what * 0x9e3779b1u ^ from) * 0x9e3779b1u >> 16;
}

static bool equal(const ol_graph_node *a, const ol_graph_node *b) {
  return a->op == b->op && a->in[0] == b->in[0] && a->in[1] == b->in[1] && a->in[2] == b->in[2] &&
         a->shape == b->shape && a->dim == b->dim;
}

static inline ol_status intern(ol_error *error, ol_graph *graph, ol_graph_node node, int *out) {
  uint32_t at = hash(&node) % BUCKETS;
  for (; graph->bucket[at] >= 0; at = (at + 1) % BUCKETS)
    if (equal(&graph->node[graph->bucket[at]], &node)) {
      *out = graph->bucket[at];
      return OL_OK;
    }
  if (graph->nodes == OL_GRAPH_NODES)
    return ol_fail(error, OL_RANGE, "a rule of more than %d operations", OL_GRAPH_NODES);
  *out = graph->nodes++;
  graph->node[*out] = node;
  graph->bucket[at] = (int16_t)*out;
  return OL_OK;
}

static ol_status intern_shape(ol_error *error, ol_graph *graph, const ol_shape *shape,
                              int8_t *out) {
  int i = 0;
  while (i < graph->shapes && !ol_shape_equal(&graph->shape[i], shape)) i++;
  if (i == OL_GRAPH_SHAPES)
    return ol_fail(error, OL_RANGE, "a rule with more than %d different shapes", OL_GRAPH_SHAPES);
  if (i == graph->shapes) graph->shape[graph->shapes++] = *shape;
  *out = (int8_t)i;
  return OL_OK;
}

static ol_graph_node make_node(ol_rule_op op, int shape, int a, int b, int c) {
  return (ol_graph_node){ .op = (uint8_t)op,
                          .shape = (int8_t)shape,
                          .dim = -1,
                          .in = { (int16_t)a, (int16_t)b, (int16_t)c } };
}

/* Operands. */

static bool broadcasts_to(const ol_shape *from, const ol_shape *to) {
  if (from->ndim > to->ndim) return false;
  for (int d = 1; d <= from->ndim; d++) {
    int64_t size = from->size[from->ndim - d];
    if (size != 1 && size != to->size[to->ndim - d]) return false;
  }
  return true;
}

static ol_status declare(ol_error *error, ol_graph *graph, int i, const ol_operand *operand) {
  int8_t shape = OL_RULE_OWN;
  char own[OL_SHAPE_TEXT], theirs[OL_SHAPE_TEXT];
  bool coded = operand->packing & OL_PACK_CODES;
  if (coded ? operand->dtype != OL_U8 : !ol_dtype_is_float(operand->dtype))
    return ol_fail(error, OL_DTYPE, "a rule's arrays are floats, not %s",
                   ol_dtype_name(operand->dtype));
  if (coded && operand->shape)
    return ol_fail(error, OL_ARGUMENT, "a state in 8 bits has the parameter's shape");
  if (operand->shape) {
    if (!broadcasts_to(operand->shape, &graph->shape[OL_RULE_OWN]))
      return ol_fail(error, OL_SHAPE, "a state of shape %s does not broadcast to a parameter of %s",
                     ol_shape_text(operand->shape, theirs),
                     ol_shape_text(&graph->shape[OL_RULE_OWN], own));
    OL_TRY(intern_shape(error, graph, operand->shape, &shape));
  }
  graph->operand[i].dtype = (uint8_t)operand->dtype;
  bool rounds = coded || operand->dtype == OL_BF16;
  graph->operand[i].packing = (uint8_t)(rounds ? operand->packing : 0);
  graph->operand[i].shape = shape;
  graph->operand[i].bound = operand->shape != NULL;
  graph->operand[i].store = -1;
  graph->dtype = ol_dtype_promote(graph->dtype, operand->dtype);
  return OL_OK;
}

ol_status ol_graph_begin(ol_error *error, ol_graph *graph, const ol_shape *shape,
                         const ol_operand *operands, int count) {
  if (count > OL_GRAPH_OPERANDS)
    return ol_fail(error, OL_RANGE, "a rule of %d arrays; %d are allowed", count,
                   OL_GRAPH_OPERANDS);
  graph->call = next_call();
  graph->nodes = graph->numbers = graph->totals = 0;
  graph->operands = count;
  graph->dtype = OL_F32;
  graph->shape_bound = false;
  graph->shapes = 1;
  graph->shape[OL_RULE_OWN] = *shape;
  memset(graph->bucket, 0xff, sizeof graph->bucket);
  for (int i = 0; i < count; i++) OL_TRY(declare(error, graph, i, &operands[i]));
  return OL_OK;
}

static ol_status check_operand(ol_error *error, const ol_graph *graph, int operand) {
  if (operand >= 0 && operand < graph->operands) return OL_OK;
  return ol_fail(error, OL_RANGE, "array %d of a rule that has %d", operand + 1, graph->operands);
}

ol_status ol_graph_read(ol_error *error, ol_graph *graph, int operand, ol_symbol *out) {
  OL_TRY(check_operand(error, graph, operand));
  int node = operand == 0 ? -1 : graph->operand[operand].store;
  if (node < 0) {
    int shape = graph->operand[operand].shape;
    OL_TRY(intern(error, graph, make_node(OL_RULE_OPERAND, shape, operand, -1, -1), &node));
  }
  graph->shape_bound |= graph->operand[operand].bound;
  *out = symbol_of(graph, node);
  return OL_OK;
}

ol_status ol_graph_number(ol_error *error, ol_graph *graph, double value, ol_symbol *out) {
  if (isnan(value)) return ol_fail(error, OL_NONFINITE, "a number of the rule is NaN");
  int slot = 0, node = 0;
  while (slot < graph->numbers && memcmp(&graph->number[slot], &value, sizeof value) != 0) slot++;
  OL_TRY(intern(error, graph, make_node(OL_RULE_NUMBER, OL_RULE_SCALAR, slot, -1, -1), &node));
  graph->number[slot] = value;
  if (slot == graph->numbers) graph->numbers++;
  *out = symbol_of(graph, node);
  return OL_OK;
}

/* Operations. */

static ol_status apply_numbers(ol_error *error, ol_graph *graph, ol_rule_op op, const int *in,
                               ol_symbol *out) {
  double value[3];
  for (int i = 0; i < ol_rule_op_table[op].inputs; i++)
    value[i] = graph->number[graph->node[in[i]].in[0]];
  OL_TRY(ol_graph_number(error, graph, ol_rule_op_number(op, value), out));
  return OL_OK;
}

/* Broadcasts *shape with that of one more input. */
static ol_status broadcast(ol_error *error, ol_graph *graph, ol_rule_op op, int8_t other,
                           int8_t *shape) {
  if (other == OL_RULE_SCALAR || other == *shape) return OL_OK;
  if (*shape == OL_RULE_SCALAR) {
    *shape = other;
    return OL_OK;
  }
  ol_shape both;
  OL_TRY(ol_shape_broadcast(error, ol_rule_op_table[op].name, &graph->shape[*shape],
                            &graph->shape[other], &both));
  return intern_shape(error, graph, &both, shape);
}

/* Whether the second input is put first: what commutes has one order, so that more nodes are equal.
 */
static bool is_turned(const ol_graph *graph, ol_rule_op op, const int *in) {
  if (op == OL_RULE_ADD || op == OL_RULE_MUL) return in[0] > in[1];
  if (op != OL_RULE_MIN && op != OL_RULE_MAX) return false;
  return is_scalar(graph, in[0]) && !is_scalar(graph, in[1]);
}

static ol_status apply_elementwise(ol_error *error, ol_graph *graph, ol_rule_op op,
                                   const ol_symbol *inputs, ol_symbol *out) {
  int in[3] = { -1, -1, -1 }, node = 0;
  int8_t shape = OL_RULE_SCALAR;
  bool numbers = true;
  for (int i = 0; i < ol_rule_op_table[op].inputs; i++) {
    OL_TRY(resolve(error, graph, inputs[i], &in[i]));
    OL_TRY(broadcast(error, graph, op, graph->node[in[i]].shape, &shape));
    numbers &= is_number(graph, in[i]);
  }
  if (numbers) return apply_numbers(error, graph, op, in, out);
  bool turned = is_turned(graph, op, in);
  OL_TRY(intern(error, graph, make_node(op, shape, in[turned], in[!turned], in[2]), &node));
  *out = symbol_of(graph, node);
  return OL_OK;
}

static ol_status check_matrix(ol_error *error, const ol_graph *graph, ol_rule_op op, int node) {
  char text[OL_SHAPE_TEXT];
  const char *name = ol_rule_op_table[op].name;
  if (is_scalar(graph, node))
    return ol_fail(error, OL_SHAPE, "%s: takes a matrix, not a number", name);
  const ol_shape *shape = &graph->shape[graph->node[node].shape];
  if (shape->ndim == 2) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: takes a matrix, not shape %s", name,
                 ol_shape_text(shape, text));
}

static ol_status apply_matmul(ol_error *error, ol_graph *graph, const int *in, int *out) {
  char left[OL_SHAPE_TEXT], right[OL_SHAPE_TEXT];
  for (int i = 0; i < 2; i++) OL_TRY(check_matrix(error, graph, OL_RULE_MATMUL, in[i]));
  const ol_shape *a = &graph->shape[graph->node[in[0]].shape];
  const ol_shape *b = &graph->shape[graph->node[in[1]].shape];
  if (a->size[1] != b->size[0])
    return ol_fail(error, OL_SHAPE, "matmul: shapes %s and %s do not fit", ol_shape_text(a, left),
                   ol_shape_text(b, right));
  int8_t shape = 0;
  ol_shape product = { 2, { a->size[0], b->size[1] } };
  OL_TRY(intern_shape(error, graph, &product, &shape));
  graph->shape_bound = true;
  return intern(error, graph, make_node(OL_RULE_MATMUL, shape, in[0], in[1], -1), out);
}

static ol_status apply_transpose(ol_error *error, ol_graph *graph, int in, int *out) {
  OL_TRY(check_matrix(error, graph, OL_RULE_T, in));
  if (graph->node[in].op == OL_RULE_T) {
    *out = graph->node[in].in[0];
    return OL_OK;
  }
  int8_t shape = 0;
  const ol_shape *from = &graph->shape[graph->node[in].shape];
  ol_shape turned = { 2, { from->size[1], from->size[0] } };
  OL_TRY(intern_shape(error, graph, &turned, &shape));
  graph->shape_bound = true;
  return intern(error, graph, make_node(OL_RULE_T, shape, in, -1, -1), out);
}

ol_status ol_graph_apply(ol_error *error, ol_graph *graph, ol_rule_op op, const ol_symbol *inputs,
                         ol_symbol *out) {
  int in[2] = { -1, -1 }, node = 0;
  if (ol_rule_op_is_elementwise(op)) return apply_elementwise(error, graph, op, inputs, out);
  if (op != OL_RULE_MATMUL && op != OL_RULE_T)
    return ol_fail(error, OL_ARGUMENT, "%s: not elementwise", ol_rule_op_table[op].name);
  for (int i = 0; i < ol_rule_op_table[op].inputs; i++)
    OL_TRY(resolve(error, graph, inputs[i], &in[i]));
  if (op == OL_RULE_MATMUL)
    OL_TRY(apply_matmul(error, graph, in, &node));
  else
    OL_TRY(apply_transpose(error, graph, in[0], &node));
  *out = symbol_of(graph, node);
  return OL_OK;
}

static ol_status reduce_dim(ol_error *error, ol_graph *graph, ol_rule_op op, int x, int64_t dim,
                            int *out) {
  int d;
  bool mask[OL_MAX_DIMS] = { false };
  const ol_shape *from = &graph->shape[graph->node[x].shape];
  OL_TRY(ol_shape_dim(error, ol_rule_op_table[op].name, dim, from->ndim, &d));
  ol_graph_node node = make_node(op, 0, x, -1, -1);
  if (from->ndim > 0) mask[d] = true;
  ol_shape kept = ol_shape_reduce(from, mask, true);
  OL_TRY(intern_shape(error, graph, &kept, &node.shape));
  node.dim = (int8_t)d;
  graph->shape_bound = true;
  return intern(error, graph, node, out);
}

ol_status ol_graph_reduce(ol_error *error, ol_graph *graph, ol_rule_op op, ol_symbol x,
                          const int64_t *dim, ol_symbol *out) {
  int in = 0, node = 0;
  OL_TRY(resolve(error, graph, x, &in));
  if (!ol_rule_op_is_reduction(op))
    return ol_fail(error, OL_ARGUMENT, "%s: not a reduction", ol_rule_op_table[op].name);
  if (is_scalar(graph, in)) {
    if (op == OL_RULE_NORM) return ol_graph_apply(error, graph, OL_RULE_ABS, &x, out);
    *out = x;
    return OL_OK;
  }
  if (dim) {
    OL_TRY(reduce_dim(error, graph, op, in, *dim, &node));
  } else {
    OL_TRY(intern(error, graph, make_node(op, OL_RULE_SCALAR, in, -1, -1), &node));
  }
  *out = symbol_of(graph, node);
  return OL_OK;
}

/* Outputs. */

/* Gives the value the shape of the operand: a state is filled with a number, nothing else differs.
 */
static ol_status fit(ol_error *error, ol_graph *graph, int value, int operand, int *out) {
  char from[OL_SHAPE_TEXT], to[OL_SHAPE_TEXT];
  int8_t own = graph->node[value].shape, shape = graph->operand[operand].shape;
  *out = value;
  if (own == shape) return OL_OK;
  if (own == OL_RULE_SCALAR && operand > 0)
    return intern(error, graph, make_node(OL_RULE_FILL, shape, value, -1, -1), out);
  if (own == OL_RULE_SCALAR)
    return ol_fail(error, OL_SHAPE, "the new p is one number; the shape %s is expected",
                   ol_shape_text(&graph->shape[shape], to));
  return ol_fail(error, OL_SHAPE, "%s has the shape %s; %s is expected",
                 operand > 0 ? "a value" : "the new p", ol_shape_text(&graph->shape[own], from),
                 ol_shape_text(&graph->shape[shape], to));
}

ol_status ol_graph_store(ol_error *error, ol_graph *graph, int operand, ol_symbol value) {
  int node = 0;
  OL_TRY(check_operand(error, graph, operand));
  OL_TRY(resolve(error, graph, value, &node));
  if (operand == 1) return ol_fail(error, OL_ARGUMENT, "the gradient is not assigned to");
  OL_TRY(fit(error, graph, node, operand, &node));
  graph->shape_bound |= graph->operand[operand].bound;
  graph->operand[operand].store = (int16_t)node;
  return OL_OK;
}

ol_status ol_graph_add_total(ol_error *error, ol_graph *graph, int slot, ol_symbol value) {
  ol_symbol sum = 0;
  if (slot < 0 || slot >= OL_GRAPH_TOTALS || graph->totals == OL_GRAPH_TOTALS)
    return ol_fail(error, OL_RANGE, "group_add: more than %d totals", OL_GRAPH_TOTALS);
  OL_TRY(ol_graph_reduce(error, graph, OL_RULE_SUM, value, NULL, &sum));
  graph->total[graph->totals].slot = (int16_t)slot;
  graph->total[graph->totals++].node = (int16_t)(sum & (OL_GRAPH_NODES - 1));
  return OL_OK;
}

ol_status ol_graph_shape_of(ol_error *error, const ol_graph *graph, ol_symbol symbol,
                            const ol_shape **out) {
  int node = 0;
  OL_TRY(resolve(error, graph, symbol, &node));
  *out = is_scalar(graph, node) ? NULL : &graph->shape[graph->node[node].shape];
  return OL_OK;
}
