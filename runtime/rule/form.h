/* form: the fused instructions, in one table.
 *
 * X(NAME, expression): a … g are numbers, x y z arrays. The compiler matches the expression against
 * the graph, the machine computes it, one element after the other, as written. A number that a
 * rule does not have is 1 as a factor or divisor and -0.0 as a summand, which change no bits, so
 * that one form serves every spelling. What the forms do not cover is done by plain instructions,
 * one for each operation. */
#ifndef OL_RULE_FORM_H
#define OL_RULE_FORM_H

#include <stdbool.h>
#include <stdint.h>

#define OL_FORMS(X)                                                                                \
  X(AFFINE, ADD(MUL(a, x), b))                                                                     \
  X(BLEND, ADD(MUL(a, x), MUL(b, y)))                                                              \
  X(LERP, LERP(x, y, a))                                                                           \
  X(PRODUCT, ADD(MUL(a, x), MUL(b, MUL(MUL(c, y), z))))                                            \
  X(PRODUCT_ABOVE, ADD(ADD(MUL(a, x), MUL(b, MUL(MUL(c, y), z))), d))                              \
  X(QUOTIENT, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), z))))                                           \
  X(NESTEROV, ADD(MUL(a, x), MUL(b, ADD(MUL(c, y), MUL(d, z)))))                                   \
  X(LION, ADD(MUL(a, x), MUL(b, SIGN(ADD(MUL(c, y), MUL(d, z))))))                                 \
  X(ADAM, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), ADD(MUL(d, SQRT(ADD(MUL(e, z), f))), g)))))         \
  X(ADAMW, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), ADD(DIV(SQRT(z), d), e)))))                        \
  X(ADAM_HAT, ADD(MUL(a, x), MUL(b, DIV(MUL(c, DIV(y, d)), ADD(SQRT(DIV(z, e)), f)))))             \
  X(ROOT, ADD(MUL(a, SQRT(ADD(MUL(b, x), c))), d))                                                 \
  X(RATIO, MUL(a, MUL(DIV(SQRT(ADD(MUL(b, x), c)), SQRT(ADD(MUL(d, y), e))), z)))                  \
  X(RATIO_ROOT, MUL(a, MUL(SQRT(DIV(ADD(MUL(b, x), c), ADD(MUL(d, y), e))), z)))                   \
  X(DEVIATION, ADD(MUL(a, SQRT(MAX(ADD(MUL(b, x), MUL(c, MUL(y, z))), d))), e))

enum { OL_FORM_NUMBERS = 7, OL_FORM_ARRAYS = 3 };

enum ol_form {
#define OL_FORM_ENUM(name, expression) OL_FORM_##name,
  OL_FORMS(OL_FORM_ENUM)
#undef OL_FORM_ENUM
      OL_FORM_COUNT
};

/* The expressions in prefix notation: symbols below 'a' are operations with their inputs behind
 * them, 'a' … 'g' numbers, 'x' … 'z' arrays. A number is the first input of a product, the last of
 * anything else. */
enum ol_form_expression {
  OL_EXPR_ADD = 1,
  OL_EXPR_MUL,
  OL_EXPR_DIV,
  OL_EXPR_MAX,
  OL_EXPR_SQRT,
  OL_EXPR_SIGN,
  OL_EXPR_LERP,
};

extern const uint8_t ol_form_table[OL_FORM_COUNT][32];

static inline bool ol_form_is_number(uint8_t symbol) { return symbol >= 'a' && symbol <= 'g'; }
static inline bool ol_form_is_array(uint8_t symbol) { return symbol >= 'x'; }

/* How many inputs a symbol has. */
int ol_form_inputs(uint8_t symbol);

/* The end of the expression that begins at `at`. */
const uint8_t *ol_form_skip(const uint8_t *at);

#endif
