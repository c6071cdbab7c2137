/* unary: what the families of ops of one tensor share: macros that write their descriptors. */
#ifndef OL_OPS_UNARY_H
#define OL_OPS_UNARY_H

#include "ops/families.h"
#include "ops/pointwise.h"

/* y = log(1 + exp(x)), for x that are not large. */
static inline void ol_log1p_exp_f32(int64_t count, const float *x, float *y) {
  ol_vexp_f32(count, x, y);
  ol_vlog1p_f32(count, y, y);
}

static inline void ol_log1p_exp_f64(int64_t count, const double *x, double *y) {
  ol_vexp_f64(count, x, y);
  ol_vlog1p_f64(count, y, y);
}

#define OL_MINUS(x)     (-(x))
#define OL_MINUS_ABS(x) (-fabs(x))

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

/* The numbers that follow self among the parameters, as scalars of rows. */
static inline void ol_read_numbers(const ol_op *op, const ol_value *arg, double s[OL_SCALARS]) {
  for (int p = 1; op->param[p].name; p++) s[p - 1] = arg[p].number;
}

/* name_forward and name_backward of an op of a tensor and numbers, which are the scalars of the
 * rows name_rows of x and name_slope of (grad_out, x). */
#define OL_WITH_NUMBERS(name) OL_WITH_CHECKED_NUMBERS(name, ol_any_numbers)

static inline ol_status ol_any_numbers(ol_error *error, const double s[OL_SCALARS]) {
  (void)error;
  (void)s;
  return OL_OK;
}

/* The same of numbers that check(error, s) passes. */
#define OL_WITH_CHECKED_NUMBERS(name, check)                                                       \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    double s[OL_SCALARS] = { 0 };                                                                  \
    ol_read_numbers(call->op, call->arg, s);                                                       \
    OL_TRY(check(error, s));                                                                       \
    OL_TRY(ol_keep_first(error, call, true));                                                      \
    return ol_map_call(error, call, &name##_rows, 1, s);                                           \
  }                                                                                                \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    double s[OL_SCALARS] = { 0 };                                                                  \
    ol_tensor *x[] = { back->grad_out[0], ol_first(back) };                                        \
    ol_read_numbers(back->op, back->arg, s);                                                       \
    return ol_map(error, #name, &name##_slope, 2, x, s, &back->grad[0]);                           \
  }

/* A number among the parameters. */
#define OL_SETTING(word, value, sentence)                                                          \
  { word, OL_NUMBER, .optional = true, .preset = value, .doc = sentence }

#define OL_NUMBERED_SAMPLES(given)                                                                 \
  "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() }, { t(3, 4):mul(3), " given " } }"

/* The descriptor of such an op n; `given` are numbers for a sample, as text; settings follow. */
#define OL_NUMBERED_OP(n, sentence, given, input, output, ...)                                     \
  { .name = #n,                                                                                    \
    .doc = sentence,                                                                               \
    .example = "print(optlua.tensor({ " input " }):" #n "()) --> tensor([" output "])",            \
    .samples = OL_NUMBERED_SAMPLES(given),                                                         \
    .saves = OL_SAVE_ARG(0),                                                                       \
    .param = { { "self", OL_TENSOR }, __VA_ARGS__ },                                               \
    OL_FUNCTIONS(n) }

/* The same and its form in place, n_, which keeps a copy of what it overwrites for backward. */
#define OL_NUMBERED_OPS(n, sentence, given, input, output, ...)                                    \
  OL_NUMBERED_OP(n, sentence, given, input, output, __VA_ARGS__), {                                \
    .name = #n "_", .doc = #n ", in place.",                                                       \
    .example = "print(optlua.tensor({ " input " }):" #n "_()) --> tensor([" output "])",           \
    .samples = OL_NUMBERED_SAMPLES(given), .flags = OL_OP_INPLACE,                                 \
    .param = { { "self", OL_TENSOR }, __VA_ARGS__ }, OL_FUNCTIONS(n)                               \
  }

#define OL_ARGUMENT_SAVED OL_SAVE_ARG(0)
#define OL_RESULT_SAVED   OL_SAVE_OUT(0)
#define OL_NOTHING_SAVED  0

#endif
