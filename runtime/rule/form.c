/* form: the table of forms as expressions in prefix notation. */
#include "rule/form.h"

enum { a = 'a', b, c, d, e, f, g, x = 'x', y, z, w };
#define ADD(l, r)         OL_RULE_ADD, l, r
#define MUL(l, r)         OL_RULE_MUL, l, r
#define DIV(l, r)         OL_RULE_DIV, l, r
#define MAX(l, r)         OL_RULE_MAX, l, r
#define MIN(l, r)         OL_RULE_MIN, l, r
#define LT(l, r)          OL_RULE_LT, l, r
#define GT(l, r)          OL_RULE_GT, l, r
#define SQRT(v)           OL_RULE_SQRT, v
#define ABS(v)            OL_RULE_ABS, v
#define SIGN(v)           OL_RULE_SIGN, v
#define LERP(l, r, at)    OL_RULE_LERP, l, r, at
#define CLAMP(v, l, h)    OL_RULE_CLAMP, v, l, h
#define WHERE(v, yes, no) OL_RULE_WHERE, v, yes, no

_Static_assert((int)OL_RULE_OP_COUNT <= (int)a, "operations are not letters");

const uint8_t ol_form_table[OL_FORM_COUNT][32] = {
#define PREFIX(name, expression) [OL_FORM_##name] = { expression },
  OL_FORMS(PREFIX)
#undef PREFIX
};

const uint8_t *ol_form_skip(const uint8_t *at) {
  int inputs = ol_form_inputs(*at++);
  for (int i = 0; i < inputs; i++) at = ol_form_skip(at);
  return at;
}
