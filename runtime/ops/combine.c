/* combine: sums of products and quotients of three tensors; moving between two tensors. */
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"

/* From the nearer end, so that both ends are met exactly. */
#define LERP(x, y, w)        ((w) < (T)0.5 ? (x) + (w) * ((y) - (x)) : (y) - ((y) - (x)) * (1 - (w)))
#define LERP_SELF(g, w)      ((g) * (1 - (w)))
#define LERP_WEIGHT(g, x, y) ((g) * ((y) - (x)))
OL_FLOATS(lerp, 3, LERP)
OL_FLOATS(lerp_self, 2, LERP_SELF)
OL_FLOATS(lerp_weight, 3, LERP_WEIGHT)

#define ADDCMUL(x, a, b)     ((x) + s[0] * (a) * (b))
#define ADDCMUL_INT(x, a, b) ((uint64_t)(x) + (uint64_t)s[0] * (uint64_t)(a) * (uint64_t)(b))
#define FACTOR(g, other)     ((g) * (s[0] * (other)))
OL_NUMBERS(addcmul, 3, ADDCMUL, ADDCMUL_INT)
OL_FLOATS(factor, 2, FACTOR)

#define ADDCDIV(x, a, b) ((x) + s[0] * (a) / (b))
#define ABOVE(g, b)      ((g) * (s[0] / (b)))
#define BELOW(g, a, b)   (-(g) * (s[0] * (a) / ((b) * (b))))
OL_FLOATS(addcdiv, 3, ADDCDIV)
OL_FLOATS(above, 2, ABOVE)
OL_FLOATS(below, 3, BELOW)

static ol_status lerp_forward(ol_error *error, ol_call *call) {
  OL_TRY(ol_keep_first(error, call, call->arg[2].tensor->requires_grad));
  return ol_map_call(error, call, &lerp, 3, NULL);
}

static ol_status lerp_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *w = back->arg[2].tensor;
  if (back->needs[0]) OL_TRY(ol_binary(error, "lerp", &lerp_self, g, w, &back->grad[0]));
  if (back->needs[1]) OL_TRY(ol_mul(error, g, w, &back->grad[1]));
  if (!back->needs[2]) return OL_OK;
  return ol_ternary(error, "lerp", &lerp_weight, g, ol_first(back), back->arg[1].tensor,
                    &back->grad[2]);
}

static ol_status addcmul_forward(ol_error *error, ol_call *call) {
  ol_tensor *x[] = { call->arg[0].tensor, call->arg[1].tensor, call->arg[2].tensor };
  double value = call->arg[3].number;
  if (!ol_dtype_is_float(ol_result_dtype(3, x)) && !ol_is_whole(value))
    return ol_fail(error, OL_ARGUMENT, "%s: value is %g; tensors of integers take a whole number",
                   call->op->name, ol_shown(value));
  return ol_map_call(error, call, &addcmul, 3, (double[OL_SCALARS]){ value });
}

static ol_status addcmul_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *a = back->arg[1].tensor, *b = back->arg[2].tensor;
  const double s[OL_SCALARS] = { back->arg[3].number };
  if (back->needs[0]) back->grad[0] = ol_retain(g);
  if (back->needs[1])
    OL_TRY(ol_map(error, "addcmul", &factor, 2, (ol_tensor *[]){ g, b }, s, &back->grad[1]));
  if (back->needs[2])
    OL_TRY(ol_map(error, "addcmul", &factor, 2, (ol_tensor *[]){ g, a }, s, &back->grad[2]));
  return OL_OK;
}

static ol_status addcdiv_forward(ol_error *error, ol_call *call) {
  return ol_map_call(error, call, &addcdiv, 3, (double[OL_SCALARS]){ call->arg[3].number });
}

static ol_status addcdiv_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0], *a = back->arg[1].tensor, *b = back->arg[2].tensor;
  const double s[OL_SCALARS] = { back->arg[3].number };
  if (back->needs[0]) back->grad[0] = ol_retain(g);
  if (back->needs[1])
    OL_TRY(ol_map(error, "addcdiv", &above, 2, (ol_tensor *[]){ g, b }, s, &back->grad[1]));
  if (back->needs[2])
    OL_TRY(ol_map(error, "addcdiv", &below, 3, (ol_tensor *[]){ g, a, b }, s, &back->grad[2]));
  return OL_OK;
}

#define LERP_PARTS                                                                                 \
  .param = { { "self", OL_TENSOR },                                                                \
             { "end", OL_TENSOR, .doc = "broadcasts with self" },                                  \
             { "weight", OL_OPERAND, .doc = "how far from self (0) to end (1)" } },                \
  .forward = lerp_forward, .backward = lerp_backward
