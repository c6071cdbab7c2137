/* cover: the cheapest set of forms and plain instructions.
 *
 * A node that is used once may disappear into the form that uses it; so may a light one, used as
 * often as it likes: number * tensor, because forms multiply anyway, and what is quickly computed
 * from arrays. Where a light node needs an instruction all the same, all its users read the result.
 * What a form costs together with what its inputs cost is minimal, node by node from the inputs
 * up. */
#include "rule/cover.h"

#include <string.h>

#include "rule/match.h"

enum { INSTRUCTION = 8, READ = 1 }; /* costs */
enum { ROUNDS = 8 };                /* that light nodes are looked for, at most */

typedef struct cover {
  const ol_plan *plan;
  ol_pass_key key;
  int16_t uses[OL_GRAPH_NODES];  /* within the pass; 0: not in it */
  bool computed[OL_GRAPH_NODES]; /* in it, and not read from an array */
  bool root[OL_GRAPH_NODES];
  bool light[OL_GRAPH_NODES];
  bool made[OL_GRAPH_NODES]; /* light, and yet by an instruction */
  bool open[OL_GRAPH_NODES];
  int cost[OL_GRAPH_NODES];
  ol_draft choice[OL_GRAPH_NODES];
  bool emitted[OL_GRAPH_NODES];
  int best; /* cost of choice[node] while it is sought */
  int node;
  int round, count;
  ol_draft *drafts;
} cover;

static const ol_graph_node *node_of(const cover *c, int n) { return &c->plan->graph->node[n]; }

static int input(const cover *c, int n, int i) {
  return ol_plan_strip(c->plan->graph, node_of(c, n)->in[i]);
}

static int inputs(const cover *c, int n) { return ol_rule_op_table[node_of(c, n)->op].inputs; }

/* Whether the pass can read the node and need not compute it. */
static bool is_given(const cover *c, int n) {
  const ol_graph_node *node = node_of(c, n);
  return node->shape == OL_RULE_SCALAR || node->op == OL_RULE_T || node->shape != c->key.shape ||
         ol_plan_array(c->plan, n, c->key.level) >= 0;
}

static void count_uses(cover *c, int n) {
  if (c->uses[n]++ > 0) return;
  c->computed[n] = !is_given(c, n);
  if (!c->computed[n]) return;
  for (int i = 0; i < inputs(c, n); i++) count_uses(c, input(c, n, i));
}

/* number * tensor, or -tensor */
static bool is_scaled(const cover *c, int n) {
  const ol_graph *graph = c->plan->graph;
  int op = graph->node[n].op;
  if (op == OL_RULE_NEG) return true;
  return op == OL_RULE_MUL &&
         (ol_plan_is_scalar(graph, input(c, n, 0)) || ol_plan_is_scalar(graph, input(c, n, 1)));
}

/* Sums, differences, products and comparisons take no longer than to read their result. */
static bool is_quick(ol_rule_op op) {
  return op == OL_RULE_ADD || op == OL_RULE_SUB || op == OL_RULE_MUL ||
         (op >= OL_RULE_LT && op <= OL_RULE_NE);
}

static bool is_light(const cover *c, int n) {
  if (!c->computed[n] || c->root[n] || c->made[n]) return false;
  bool light = c->round < ROUNDS && is_quick((ol_rule_op)node_of(c, n)->op);
  for (int i = 0; light && i < inputs(c, n); i++) {
    int in = input(c, n, i);
    light = !c->computed[in] || c->root[in] || c->light[in] || c->made[in];
  }
  return light || is_scaled(c, n);
}

/* What is light and part of several forms is read by each of them. */
static void share_below(cover *c, int n) {
  if (!c->light[n] || c->uses[n] < 2) return;
  for (int i = 0; i < inputs(c, n); i++) {
    int in = input(c, n, i), uses = c->uses[in] + c->uses[n] - 1;
    c->uses[in] = (int16_t)(uses < INT16_MAX ? uses : INT16_MAX);
  }
}

static int cost_of_reading(const cover *c, int n) {
  if (!c->computed[n]) return READ;
  if (c->uses[n] == 1) return READ + c->cost[n];
  return c->light[n] ? READ + INSTRUCTION / 2 : READ; /* it may need no instruction at all */
}

