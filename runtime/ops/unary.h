/* unary: what the families of ops of one tensor share: macros that write their descriptors. */
#ifndef OL_OPS_UNARY_H
#define OL_OPS_UNARY_H

#include "ops/families.h"
#include "ops/pointwise.h"

#define OL_SELF         .param = { { "self", OL_TENSOR } }
#define OL_FUNCTIONS(n) .forward = n##_forward, .backward = n##_backward

/* Samples of any numbers, of positive ones, and of numbers between -1 and 1. */
#define OL_SAMPLES_OF(f)                                                                           \
  "{ { " f "(3, 4) }, { " f "() }, { " f "(0, 3) }, { " f "(4, 3):t() },"                          \
  "  { " f "(1, 3):expand(4, 3) } }"
#define OL_SAMPLES_IN_PLACE(f)                                                                     \
  "{ { " f "(3, 4) }, { " f "() }, { " f "(0, 3) }, { " f "(4, 3):t() } }"

/* The descriptor of op `n`, whose functions are n_forward and n_backward; f makes its samples; what
 * backward reads. The example is applied to { a, b … } and gives the output. */
#define OL_UNARY_OP(n, sentence, f, saved, input, output)                                          \
  { .name = #n,                                                                                    \
    .doc = sentence,                                                                               \
    .example = "print(optlua.tensor({ " input " }):" #n "()) --> tensor([" output "])",            \
    .samples = OL_SAMPLES_OF(f),                                                                   \
    .saves = saved,                                                                                \
    OL_SELF,                                                                                       \
    OL_FUNCTIONS(n) }

/* Its form in place: n_. What backward reads of the argument is kept by the forward function. */
#define OL_UNARY_OP_IN_PLACE(n, f, saved, input, output)                                           \
  { .name = #n "_",                                                                                \
    .doc = #n ", in place.",                                                                       \
    .example = "print(optlua.tensor({ " input " }):" #n "_()) --> tensor([" output "])",           \
    .samples = OL_SAMPLES_IN_PLACE(f),                                                             \
    .saves = (saved) & ~OL_SAVE_ARG(0),                                                            \
    .flags = OL_OP_INPLACE,                                                                        \
    OL_SELF,                                                                                       \
    OL_FUNCTIONS(n) }

/* Both. */
#define OL_UNARY_OPS(n, sentence, f, saved, input, output)                                         \
  OL_UNARY_OP(n, sentence, f, saved, input, output),                                               \
      OL_UNARY_OP_IN_PLACE(n, f, saved, input, output)

#define OL_ARGUMENT_SAVED OL_SAVE_ARG(0)
#define OL_RESULT_SAVED   OL_SAVE_OUT(0)
#define OL_NOTHING_SAVED  0

#endif
