/* match: backtracking over the table of forms.
 *
 * Only exact rewritings are used: + and * commute; a-b is a+(-1)*b; a sign moves through products
 * and quotients into a number; absent numbers are 1 or -0.0. A sign never moves through a sum:
 * x+(-x) is +0 either way. */
#include "rule/match.h"

/* What remains to be shown: that sign * node is the expression at `at`. */
typedef struct goal {
  const uint8_t *at;
  int node, sign;
} goal;

enum { GOALS = 8 }; /* no more than the places of arrays in a form */

typedef struct matcher {
  const ol_plan *plan;
  const bool *open;
  int root;
  ol_match_fn *fn;
  void *context;
} matcher;

typedef struct attempt {
  ol_match match;
  uint8_t bound; /* letters that stand for a number already, a bit each */
  int goals;
  goal goal[GOALS];
} attempt;

static void solve(const matcher *m, const attempt *from);

/* A copy that has its last goal behind it. */
static attempt next(const attempt *from) {
  attempt t = *from;
  t.goals--;
  return t;
}

static void push(attempt *t, const uint8_t *at, int node, int sign) {
  t->goal[t->goals++] = (goal){ at, node, sign };
}

/* Whether a letter may stand for a number: it does not stand for another one. */
static bool bind(attempt *t, uint8_t letter, int source, int sign) {
  ol_factor *factor = &t->match.factor[letter - 'a'];
  const int bit = 1 << (letter - 'a');
  if (t->bound & bit) return factor->source == source && factor->sign == sign;
  *factor = (ol_factor){ (int16_t)source, (int16_t)sign };
  t->bound = (uint8_t)(t->bound | bit);
  return true;
}

static const ol_graph_node *node_at(const matcher *m, int node) {
  return &m->plan->graph->node[node];
}

static int input(const matcher *m, int node, int i) {
  return ol_plan_strip(m->plan->graph, node_at(m, node)->in[i]);
}

static bool is_scalar(const matcher *m, int node) {
  return ol_plan_is_scalar(m->plan->graph, node);
}

/* Whether the form may look into a node of this operation. */
static bool opens(const matcher *m, int node, ol_rule_op op) {
  return node_at(m, node)->op == op && (node == m->root || m->open[node]);
}

/* Takes the signs off a node that the form may look into; gives their product. */
static int unsigned_input(const matcher *m, int *node) {
  int sign = 1;
  for (; opens(m, *node, OL_RULE_NEG); sign = -sign) *node = input(m, *node, 0);
  return sign;
}

/* Whether the node can be the expression at `at`, a number or more; then it remains to be shown. */
static bool push_input(const matcher *m, attempt *t, const uint8_t *at, int node) {
  if (ol_form_is_number(*at)) return is_scalar(m, node) && bind(t, *at, m->plan->number[node], 1);
  push(t, at, node, 1);
  return true;
}

/* letter * right */
static void solve_scaled(const matcher *m, const attempt *from, goal want) {
  uint8_t letter = want.at[1];
  const uint8_t *right = want.at + 2;
  if (opens(m, want.node, OL_RULE_MUL))
    for (int i = 0; i < 2; i++) {
      int number = input(m, want.node, i), other = input(m, want.node, 1 - i);
      if (!is_scalar(m, number)) continue;
      attempt t = next(from);
      int sign = want.sign * unsigned_input(m, &other);
      if (!bind(&t, letter, m->plan->number[number], sign)) continue;
      push(&t, right, other, 1);
      solve(m, &t);
    }
  if (opens(m, want.node, OL_RULE_NEG)) {
    attempt t = next(from);
    push(&t, want.at, input(m, want.node, 0), -want.sign);
    solve(m, &t);
  }
  attempt t = next(from);
  if (!bind(&t, letter, OL_FACTOR_ONE, want.sign)) return;
  push(&t, right, want.node, 1);
  solve(m, &t);
}

/* left + letter */
static void solve_shifted(const matcher *m, const attempt *from, goal want) {
  const uint8_t *left = want.at + 1;
  uint8_t letter = *ol_form_skip(left);
  bool minus = opens(m, want.node, OL_RULE_SUB);
  if (want.sign > 0 && (minus || opens(m, want.node, OL_RULE_ADD)))
    for (int i = 0; i < 2; i++) { /* the number is input i */
      int number = input(m, want.node, i), other = input(m, want.node, 1 - i);
      if (!is_scalar(m, number)) continue;
      attempt t = next(from);
      if (!bind(&t, letter, m->plan->number[number], minus && i == 1 ? -1 : 1)) continue;
      push(&t, left, other, minus && i == 0 ? -1 : 1);
      solve(m, &t);
    }
  attempt t = next(from);
  if (!bind(&t, letter, OL_FACTOR_NOTHING, 1)) return;
  push(&t, left, want.node, want.sign);
  solve(m, &t);
}