static void offer(cover *c, const ol_draft *draft, int arrays) {
  int cost = INSTRUCTION;
  for (int i = 0; i < arrays; i++) {
    bool again = false;
    for (int k = 0; k < i; k++) again |= draft->in[k] == draft->in[i];
    if (!again) cost += cost_of_reading(c, draft->in[i]);
  }
  if (cost >= c->best) return;
  c->best = cost;
  c->choice[c->node] = *draft;
}

static ol_draft make_draft(int code, int value) {
  return (ol_draft){
    .code = (uint8_t)code, .value = (int16_t)value, .in = { -1, -1, -1, -1 }, .array = -1
  };
}

static void offer_form(const ol_match *match, void *context) {
  cover *c = context;
  ol_draft draft = make_draft(match->form, c->node);
  for (int i = 0; i < match->arrays; i++) draft.in[i] = match->leaf[i];
  for (int i = 0; i < OL_FORM_NUMBERS; i++) draft.factor[i] = match->factor[i];
  offer(c, &draft, match->arrays);
}

static ol_draft plain(const cover *c, int n) {
  ol_draft draft = make_draft(OL_CODE_OP + node_of(c, n)->op, n);
  for (int i = 0; i < inputs(c, n); i++) draft.in[i] = (int16_t)input(c, n, i);
  return draft;
}

static void choose(cover *c, int n) {
  const ol_draft one = plain(c, n);
  c->node = n;
  c->best = 1 << 30;
  offer(c, &one, inputs(c, n));
  ol_match_forms(c->plan, n, c->open, offer_form, c);
  c->cost[n] = c->best;
}

static void emit(cover *c, int n) {
  if (!c->computed[n] || c->emitted[n]) return;
  c->emitted[n] = true;
  const ol_draft *draft = &c->choice[n];
  for (int i = 0; i < OL_FORM_ARRAYS && draft->in[i] >= 0; i++) emit(c, draft->in[i]);
  c->drafts[c->count++] = *draft;
}

static void cover_pass(cover *c, const ol_root *roots, int count) {
  int nodes = c->plan->graph->nodes;
  memset(c->uses, 0, sizeof c->uses);
  memset(c->emitted, 0, sizeof c->emitted);
  c->count = 0;
  for (int i = 0; i < count; i++) count_uses(c, roots[i].node);
  for (int n = 0; n < nodes; n++) c->light[n] = is_light(c, n);
  for (int n = nodes - 1; n >= 0; n--) share_below(c, n);
  for (int n = 0; n < nodes; n++) {
    if (!c->computed[n]) continue;
    choose(c, n);
    c->open[n] = !c->root[n] && !c->made[n] && (c->uses[n] == 1 || c->light[n]);
  }
  for (int i = 0; i < count; i++) emit(c, roots[i].node);
}

/* Whether an instruction makes what is taken for light by others: notes the last such node, because
 * those before it may then have no other user. */
static bool notes_made(cover *c) {
  int last = -1;
  for (int i = 0; i < c->count; i++) {
    int n = c->drafts[i].value;
    if (n > last && c->light[n] && c->uses[n] > 1) last = n;
  }
  if (last >= 0) c->made[last] = true;
  return last >= 0;
}

int ol_cover(const ol_plan *plan, ol_pass_key key, const ol_root *roots, int count,
             ol_draft drafts[OL_DRAFTS]) {
  cover c = { .plan = plan, .key = key, .drafts = drafts };
  for (int i = 0; i < count; i++) c.root[roots[i].node] = true;
  do cover_pass(&c, roots, count);
  while (notes_made(&c) && c.round++ < ROUNDS);
  return c.count;
}

int ol_cover_plainly(const ol_plan *plan, ol_pass_key key, const ol_root *roots, int count,
                     ol_draft drafts[OL_DRAFTS]) {
  cover c = { .plan = plan, .key = key, .drafts = drafts };
  for (int i = 0; i < count; i++) count_uses(&c, roots[i].node);
  for (int n = 0; n < plan->graph->nodes; n++)
    if (c.computed[n]) c.choice[n] = plain(&c, n);
  for (int i = 0; i < count; i++) emit(&c, roots[i].node);
  return c.count;
}
