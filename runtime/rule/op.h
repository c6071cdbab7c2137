/* op: the operations of update rules, in one table.
 *
 * On tensors every operation rounds once to the type of the program, as written. On numbers (plain
 * ones, and what a reduction over a whole tensor gives) it works in double. A number that meets a
 * tensor is rounded once to the tensor's type.
 *
 * NaN and signed zeros, the same on every machine and as in PyTorch:
 *   min, max   NaN if either is; of equal values (-0 and 0 are equal) the first
 *   clamp      min(max(x, low), high): NaN if any is; high where low > high
 *   sign       0 for NaN and both zeros
 *   lt … ne    1 or 0; every comparison with NaN is 0, except ne
 *   where      second where the first is not 0 (NaN is not 0), else third
 * Which NaN (sign, payload) an operation gives is not specified. */
#ifndef OL_RULE_OP_H
#define OL_RULE_OP_H

#include <stdbool.h>

/* X(ENUM, name, inputs, arguments as Lua writes them, what it computes): leaves, elementwise
 * operations, reductions, products of matrices, and fill, which stores imply. */
#define OL_RULE_OPS(X)                                                                             \
  X(OPERAND, "operand", 0, "", "an array: parameter, gradient or state")                           \
  X(NUMBER, "number", 0, "", "a plain number")                                                     \
  X(ADD, "add", 2, "x, y", "x + y")                                                                \
  X(SUB, "sub", 2, "x, y", "x - y")                                                                \
  X(MUL, "mul", 2, "x, y", "x * y")                                                                \
  X(DIV, "div", 2, "x, y", "x / y")                                                                \
  X(POW, "pow", 2, "x, y", "x ^ y; exact products and roots for the numbers 2, 3, 0.5, -0.5, -1")  \
  X(NEG, "neg", 1, "x", "-x")                                                                      \
  X(SQRT, "sqrt", 1, "x", "square root")                                                           \
  X(RSQRT, "rsqrt", 1, "x", "1 / sqrt(x), rounded twice")                                          \
  X(ABS, "abs", 1, "x", "absolute value")                                                          \
  X(SIGN, "sign", 1, "x", "-1, 0 or 1")                                                            \
  X(EXP, "exp", 1, "x", "e ^ x")                                                                   \
  X(LOG, "log", 1, "x", "natural logarithm")                                                       \
  X(TANH, "tanh", 1, "x", "hyperbolic tangent")                                                    \
  X(MIN, "min", 2, "x, y", "the smaller of x and y")                                               \
  X(MAX, "max", 2, "x, y", "the larger of x and y")                                                \
  X(LT, "lt", 2, "x, y", "1 where x < y, else 0")                                                  \
  X(LE, "le", 2, "x, y", "1 where x <= y, else 0")                                                 \
  X(GT, "gt", 2, "x, y", "1 where x > y, else 0")                                                  \
  X(GE, "ge", 2, "x, y", "1 where x >= y, else 0")                                                 \
  X(EQ, "eq", 2, "x, y", "1 where x == y, else 0")                                                 \
  X(NE, "ne", 2, "x, y", "1 where x ~= y, else 0")                                                 \
  X(CLAMP, "clamp", 3, "x, low, high", "x kept between low and high")                              \
  X(LERP, "lerp", 3, "x, y, w",                                                                    \
    "x + w * (y - x); from w = 0.5 on y - (y - x) * (1 - w): exact at 1")                          \
  X(WHERE, "where", 3, "x, y, z", "y where x is not 0, else z")                                    \
  X(SUM, "sum", 1, "x, [dim]",                                                                     \
    "the sum over the tensor, or over a dimension that is kept with size 1")                       \
  X(MEAN, "mean", 1, "x, [dim]",                                                                   \
    "the mean over the tensor, or over a dimension that is kept with size 1")                      \
  X(NORM, "norm", 1, "x, [dim]",                                                                   \
    "the square root of the sum of squares "                                                       \
    "over the tensor, or over a dimension that is kept with size 1")                               \
  X(AMAX, "amax", 1, "x, [dim]",                                                                   \
    "the largest element over the tensor, or over a dimension that is kept with size 1; "          \
    "NaN if there is one")                                                                         \
  X(AMIN, "amin", 1, "x, [dim]",                                                                   \
    "the smallest element over the tensor, or over a dimension that is kept with size 1")          \
  X(MATMUL, "matmul", 2, "x, y", "the product of two matrices")                                    \
  X(T, "t", 1, "x", "a matrix, transposed")                                                        \
  X(FILL, "fill", 1, "x", "x spread over the shape of the operand that it is assigned to")

typedef enum ol_rule_op {
#define OL_RULE_ENUM(op, name, inputs, arguments, doc) OL_RULE_##op,
  OL_RULE_OPS(OL_RULE_ENUM)
#undef OL_RULE_ENUM
      OL_RULE_OP_COUNT
} ol_rule_op;

typedef struct ol_rule_op_info {
  const char *name;
  int inputs;
  const char *arguments;
  const char *doc;
} ol_rule_op_info;

/* The table, by ol_rule_op. */
extern const ol_rule_op_info ol_rule_op_table[OL_RULE_OP_COUNT];

static inline bool ol_rule_op_is_elementwise(ol_rule_op op) {
  return op >= OL_RULE_ADD && op <= OL_RULE_WHERE;
}

static inline bool ol_rule_op_is_reduction(ol_rule_op op) {
  return op >= OL_RULE_SUM && op <= OL_RULE_AMIN;
}

/* An elementwise operation on plain numbers, in double: what symbols would give. */
double ol_rule_op_number(ol_rule_op op, const double *inputs);

#endif