/* left + right, both ways round */
static void solve_sum(const matcher *m, const attempt *from, goal want) {
  const uint8_t *left = want.at + 1, *right = ol_form_skip(left);
  bool minus = opens(m, want.node, OL_RULE_SUB);
  if (want.sign < 0 || !(minus || opens(m, want.node, OL_RULE_ADD))) return;
  for (int i = 0; i < 2; i++) { /* left is input i */
    attempt t = next(from);
    push(&t, left, input(m, want.node, i), minus && i == 1 ? -1 : 1);
    push(&t, right, input(m, want.node, 1 - i), minus && i == 0 ? -1 : 1);
    solve(m, &t);
  }
}

/* left * right, both tensors, both ways round */
static void solve_product(const matcher *m, const attempt *from, goal want) {
  const uint8_t *left = want.at + 1, *right = ol_form_skip(left);
  if (!opens(m, want.node, OL_RULE_MUL)) return;
  for (int i = 0; i < 2; i++) {
    attempt t = next(from);
    int other = input(m, want.node, 1 - i), sign = want.sign * unsigned_input(m, &other);
    push(&t, left, input(m, want.node, i), sign);
    push(&t, right, other, 1);
    solve(m, &t);
  }
}

/* left / right, or left / letter */
static void solve_quotient(const matcher *m, const attempt *from, goal want) {
  const uint8_t *left = want.at + 1, *right = ol_form_skip(left);
  bool open = opens(m, want.node, OL_RULE_DIV), number = ol_form_is_number(*right);
  int divisor = open ? input(m, want.node, 1) : -1;
  if (open) {
    attempt t = next(from);
    if (push_input(m, &t, right, divisor)) {
      push(&t, left, input(m, want.node, 0), want.sign);
      solve(m, &t);
    }
  }
  if (!number) return;
  attempt t = next(from);
  if (!bind(&t, *right, OL_FACTOR_ONE, 1)) return;
  push(&t, left, want.node, want.sign);
  solve(m, &t);
}

/* Any other operation: its inputs in order, each an expression or a letter. */
static void solve_operation(const matcher *m, const attempt *from, goal want) {
  if (want.sign < 0 || !opens(m, want.node, (ol_rule_op)*want.at)) return;
  attempt t = next(from);
  const uint8_t *at = want.at + 1;
  for (int i = 0; i < ol_form_inputs(*want.at); i++, at = ol_form_skip(at))
    if (!push_input(m, &t, at, input(m, want.node, i))) return;
  solve(m, &t);
}

static void solve_array(const matcher *m, const attempt *from, goal want) {
  if (want.sign < 0 || want.node == m->root) return;
  attempt t = next(from);
  int16_t *leaf = &t.match.leaf[*want.at - 'x'];
  if (*leaf >= 0 && *leaf != want.node) return;
  t.match.arrays += *leaf < 0;
  *leaf = (int16_t)want.node;
  solve(m, &t);
}

static void solve(const matcher *m, const attempt *from) {
  if (from->goals == 0) {
    m->fn(&from->match, m->context);
    return;
  }
  goal want = from->goal[from->goals - 1];
  if (ol_form_is_array(*want.at)) {
    solve_array(m, from, want);
    return;
  }
  switch (*want.at) {
  case OL_RULE_ADD:
    if (ol_form_is_number(*ol_form_skip(want.at + 1)))
      solve_shifted(m, from, want);
    else
      solve_sum(m, from, want);
    break;
  case OL_RULE_MUL:
    if (ol_form_is_number(want.at[1]))
      solve_scaled(m, from, want);
    else
      solve_product(m, from, want);
    break;
  case OL_RULE_DIV: solve_quotient(m, from, want); break;
  default: solve_operation(m, from, want);
  }
}

void ol_match_forms(const ol_plan *plan, int node, const bool *open, ol_match_fn *fn,
                    void *context) {
  matcher m = { .plan = plan, .open = open, .root = node, .fn = fn, .context = context };
  for (int form = 0; form < OL_FORM_COUNT; form++) {
    attempt t = { .match = { .form = form } };
    for (int i = 0; i < OL_FORM_ARRAYS; i++) t.match.leaf[i] = -1;
    for (int i = 0; i < OL_FORM_NUMBERS; i++) t.match.factor[i] = (ol_factor){ OL_FACTOR_ONE, 1 };
    push(&t, ol_form_table[form], node, 1);
    solve(&m, &t);
  }
}
