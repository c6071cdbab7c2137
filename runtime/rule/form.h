/* form: the fused instructions, in one table.
 *
 * X(NAME, expression): a … g are numbers, x y z arrays. The compiler matches the expression against
 * the graph, the machine computes it, one element after the other, as written. A number that a
 * rule does not have is 1 as a factor or divisor and -0.0 as a summand, which change no bits, so
 * that one form serves every spelling. What the forms do not cover is done by plain instructions,
 * one for each operation. */
#ifndef OL_RULE_FORM_H
#define OL_RULE_FORM_H

#define OL_FORMS(X)                                                                                \
  X(AFFINE, ADD(MUL(a, x), b))                                                                     \
  X(BLEND, ADD(MUL(a, x), MUL(b, y)))                                                              \
  X(LERP, LERP(x, y, a))                                                                           \
  X(PRODUCT, ADD(MUL(a, x), MUL(b, MUL(MUL(c, y), z))))                                            \
  X(QUOTIENT, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), z))))                                           \
  X(NESTEROV, ADD(MUL(a, x), MUL(b, ADD(MUL(c, y), MUL(d, z)))))                                   \
  X(LION, ADD(MUL(a, x), MUL(b, SIGN(ADD(MUL(c, y), MUL(d, z))))))                                 \
  X(ADAM, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), ADD(MUL(d, SQRT(ADD(MUL(e, z), f))), g)))))         \
  X(ADAMW, ADD(MUL(a, x), MUL(b, DIV(MUL(c, y), ADD(DIV(SQRT(z), d), e)))))                        \
  X(ROOT, ADD(MUL(a, SQRT(ADD(MUL(b, x), c))), d))                                                 \
  X(RATIO, MUL(a, MUL(DIV(SQRT(ADD(MUL(b, x), c)), SQRT(ADD(MUL(d, y), e))), z)))                  \
  X(DEVIATION, ADD(MUL(a, SQRT(MAX(ADD(MUL(b, x), MUL(c, MUL(y, z))), d))), e))

enum { OL_FORM_NUMBERS = 7, OL_FORM_ARRAYS = 3 };

#endif
