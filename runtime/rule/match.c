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

enum { GOALS = 16 };

typedef struct matcher {
  const ol_plan *plan;
  const bool *open;
  int root;
  ol_match_fn *fn;
  void *context;
} matcher;

typedef struct attempt {
  ol_match match;
  int goals;
  goal goal[GOALS];
} attempt;

static void solve(const matcher *m, const attempt *from);

static void push(attempt *t, const uint8_t *at, int node, int sign) {
  t->goal[t->goals++] = (goal){ at, node, sign };
}

static void bind(attempt *t, uint8_t letter, int source, int sign) {
  t->match.factor[letter - 'a'] = (ol_factor){ (int16_t)source, (int16_t)sign };
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

/* letter * right */
static void solve_scaled(const matcher *m, const attempt *from, goal want) {
  uint8_t letter = want.at[1];
  const uint8_t *right = want.at + 2;
  if (opens(m, want.node, OL_RULE_MUL))
    for (int i = 0; i < 2; i++) {
      int number = input(m, want.node, i), other = input(m, want.node, 1 - i);
      if (!is_scalar(m, number)) continue;
      attempt t = *from;
      bind(&t, letter, m->plan->number[number], want.sign);
      push(&t, right, other, 1);
      solve(m, &t);
    }
  if (opens(m, want.node, OL_RULE_NEG)) {
    attempt t = *from;
    push(&t, want.at, input(m, want.node, 0), -want.sign);
    solve(m, &t);
  }
  attempt t = *from;
  bind(&t, letter, OL_FACTOR_ONE, want.sign);
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
      attempt t = *from;
      bind(&t, letter, m->plan->number[number], minus && i == 1 ? -1 : 1);
      push(&t, left, other, minus && i == 0 ? -1 : 1);
      solve(m, &t);
    }
  attempt t = *from;
  bind(&t, letter, OL_FACTOR_NOTHING, 1);
  push(&t, left, want.node, want.sign);
  solve(m, &t);
}

/* left + right, both ways round */
static void solve_sum(const matcher *m, const attempt *from, goal want) {
  const uint8_t *left = want.at + 1, *right = ol_form_skip(left);
  bool minus = opens(m, want.node, OL_RULE_SUB);
  if (want.sign < 0 || !(minus || opens(m, want.node, OL_RULE_ADD))) return;
  for (int i = 0; i < 2; i++) { /* left is input i */
    attempt t = *from;
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
    attempt t = *from;
    push(&t, left, input(m, want.node, i), want.sign);
    push(&t, right, input(m, want.node, 1 - i), 1);
    solve(m, &t);
  }
}

/* left / right, or left / letter */
static void solve_quotient(const matcher *m, const attempt *from, goal want) {
  const uint8_t *left = want.at + 1, *right = ol_form_skip(left);
  bool open = opens(m, want.node, OL_RULE_DIV), number = ol_form_is_number(*right);
  int divisor = open ? input(m, want.node, 1) : -1;
  if (open && number == is_scalar(m, divisor)) {
    attempt t = *from;
    if (number)
      bind(&t, *right, m->plan->number[divisor], 1);
    else
      push(&t, right, divisor, 1);
    push(&t, left, input(m, want.node, 0), want.sign);
    solve(m, &t);
  }
  if (!number) return;
  attempt t = *from;
  bind(&t, *right, OL_FACTOR_ONE, 1);
  push(&t, left, want.node, want.sign);
  solve(m, &t);
}

/* max(left, letter), lerp(x, y, letter) */
static void solve_bounded(const matcher *m, const attempt *from, goal want, ol_rule_op op) {
  int last = op == OL_RULE_LERP ? 2 : 1;
  if (want.sign < 0 || !opens(m, want.node, op)) return;
  int number = input(m, want.node, last);
  if (!is_scalar(m, number)) return;
  attempt t = *from;
  const uint8_t *at = want.at + 1;
  for (int i = 0; i < last; i++, at = ol_form_skip(at)) push(&t, at, input(m, want.node, i), 1);
  bind(&t, *at, m->plan->number[number], 1);
  solve(m, &t);
}

/* sqrt(value), sign(value) */
static void solve_unary(const matcher *m, const attempt *from, goal want, ol_rule_op op) {
  if (want.sign < 0 || !opens(m, want.node, op)) return;
  attempt t = *from;
  push(&t, want.at + 1, input(m, want.node, 0), 1);
  solve(m, &t);
}

static void solve_array(const matcher *m, const attempt *from, goal want) {
  if (want.sign < 0 || want.node == m->root) return;
  attempt t = *from;
  t.match.leaf[*want.at - 'x'] = (int16_t)want.node;
  t.match.arrays++;
  solve(m, &t);
}

static void solve(const matcher *m, const attempt *from) {
  if (from->goals == 0) {
    m->fn(&from->match, m->context);
    return;
  }
  attempt rest = *from;
  goal want = rest.goal[--rest.goals];
  switch (*want.at) {
  case OL_EXPR_ADD:
    if (ol_form_is_number(*ol_form_skip(want.at + 1)))
      solve_shifted(m, &rest, want);
    else
      solve_sum(m, &rest, want);
    break;
  case OL_EXPR_MUL:
    if (ol_form_is_number(want.at[1]))
      solve_scaled(m, &rest, want);
    else
      solve_product(m, &rest, want);
    break;
  case OL_EXPR_DIV: solve_quotient(m, &rest, want); break;
  case OL_EXPR_MAX: solve_bounded(m, &rest, want, OL_RULE_MAX); break;
  case OL_EXPR_LERP: solve_bounded(m, &rest, want, OL_RULE_LERP); break;
  case OL_EXPR_SQRT: solve_unary(m, &rest, want, OL_RULE_SQRT); break;
  case OL_EXPR_SIGN: solve_unary(m, &rest, want, OL_RULE_SIGN); break;
  default: solve_array(m, &rest, want);
  }
}

void ol_match_forms(const ol_plan *plan, int node, const bool *open, ol_match_fn *fn,
                    void *context) {
  matcher m = { .plan = plan, .open = open, .root = node, .fn = fn, .context = context };
  for (int form = 0; form < OL_FORM_COUNT; form++) {
    attempt t = { .match = { .form = form } };
    for (int i = 0; i < OL_FORM_NUMBERS; i++) t.match.factor[i] = (ol_factor){ OL_FACTOR_ONE, 1 };
    push(&t, ol_form_table[form], node, 1);
    solve(&m, &t);
  }
}
