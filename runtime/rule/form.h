/* form: the fused instructions, in one table.
 *
 * X(NAME, expression): a … g are numbers, x y z w arrays. The compiler matches the expression
 * against the graph, the machine computes it, one element after the other, as written. A number
 * that a rule does not have is 1 as a factor or divisor and -0.0 as a summand, which change no
 * bits, so that one form serves every spelling. What the forms do not cover is done by plain
 * instructions, one for each operation. */
#ifndef OL_RULE_FORM_H
#define OL_RULE_FORM_H

#include <stdint.h>

#include "rule/op.h"

#define OL_FORMS(X)                                                                                \
  X(AFFINE, ADD(MUL(a, x), b))                                                                     \
  X(BLEND, ADD(MUL(a, x), MUL(b, y)))                                                              \
  X(LERP, LERP(x, y, a))                                                                           \
  X(LERP_STEP, ADD(MUL(a, LERP(x, y, b)), MUL(c, z)))                                              \
  X(PRODUCT, ADD(MUL(a, x), MUL(b, MUL(MUL(c, y), z))))                                            \
  X(QUOTIENT, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), z))))                                           \
  X(NESTEROV, ADD(MUL(a, x), MUL(b, ADD(MUL(c, y), MUL(d, z)))))                                   \
  X(LION, ADD(MUL(a, x), MUL(b, SIGN(ADD(MUL(c, y), MUL(d, z))))))                                 \
  X(SIGN_STEP, ADD(MUL(a, x), MUL(b, MUL(SIGN(MUL(c, y)), z))))                                    \
  X(ADAM, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), ADD(MUL(d, SQRT(ADD(MUL(e, z), f))), g)))))         \
  X(ADAMW, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), ADD(DIV(SQRT(z), d), e)))))                        \
  X(ADAM_HAT, ADD(MUL(a, x), MUL(b, DIV(MUL(c, DIV(y, d)), ADD(SQRT(DIV(z, e)), f)))))             \
  X(ADAM_BLEND, ADD(MUL(a, x), MUL(b, DIV(ADD(MUL(c, y), MUL(d, z)), ADD(MUL(e, SQRT(w)), f)))))   \
  X(DIRECTION, MUL(a, DIV(MUL(b, x), ADD(MUL(c, SQRT(ADD(MUL(d, y), e))), f))))                    \
  X(BELIEF,                                                                                        \
    ADD(ADD(MUL(a, x), MUL(b, MUL(MUL(c, ADD(MUL(d, y), MUL(e, z))), ADD(MUL(d, y), MUL(e, z))))), \
        f))                                                                                        \
  X(ADAMAX, MAX(MUL(a, x), ADD(MUL(b, ABS(y)), c)))                                                \
  X(RPROP_SIZE, CLAMP(MUL(z, WHERE(LT(MUL(x, y), a), b, WHERE(GT(MUL(x, y), c), d, e))), f, g))    \
  X(RPROP_GRADIENT, WHERE(LT(MUL(x, y), a), b, z))                                                 \
  X(CAPPED, MUL(x, MIN(MUL(y, z), a)))                                                             \
  X(DISTANCE, MUL(MUL(a, x), ADD(MUL(b, y), MUL(c, z))))                                           \
  X(ROOT, ADD(MUL(a, SQRT(ADD(MUL(b, x), c))), d))                                                 \
  X(RATIO, MUL(a, MUL(DIV(SQRT(ADD(MUL(b, x), c)), SQRT(ADD(MUL(d, y), e))), z)))                  \
  X(RATIO_ROOT, MUL(a, MUL(SQRT(DIV(ADD(MUL(b, x), c), ADD(MUL(d, y), e))), z)))                   \
  X(DEVIATION, ADD(MUL(a, SQRT(MAX(ADD(MUL(b, x), MUL(c, MUL(y, z))), d))), e))

enum { OL_FORM_NUMBERS = 7, OL_FORM_ARRAYS = 4 };

enum ol_form {
#define OL_FORM_ENUM(name, expression) OL_FORM_##name,
  OL_FORMS(OL_FORM_ENUM)
#undef OL_FORM_ENUM
      OL_FORM_COUNT
};

/* The expressions in prefix notation: symbols below 'a' are operations (ol_rule_op) with their
 * inputs behind them, 'a' … 'g' numbers, 'x' … arrays. A number is the first input of a product,
 * the last of a sum. A letter stands for the same wherever it stands. */

extern const uint8_t ol_form_table[OL_FORM_COUNT][32];

static inline bool ol_form_is_number(uint8_t symbol) { return symbol >= 'a' && symbol <= 'g'; }
static inline bool ol_form_is_array(uint8_t symbol) { return symbol >= 'x'; }

/* How many inputs a symbol has. */
static inline int ol_form_inputs(uint8_t symbol) {
  return symbol < 'a' ? ol_rule_op_table[symbol].inputs : 0;
}

/* The end of the expression that begins at `at`. */
const uint8_t *ol_form_skip(const uint8_t *at);

#endif
