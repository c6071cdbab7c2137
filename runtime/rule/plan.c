/* plan: levels, buffers and the order of stores. */
#include "rule/plan.h"

#include <string.h>

static const ol_graph_node *node_of(const ol_plan *plan, int node) {
  return &plan->graph->node[node];
}

int ol_plan_strip(const ol_graph *graph, int node) {
  while (graph->node[node].op == OL_RULE_FILL) node = graph->node[node].in[0];
  return node;
}

static bool is_leaf(const ol_graph_node *node) { return node->op <= OL_RULE_NUMBER; }

static bool stores(const ol_graph *graph, int operand) {
  int node = graph->operand[operand].store;
  if (node < 0) return false;
  return graph->node[node].op != OL_RULE_OPERAND || graph->node[node].in[0] != operand;
}

/* Nodes come after their inputs, so that one sweep backwards marks what outputs depend on. */
static void mark_needed(ol_plan *plan) {
  const ol_graph *graph = plan->graph;
  for (int i = 0; i < graph->operands; i++)
    if (stores(graph, i)) plan->needed[graph->operand[i].store] = true;
  for (int i = 0; i < graph->totals; i++) plan->needed[graph->total[i].node] = true;
  for (int n = graph->nodes - 1; n >= 0; n--) {
    const ol_graph_node *node = &graph->node[n];
    if (!plan->needed[n] || is_leaf(node)) continue;
    for (int i = 0; i < ol_rule_op_table[node->op].inputs; i++) plan->needed[node->in[i]] = true;
  }
}

/* Numbers of the run: the arguments by slot, then what is computed. */
static void number_scalars(ol_plan *plan) {
  const ol_graph *graph = plan->graph;
  plan->numbers = graph->numbers;
  for (int n = 0; n < graph->nodes; n++) {
    const ol_graph_node *node = &graph->node[n];
    plan->number[n] = -1;
    if (node->op == OL_RULE_NUMBER)
      plan->number[n] = node->in[0];
    else if (plan->needed[n] && node->shape == OL_RULE_SCALAR)
      plan->number[n] = (int16_t)plan->numbers++;
  }
}

static void keep(ol_plan *plan, int node) {
  if (plan->buffer[node] >= 0) return;
  plan->buffer_shape[plan->buffers] = node_of(plan, node)->shape;
  plan->buffer[node] = (int16_t)(plan->graph->operands + plan->buffers++);
}

/* The first level at which a pass of this shape can use a node; keeps the node in a buffer if the
 * pass cannot compute it itself. */
static int usable(ol_plan *plan, int n, int shape) {
  n = ol_plan_strip(plan->graph, n);
  const ol_graph_node *node = node_of(plan, n);
  int level = plan->level[n];
  if (node->shape == OL_RULE_SCALAR || node->op == OL_RULE_OPERAND || node->op == OL_RULE_T)
    return level;
  if (node->op >= OL_RULE_SUM) return level + 1;
  if (node->shape == shape) return level;
  keep(plan, n);
  return level + 1;
}

/* The first level at whose end a product can read a node, as it stands or turned. The gradient is
 * always copied, because it may have to be multiplied on the way. */
static int usable_in_product(ol_plan *plan, int n) {
  const ol_graph *graph = plan->graph;
  n = ol_plan_strip(graph, n);
  if (node_of(plan, n)->op == OL_RULE_T) n = ol_plan_strip(graph, node_of(plan, n)->in[0]);
  const ol_graph_node *node = node_of(plan, n);
  bool direct = node->op == OL_RULE_OPERAND && node->in[0] != 1 &&
                graph->operand[node->in[0]].dtype == graph->dtype;
  if (!direct) keep(plan, n);
  return plan->level[n];
}

static int level_of(ol_plan *plan, int n) {
  const ol_graph_node *node = node_of(plan, n);
  int level = 0, inputs = ol_rule_op_table[node->op].inputs;
  if (is_leaf(node)) return 0;
  if (node->op == OL_RULE_T) {
    int x = ol_plan_strip(plan->graph, node->in[0]);
    if (node_of(plan, x)->op == OL_RULE_OPERAND) return 0;
    keep(plan, x);
    return plan->level[x] + 1;
  }
  for (int i = 0; i < inputs; i++) {
    int x = node->in[i], shape = node->shape;
    if (ol_rule_op_is_reduction(node->op)) shape = node_of(plan, x)->shape;
    int at = node->op == OL_RULE_MATMUL ? usable_in_product(plan, x) : usable(plan, x, shape);
    if (at > level) level = at;
  }
  bool whole = ol_rule_op_is_reduction(node->op) && node->dim < 0;
  return whole ? level + 1 : level;
}