#define PRODUCT_PARAM                                                                              \
  .param = { { "self", OL_TENSOR },                                                                \
             { "tensor1", OL_TENSOR, .doc = "broadcasts with self" },                              \
             { "tensor2", OL_TENSOR, .doc = "broadcasts with self" },                              \
             { "value", OL_NUMBER, .optional = true, .preset = 1, .doc = "a factor" } }
#define ADDCMUL_PARTS PRODUCT_PARAM, .forward = addcmul_forward, .backward = addcmul_backward
#define ADDCDIV_PARTS PRODUCT_PARAM, .forward = addcdiv_forward, .backward = addcdiv_backward

#define THREE(t3)                                                                                  \
  "{ t(2, 3), t(2, 3), " t3 "(2, 3) }, { t(2, 3), t(3), " t3 "(2, 1) }, { t(), t(), " t3 "() },"   \
  "{ t(0, 3), t(3), " t3 "(0, 3) }, { t(4, 3):t(), t(3, 4), " t3 "(4, 3):t() }"

static const ol_op ops[] = {
  { .name = "lerp",
    .doc = "Moves from self towards end by weight: self + weight * (end - self).",
    .example = "print(optlua.tensor({ 0, 10 }):lerp(optlua.tensor({ 10, 20 }), 0.3))"
               " --> tensor([ 3., 13.])",
    .samples = "{ " THREE("p") ", { t(3), t(2, 3), t(2, 1) }, { t(2, 3), t(2, 3), 0.3 } }",
    .saves = OL_SAVE_FOR_OTHERS(0) | OL_SAVE_FOR_OTHERS(1) | OL_SAVE_FOR_OTHERS(2),
    LERP_PARTS },
  { .name = "lerp_",
    .doc = "lerp, in place.",
    .example = "print(optlua.tensor({ 0, 10 }):lerp_(optlua.tensor({ 10, 20 }), 0.5))"
               " --> tensor([ 5., 15.])",
    .samples = "{ " THREE("p") ", { t(2, 3), t(2, 3), 0.3 } }",
    .saves = OL_SAVE_FOR_OTHERS(1) | OL_SAVE_FOR_OTHERS(2),
    .flags = OL_OP_INPLACE,
    LERP_PARTS },
  { .name = "addcmul",
    .doc = "self + value * tensor1 * tensor2, elementwise.",
    .example = "local t = optlua.tensor({ 1, 2 })\n"
               "print(t:addcmul(t, t, { value = 10 })) --> tensor([11., 42.])",
    .samples = "{ " THREE("t") ", { t(3), t(2, 3), t(2, 1), 0.5 } }",
    .saves = OL_SAVE_FOR_OTHERS(1) | OL_SAVE_FOR_OTHERS(2),
    ADDCMUL_PARTS },
  { .name = "addcmul_",
    .doc = "addcmul, in place.",
    .example = "local t = optlua.tensor({ 1, 2 })\n"
               "print(optlua.ones(2):addcmul_(t, t)) --> tensor([2., 5.])",
    .samples = "{ " THREE("t") ", { t(2, 3), t(2, 3), t(2, 3), 0.5 } }",
    .saves = OL_SAVE_FOR_OTHERS(1) | OL_SAVE_FOR_OTHERS(2),
    .flags = OL_OP_INPLACE,
    ADDCMUL_PARTS },
  { .name = "addcdiv",
    .doc = "self + value * tensor1 / tensor2, elementwise, of floats.",
    .example = "local t = optlua.tensor({ 1, 2 })\n"
               "print(t:addcdiv(t, t, { value = 10 })) --> tensor([11., 12.])",
    .samples = "{ " THREE("p") ", { t(3), t(2, 3), p(2, 1), 0.5 } }",
    .saves = OL_SAVE_FOR_OTHERS(1) | OL_SAVE_ARG(2),
    ADDCDIV_PARTS },
  { .name = "addcdiv_",
    .doc = "addcdiv, in place.",
    .example = "local t = optlua.tensor({ 1, 2 })\n"
               "print(optlua.ones(2):addcdiv_(t, t)) --> tensor([2., 2.])",
    .samples = "{ " THREE("p") ", { t(2, 3), t(2, 3), p(2, 3), 0.5 } }",
    .saves = OL_SAVE_FOR_OTHERS(1) | OL_SAVE_ARG(2),
    .flags = OL_OP_INPLACE,
    ADDCDIV_PARTS },
  { 0 },
};

const ol_family ol_combine_ops = { .name = "combine", .doc = "Combinations", .ops = ops };
