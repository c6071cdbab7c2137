/* choose: choosing elements by a mask, and setting them to one value. */
#include "ops/choose.h"

#include "ops/families.h"
#include "ops/pointwise.h"

#define DEFINE_CHOICES(suffix, type)                                                               \
  OL_KERNEL static void where_##suffix(int64_t count, char *const *data, const double *scalars) {  \
    const uint8_t *mask = (const uint8_t *)data[1];                                                \
    const type *x = (const type *)data[2], *y = (const type *)data[3];                             \
    type *out = (type *)data[0];                                                                   \
    (void)scalars;                                                                                 \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = mask[i] ? x[i] : y[i];                   \
  }                                                                                                \
  OL_KERNEL static void keep_##suffix(int64_t count, char *const *data, const double *scalars) {   \
    const uint8_t *mask = (const uint8_t *)data[1];                                                \
    const type *x = (const type *)data[2];                                                         \
    type *out = (type *)data[0];                                                                   \
    (void)scalars;                                                                                 \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = mask[i] ? x[i] : 0;                      \
  }                                                                                                \
  OL_KERNEL static void drop_##suffix(int64_t count, char *const *data, const double *scalars) {   \
    const uint8_t *mask = (const uint8_t *)data[1];                                                \
    const type *x = (const type *)data[2];                                                         \
    type *out = (type *)data[0];                                                                   \
    (void)scalars;                                                                                 \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = mask[i] ? 0 : x[i];                      \
  }                                                                                                \
  OL_KERNEL static void scaled_##suffix(int64_t count, char *const *data, const double *scalars) { \
    const uint8_t *mask = (const uint8_t *)data[1];                                                \
    const type *x = (const type *)data[2], factor = (type)scalars[0];                              \
    type *out = (type *)data[0];                                                                   \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = mask[i] ? x[i] * factor : 0;             \
  }
DEFINE_CHOICES(u8, uint8_t)
DEFINE_CHOICES(i64, int64_t)
DEFINE_CHOICES(f32, float)
DEFINE_CHOICES(f64, double)
OL_ROWS_OF_NUMBERS(where, .choice = true)
OL_ROWS_OF_NUMBERS(keep, .choice = true)
OL_ROWS_OF_NUMBERS(drop, .choice = true)
OL_ROWS_OF_NUMBERS(scaled, .choice = true)

ol_status ol_keep(ol_error *error, ol_tensor *mask, ol_tensor *x, ol_tensor **out) {
  return ol_binary(error, "where", &keep, mask, x, out);
}

/* The other way round. */
static ol_status drop_masked(ol_error *error, ol_tensor *mask, ol_tensor *x, ol_tensor **out) {
  return ol_binary(error, "where", &drop, mask, x, out);
}

ol_status ol_keep_scaled(ol_error *error, ol_tensor *mask, ol_tensor *x, double factor,
                         ol_tensor **out) {
  ol_tensor *both[] = { mask, x };
  return ol_map(error, "where", &scaled, 2, both, (double[OL_SCALARS]){ factor }, out);
}

ol_status ol_check_fill(ol_error *error, const char *op, const ol_tensor *value, ol_dtype dtype) {
  char text[OL_SHAPE_TEXT];
  if (value->shape.ndim > 0)
    return ol_fail(error, OL_SHAPE, "%s: one number was expected, got a tensor of shape %s", op,
                   ol_shape_text(&value->shape, text));
  double number = ol_tensor_get(value, 0);
  if (ol_dtype_is_float(dtype) || (dtype == OL_I64 && value->dtype == OL_I64)) return OL_OK;
  if (!ol_is_whole(number) || (dtype == OL_U8 && (number < 0 || number > 255)))
    return ol_fail(error, OL_ARGUMENT, "%s: %s does not hold %g", op, ol_dtype_name(dtype),
                   ol_shown(number));
  return OL_OK;
}

static ol_status where_forward(ol_error *error, ol_call *call) {
  return ol_map_call(error, call, &where, 3, NULL);
}

static ol_status where_backward(ol_error *error, ol_back *back) {
  ol_tensor *mask = back->arg[0].tensor, *g = back->grad_out[0];
  if (back->needs[1]) OL_TRY(ol_keep(error, mask, g, &back->grad[1]));
  if (back->needs[2]) OL_TRY(drop_masked(error, mask, g, &back->grad[2]));
  return OL_OK;
}

/* The result has self's dtype, and a shape that the mask may widen. */
static ol_status masked_fill_forward(ol_error *error, ol_call *call) {
  ol_tensor *self = call->arg[0].tensor, *value = call->arg[2].tensor, *own;
  OL_TRY(ol_check_fill(error, call->op->name, value, self->dtype));
  OL_TRY(ol_tensor_convert(error, value, self->dtype, &own));
  ol_tensor *x[] = { call->arg[1].tensor, own, self };
  ol_status status = ol_map_rows(error, call, &where, 3, x, NULL);
  ol_release(own);
  return status;
}