static void assign_levels(ol_plan *plan) {
  for (int n = 0; n < plan->graph->nodes; n++) {
    if (!plan->needed[n]) continue;
    const ol_graph_node *node = node_of(plan, n);
    plan->level[n] = (int16_t)level_of(plan, n);
    if (node->shape != OL_RULE_SCALAR && node->op >= OL_RULE_SUM && node->op <= OL_RULE_MATMUL)
      keep(plan, n);
    if (plan->level[n] >= plan->levels) plan->levels = plan->level[n] + 1;
  }
}

/* Stores. An operand is overwritten as early as its new value is known, unless something still
 * reads the old one: then later; and if that goes round in circles, its new value is kept in a
 * buffer and copied at the end. */

int ol_plan_array(const ol_plan *plan, int n, int level) {
  const ol_graph *graph = plan->graph;
  const ol_graph_node *node = &graph->node[n];
  if (plan->buffer[n] >= 0 && plan->level[n] < level) return plan->buffer[n];
  if (node->op == OL_RULE_OPERAND) return node->in[0];
  for (int i = 0; i < graph->operands; i++)
    if (plan->store_level[i] >= 0 && plan->store_level[i] < level && graph->operand[i].store == n &&
        graph->operand[i].dtype == graph->dtype)
      return i;
  return -1;
}

/* Whether a pass copies the node into its buffer; reductions and products write theirs. */
static bool is_kept(const ol_plan *plan, int n, int level) {
  int op = node_of(plan, n)->op;
  return plan->buffer[n] >= 0 && plan->level[n] == level && (op < OL_RULE_SUM || op == OL_RULE_T);
}

int ol_plan_roots(const ol_plan *plan, ol_pass_key key, ol_root roots[OL_ROOTS]) {
  const ol_graph *graph = plan->graph;
  int count = 0;
  if (key.dim_node >= 0) {
    int x = ol_plan_strip(graph, graph->node[key.dim_node].in[0]);
    roots[0] = (ol_root){ x, OL_ROOT_DIM, plan->buffer[key.dim_node] };
    return 1;
  }
  for (int i = 0; i < graph->operands; i++) {
    if (plan->store_level[i] != key.level || graph->operand[i].shape != key.shape) continue;
    int node = ol_plan_strip(graph, graph->operand[i].store);
    roots[count++] = (ol_root){ node, OL_ROOT_ARRAY, i };
  }
  for (int n = 0; n < graph->nodes; n++) {
    const ol_graph_node *node = &graph->node[n];
    if (!plan->needed[n]) continue;
    if (node->shape == key.shape && is_kept(plan, n, key.level))
      roots[count++] = (ol_root){ n, OL_ROOT_ARRAY, plan->buffer[n] };
    bool whole = ol_rule_op_is_reduction(node->op) && node->shape == OL_RULE_SCALAR;
    if (whole && plan->level[n] == key.level + 1 && graph->node[node->in[0]].shape == key.shape)
      roots[count++] = (ol_root){ ol_plan_strip(graph, node->in[0]), OL_ROOT_NUMBER, n };
  }
  return count;
}

/* Looks for old values that a pass reads, and pushes their stores behind it. */
typedef struct reader {
  ol_plan *plan;
  ol_pass_key key;
  bool seen[OL_GRAPH_NODES];
  bool changed;
} reader;

/* The old value of operand i is read at key.level: by the pass that would overwrite it, element by
 * element, or beside it, in another pass or order. */
static void read_old(reader *r, int i, bool beside) {
  ol_plan *plan = r->plan;
  int first = r->key.level + (beside ? 1 : 0);
  if (plan->store_level[i] < 0 || plan->store_level[i] >= first) return;
  plan->store_level[i] = (int16_t)first;
  r->changed = true;
}

