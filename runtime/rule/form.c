/* form: the table of forms as expressions in prefix notation. */
#include "rule/form.h"

enum { a = 'a', b, c, d, e, f, g, x = 'x', y, z };
#define ADD(l, r)     OL_EXPR_ADD, l, r
#define MUL(l, r)     OL_EXPR_MUL, l, r
#define DIV(l, r)     OL_EXPR_DIV, l, r
#define MAX(l, r)     OL_EXPR_MAX, l, r
#define SQRT(v)       OL_EXPR_SQRT, v
#define SIGN(v)       OL_EXPR_SIGN, v
#define LERP(l, r, w) OL_EXPR_LERP, l, r, w

const uint8_t ol_form_table[OL_FORM_COUNT][32] = {
#define PREFIX(name, expression) [OL_FORM_##name] = { expression },
  OL_FORMS(PREFIX)
#undef PREFIX
};

int ol_form_inputs(uint8_t symbol) {
  if (symbol >= 'a') return 0;
  if (symbol == OL_EXPR_LERP) return 3;
  return symbol == OL_EXPR_SQRT || symbol == OL_EXPR_SIGN ? 1 : 2;
}

const uint8_t *ol_form_skip(const uint8_t *at) {
  int inputs = ol_form_inputs(*at++);
  for (int i = 0; i < inputs; i++) at = ol_form_skip(at);
  return at;
}