static ol_status masked_fill_backward(ol_error *error, ol_back *back) {
  ol_tensor *mask = back->arg[1].tensor, *g = back->grad_out[0];
  if (back->needs[0]) OL_TRY(drop_masked(error, mask, g, &back->grad[0]));
  if (back->needs[2]) OL_TRY(ol_keep(error, mask, g, &back->grad[2]));
  return OL_OK;
}

static ol_status fill_forward(ol_error *error, ol_call *call) {
  ol_tensor *self = call->arg[0].tensor, *value = call->arg[1].tensor;
  OL_TRY(ol_check_fill(error, call->op->name, value, self->dtype));
  OL_TRY(ol_tensor_copy(error, self, value));
  call->out[0] = ol_retain(self);
  return OL_OK;
}

static ol_status fill_backward(ol_error *error, ol_back *back) {
  if (back->needs[0])
    OL_TRY(ol_tensor_zeros(error, back->dtype[0], back->shape[0], &back->grad[0]));
  if (back->needs[1]) back->grad[1] = ol_retain(back->grad_out[0]);
  return OL_OK;
}

static ol_status zero_forward(ol_error *error, ol_call *call) {
  ol_tensor *self = call->arg[0].tensor;
  OL_TRY(ol_tensor_fill(error, self, 0));
  call->out[0] = ol_retain(self);
  return OL_OK;
}

#define FILL_PARTS                                                                                 \
  .param = { { "self", OL_TENSOR },                                                                \
             { "mask", OL_TENSOR, .doc = "uint8; broadcasts with self" },                          \
             { "value", OL_OPERAND, .doc = "a number, or a tensor without dimensions" } },         \
  .saves = OL_SAVE_ARG(1), .forward = masked_fill_forward, .backward = masked_fill_backward
#define FILL_SAMPLES                                                                               \
  "{ { t(3, 4), m(3, 4), t() }, { t(3, 4), m(4), 2.5 }, { t(), m(), t() },"                        \
  "  { t(0, 3), m(3), t() }, { t(4, 3):t(), m(3, 1), t() } "

static const ol_op ops[] = {
  { .name = "where",
    .doc = "self where the mask condition is not 0, else other; all three broadcast.",
    .example = "local t = optlua.tensor({ -1, 2 })\n"
               "print(optlua.where(t:gt(0), t, 10)) --> tensor([10.,  2.])",
    .samples = "{ { m(3, 4), t(3, 4), t(3, 4) }, { m(4), t(3, 1), t() }, { m(), t(), t() },"
               "  { m(0, 3), t(3), t(0, 3) }, { m(4, 3):t(), t(3, 4), t(4, 3):t() },"
               "  { m(3, 4), t(3, 4), 0 } }",
    .param = { { "condition", OL_TENSOR, .doc = "uint8" },
               { "self", OL_OPERAND },
               { "other", OL_OPERAND } },
    .saves = OL_SAVE_ARG(0),
    .flags = OL_OP_FUNCTION,
    .forward = where_forward,
    .backward = where_backward },
  { .name = "masked_fill",
    .doc = "self with value where the mask is not 0.",
    .example = "local t = optlua.tensor({ -1, 2 })\n"
               "print(t:masked_fill(t:lt(0), 9)) --> tensor([9., 2.])",
    .samples = FILL_SAMPLES ", { t(4), m(3, 4), t() } }",
    FILL_PARTS },
  { .name = "masked_fill_",
    .doc = "masked_fill, in place.",
    .example = "local t = optlua.tensor({ -1, 2 })\n"
               "print(t:masked_fill_(t:lt(0), 9)) --> tensor([9., 2.])",
    .samples = FILL_SAMPLES "}",
    .flags = OL_OP_INPLACE,
    FILL_PARTS },
  { .name = "fill_",
    .doc = "Sets every element to value.",
    .example = "print(optlua.zeros(2):fill_(7)) --> tensor([7., 7.])",
    .samples = "{ { t(3, 4), t() }, { t(3, 4), 2.5 }, { t(), t() }, { t(0, 3), t() },"
               "  { t(4, 3):t(), t() } }",
    .param = { { "self", OL_TENSOR },
               { "value", OL_OPERAND, .doc = "a number, or a tensor without dimensions" } },
    .flags = OL_OP_INPLACE,
    .forward = fill_forward,
    .backward = fill_backward },
  { .name = "zero_",
    .doc = "Sets every element to 0.",
    .example = "print(optlua.ones(2):zero_()) --> tensor([0., 0.])",
    .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() } }",
    .param = { { "self", OL_TENSOR } },
    .flags = OL_OP_INPLACE,
    .forward = zero_forward,
    .backward = ol_flat_backward },
  { 0 },
};

const ol_family ol_choose_ops = { .name = "choose", .doc = "Masks and filling", .ops = ops };