static void visit(reader *r, int n) {
  const ol_graph *graph = r->plan->graph;
  n = ol_plan_strip(graph, n);
  const ol_graph_node *node = &graph->node[n];
  if (r->seen[n] || node->shape == OL_RULE_SCALAR) return;
  r->seen[n] = true;
  int array = ol_plan_array(r->plan, n, r->key.level);
  bool turned = array < 0 && node->op == OL_RULE_T;
  if (turned) {
    n = ol_plan_strip(graph, node->in[0]);
    array = ol_plan_array(r->plan, n, r->key.level);
  }
  if (array >= 0) {
    bool old = array < graph->operands && graph->node[n].op == OL_RULE_OPERAND;
    bool beside = turned || r->key.dim_node >= 0 || graph->node[n].shape != r->key.shape;
    if (old) read_old(r, array, beside);
    return;
  }
  for (int i = 0; i < ol_rule_op_table[node->op].inputs; i++) visit(r, node->in[i]);
}

static bool visit_pass(ol_plan *plan, ol_pass_key key) {
  ol_root roots[OL_ROOTS];
  reader r = { .plan = plan, .key = key };
  int count = ol_plan_roots(plan, key, roots);
  for (int i = 0; i < count; i++) visit(&r, roots[i].node);
  return r.changed;
}

/* A product reads its operands when its level has ended. */
static bool visit_product(ol_plan *plan, int n) {
  const ol_graph *graph = plan->graph;
  reader r = { .plan = plan, .key = { .level = plan->level[n] } };
  for (int i = 0; i < 2; i++) {
    int x = ol_plan_strip(graph, node_of(plan, n)->in[i]);
    if (node_of(plan, x)->op == OL_RULE_T) x = ol_plan_strip(graph, node_of(plan, x)->in[0]);
    if (node_of(plan, x)->op == OL_RULE_OPERAND && plan->buffer[x] < 0)
      read_old(&r, node_of(plan, x)->in[0], true);
  }
  return r.changed;
}

static bool push_stores(ol_plan *plan) {
  bool changed = false;
  const ol_graph *graph = plan->graph;
  for (int level = 0; level < plan->levels; level++)
    for (int shape = 0; shape < graph->shapes; shape++)
      changed |= visit_pass(plan, (ol_pass_key){ level, shape, -1 });
  for (int n = 0; n < graph->nodes; n++) {
    const ol_graph_node *node = &graph->node[n];
    if (!plan->needed[n] || node->shape == OL_RULE_SCALAR) continue;
    ol_pass_key key = { plan->level[n], 0, n };
    if (ol_rule_op_is_reduction(node->op)) {
      key.shape = graph->node[node->in[0]].shape;
      changed |= visit_pass(plan, key);
    }
    if (node->op == OL_RULE_MATMUL) changed |= visit_product(plan, n);
  }
  return changed;
}

/* Keeps the new values of operands whose stores are pushed later and later. */
static void defer_stores(ol_plan *plan, int last) {
  for (int i = 0; i < plan->graph->operands; i++) {
    int level = plan->store_level[i];
    if (level >= plan->levels) plan->levels = level + 1;
    if (level <= last) continue;
    int value = ol_plan_strip(plan->graph, plan->graph->operand[i].store);
    if (node_of(plan, value)->shape != OL_RULE_SCALAR) keep(plan, value);
  }
}

static void order_stores(ol_plan *plan) {
  const ol_graph *graph = plan->graph;
  for (int i = 0; i < graph->operands; i++) {
    plan->store_level[i] = -1;
    if (!stores(graph, i)) continue;
    int level = usable(plan, graph->operand[i].store, graph->operand[i].shape);
    plan->store_level[i] = (int16_t)level;
    if (level >= plan->levels) plan->levels = level + 1;
  }
  int last = plan->levels; /* one more level than without conflicts */
  while (push_stores(plan)) defer_stores(plan, last);
}

/* Levels that turned out to do something. */
static int count_levels(const ol_plan *plan) {
  int levels = 0;
  for (int i = 0; i < plan->graph->operands; i++)
    if (plan->store_level[i] >= levels) levels = plan->store_level[i] + 1;
  for (int n = 0; n < plan->graph->nodes; n++) {
    if (!plan->needed[n]) continue;
    bool scalar = node_of(plan, n)->shape == OL_RULE_SCALAR;
    int end = plan->level[n] + (scalar ? 0 : 1);
    if (end > levels && (scalar || plan->buffer[n] >= 0)) levels = end;
  }
  return levels;
}

void ol_plan_make(const ol_graph *graph, ol_plan *plan) {
  *plan = (ol_plan){ .graph = graph };
  memset(plan->buffer, 0xff, sizeof plan->buffer);
  mark_needed(plan);
  number_scalars(plan);
  assign_levels(plan);
  order_stores(plan);
  plan->levels = count_levels(plan);
}
