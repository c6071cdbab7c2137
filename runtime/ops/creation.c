/* creation: tensors of constants and of rows of numbers. */
#include "ops/creation.h"

#include "ops/choose.h"
#include "ops/families.h"
#include "ops/pointwise.h"

ol_status ol_create(ol_error *error, const char *op, ol_dtype dtype, const ol_shape *shape,
                    ol_tensor **out) {
  ol_status status = ol_tensor_new(error, dtype, shape, out);
  return status == OL_SHAPE ? ol_fail_in(error, op) : status;
}

/* A tensor full of value, which dtype must hold. */
static ol_status full_of(ol_error *error, const char *op, ol_dtype dtype, const ol_shape *shape,
                         const ol_tensor *value, ol_tensor **out) {
  ol_tensor *result;
  OL_TRY(ol_check_fill(error, op, value, dtype));
  OL_TRY(ol_create(error, op, dtype, shape, &result));
  ol_status status = ol_tensor_copy(error, result, value);
  if (status == OL_OK)
    *out = result;
  else
    ol_release(result);
  return status;
}

/* The same of a number that every dtype holds. */
static ol_status constant(ol_error *error, ol_call *call, ol_dtype dtype, const ol_shape *shape,
                          int value) {
  ol_status status;
  if (value == 0) {
    status = ol_tensor_zeros(error, dtype, shape, &call->out[0]);
    return status == OL_SHAPE ? ol_fail_in(error, call->op->name) : status;
  }
  OL_TRY(ol_create(error, call->op->name, dtype, shape, &call->out[0]));
  return ol_tensor_fill(error, call->out[0], value);
}

static ol_status zeros_forward(ol_error *error, ol_call *call) {
  return constant(error, call, ol_dtype_or(&call->arg[1], OL_F32), &call->arg[0].list, 0);
}

static ol_status ones_forward(ol_error *error, ol_call *call) {
  return constant(error, call, ol_dtype_or(&call->arg[1], OL_F32), &call->arg[0].list, 1);
}

static ol_status zeros_like_forward(ol_error *error, ol_call *call) {
  const ol_tensor *x = call->arg[0].tensor;
  return constant(error, call, ol_dtype_or(&call->arg[1], x->dtype), &x->shape, 0);
}

static ol_status ones_like_forward(ol_error *error, ol_call *call) {
  const ol_tensor *x = call->arg[0].tensor;
  return constant(error, call, ol_dtype_or(&call->arg[1], x->dtype), &x->shape, 1);
}

static ol_status full_forward(ol_error *error, ol_call *call) {
  return full_of(error, "full", ol_dtype_or(&call->arg[2], OL_F32), &call->arg[0].list,
                 call->arg[1].tensor, &call->out[0]);
}

static ol_status full_like_forward(ol_error *error, ol_call *call) {
  const ol_tensor *x = call->arg[0].tensor;
  return full_of(error, "full_like", ol_dtype_or(&call->arg[2], x->dtype), &x->shape,
                 call->arg[1].tensor, &call->out[0]);
}

/* A row of numbers: element i is first + step * i; from the middle on counted from the last. */
typedef struct progression {
  double first, step, last;
  int64_t count, middle;
  bool whole; /* all are integers */
  ol_tensor *out;
} progression;

#define DEFINE_FILL(dtype, type, AS)                                                               \
  OL_KERNEL static void fill_##dtype(const progression *p, int64_t begin, int64_t end) {           \
    const double first = p->first, step = p->step, last = p->last;                                 \
    const int64_t top = p->count - 1, middle = p->middle < end ? p->middle : end;                  \
    type *y = ol_tensor_data(p->out);                                                              \
    int64_t i = begin;                                                                             \
    for (; i < middle; i++) y[i] = AS(first + step * (double)i);                                   \
    for (; i < end; i++) y[i] = AS(last - step * (double)(top - i));                               \
  }
#define AS_BYTE(x)  ((uint8_t)(int64_t)(x))
#define AS_WHOLE(x) ((int64_t)(x))
#define AS_SHORT(x) ol_bf16_from_f32((float)(x))
#define AS_FLOAT(x) ((float)(x))
DEFINE_FILL(u8, uint8_t, AS_BYTE)
DEFINE_FILL(i64, int64_t, AS_WHOLE)
DEFINE_FILL(bf16, ol_bf16, AS_SHORT)
DEFINE_FILL(f32, float, AS_FLOAT)
DEFINE_FILL(f64, double, )

static void fill_progression(int64_t begin, int64_t end, void *context) {
  const progression *p = context;
  switch (p->out->dtype) {
  case OL_U8: fill_u8(p, begin, end); break;
  case OL_I64: fill_i64(p, begin, end); break;
  case OL_BF16: fill_bf16(p, begin, end); break;
  case OL_F32: fill_f32(p, begin, end); break;
  default: fill_f64(p, begin, end);
  }
}

/* Integers beyond what a double holds exactly, or what the dtype holds, are refused. */
static ol_status check_range(ol_error *error, const char *op, ol_dtype dtype, double value) {
  double limit = dtype == OL_U8 ? 255 : 0x1p53;
  if (ol_dtype_is_float(dtype)) return OL_OK;
  if (value >= (dtype == OL_U8 ? 0 : -limit) && value <= limit) return OL_OK;
  return ol_fail(error, OL_ARGUMENT, "%s: %s does not hold %g", op, ol_dtype_name(dtype),
                 ol_shown(value));
}

static ol_status progress(ol_error *error, const char *op, ol_dtype dtype, progression *p,
                          ol_tensor **out) {
  ol_shape shape = { .ndim = 1, .size = { p->count } };
  if (p->count > 0) OL_TRY(check_range(error, op, dtype, p->first));
  if (p->count > 0) OL_TRY(check_range(error, op, dtype, p->last));
  OL_TRY(ol_create(error, op, dtype, &shape, &p->out));
  ol_parallel_for(p->count, OL_GRAIN, fill_progression, p);
  *out = p->out;
  return OL_OK;
}

/* One number is the end; integers give int64, fractions float32. */
static ol_status arange_forward(ol_error *error, ol_call *call) {
  const ol_value *arg = call->arg;
  double first = arg[1].given ? arg[0].number : 0, step = arg[2].number;
  double end = arg[1].given ? arg[1].number : arg[0].number;
  bool whole = ol_is_whole(first) && ol_is_whole(end) && ol_is_whole(step);
  if (!isfinite(first) || !isfinite(end) || !isfinite(step))
    return ol_fail(error, OL_ARGUMENT, "arange: start, end and step must be finite");
  if (step == 0) return ol_fail(error, OL_ARGUMENT, "arange: step must not be 0");
  if ((end - first) * step < 0)
    return ol_fail(error, OL_ARGUMENT, "arange: a step of %g does not lead from %g to %g",
                   ol_shown(step), ol_shown(first), ol_shown(end));
  double count = ceil((end - first) / step);
  if (count > 0x1p53) return ol_fail(error, OL_SHAPE, "arange: %g elements are too many", count);
  progression p = { .first = first, .step = step, .count = (int64_t)count };
  p.middle = p.count;
  p.last = first + step * (count - 1);
  return progress(error, "arange", ol_dtype_or(&arg[3], whole ? OL_I64 : OL_F32), &p,
                  &call->out[0]);
}

static ol_status linspace_forward(ol_error *error, ol_call *call) {
  const ol_value *arg = call->arg;
  double first = arg[0].number, last = arg[1].number;
  int64_t steps = arg[2].integer;
  if (steps < 0) return ol_fail(error, OL_ARGUMENT, "linspace: steps must not be negative");
  progression p = { .first = first, .last = last, .count = steps, .middle = (steps + 1) / 2 };
  if (steps > 1) p.step = (last - first) / (double)(steps - 1);
  return progress(error, "linspace", ol_dtype_or(&arg[3], OL_F32), &p, &call->out[0]);
}

static ol_status eye_forward(ol_error *error, ol_call *call) {
  int64_t n = call->arg[0].integer, m = call->arg[1].given ? call->arg[1].integer : n;
  ol_shape shape = { .ndim = 2, .size = { n, m } };
  ol_shape diagonal = { .ndim = 1, .size = { n < m ? n : m } };
  ol_tensor *ones;
  OL_TRY(constant(error, call, ol_dtype_or(&call->arg[2], OL_F32), &shape, 0));
  OL_TRY(ol_tensor_view(error, call->out[0], &diagonal, (int64_t[]){ m + 1 }, 0, &ones));
  ol_status status = ol_tensor_fill(error, ones, 1);
  ol_release(ones);
  return status;
}

#define SIZE_SAMPLES "{ { { 2, 3 } }, { {} }, { { 0, 3 } }, { { 2 }, \"int64\" } }"
#define LIKE_SAMPLES                                                                               \
  "{ { c(2, 3) }, { c() }, { c(0, 3) }, { c(4, 3):t() }, { i({ 2 }, 3) }, { c(2), \"uint8\" } }"

static const ol_op ops[] = {
  { .name = "zeros",
    .doc = "A tensor of zeros.",
    .example = "print(optlua.zeros(2)) --> tensor([0., 0.])",
    .samples = SIZE_SAMPLES,
    .param = { OL_SIZE_PARAM, OL_DTYPE_PARAM },
    .flags = OL_OP_FUNCTION,
    .forward = zeros_forward },
  { .name = "ones",
    .doc = "A tensor of ones.",
    .example = "print(optlua.ones(2, { dtype = \"int64\" })) --> tensor([1, 1])",
    .samples = SIZE_SAMPLES,
    .param = { OL_SIZE_PARAM, OL_DTYPE_PARAM },
    .flags = OL_OP_FUNCTION,
    .forward = ones_forward },
  { .name = "empty",
    .doc = "As zeros: what it holds is always the same.",
    .example = "print(optlua.empty(2, 3).shape[1]) --> 2",
    .samples = SIZE_SAMPLES,
    .param = { OL_SIZE_PARAM, OL_DTYPE_PARAM },
    .flags = OL_OP_FUNCTION | OL_OP_RANDOM,
    .forward = zeros_forward },
  { .name = "full",
    .doc = "A tensor of one number.",
    .example = "print(optlua.full({ 2 }, 7)) --> tensor([7., 7.])",
    .samples = "{ { { 2, 3 }, 1.5 }, { {}, 2 }, { { 0, 3 }, 2 }, { { 2 }, 3, \"int64\" } }",
    .param = { OL_SIZE_PARAM,
               { "fill_value", OL_OPERAND, .doc = "the number; dtype must hold it" },
               OL_DTYPE_PARAM },
    .flags = OL_OP_FUNCTION,
    .forward = full_forward },
  { .name = "zeros_like",
    .doc = "Zeros in the shape and dtype of another tensor.",
    .example = "print(optlua.zeros_like(optlua.arange(2))) --> tensor([0, 0])",
    .samples = LIKE_SAMPLES,
    .param = { OL_LIKE_PARAMS },
    .flags = OL_OP_FUNCTION,
    .forward = zeros_like_forward },
  { .name = "ones_like",
    .doc = "Ones in the shape and dtype of another tensor.",
    .example = "print(optlua.ones_like(optlua.arange(2))) --> tensor([1, 1])",
    .samples = LIKE_SAMPLES,
    .param = { OL_LIKE_PARAMS },
    .flags = OL_OP_FUNCTION,
    .forward = ones_like_forward },
  { .name = "full_like",
    .doc = "One number in the shape and dtype of another tensor.",
    .example = "print(optlua.full_like(optlua.arange(2), 7)) --> tensor([7, 7])",
    .samples = "{ { c(2, 3), 1.5 }, { c(), 2 }, { c(0, 3), 2 }, { c(4, 3):t(), 2.5 },"
               "  { i({ 2 }, 3), 2 } }",
    .param = { { "self", OL_TENSOR, .doc = "gives the shape" },
               { "fill_value", OL_OPERAND, .doc = "the number; dtype must hold it" },
               { "dtype", OL_TYPE, .optional = true, .doc = "default: that of self" } },
    .flags = OL_OP_FUNCTION,
    .forward = full_like_forward },
  { .name = "arange",
    .doc = "The numbers from start (0 if left out) by step, without end: int64 if all three are "
           "whole, else float32.",
    .example = "print(optlua.arange(3), optlua.arange(1, 2, 0.25))"
               " --> tensor([0, 1, 2])\ttensor([1.0000, 1.2500, 1.5000, 1.7500])",
    .samples = "{ { 5 }, { 2, 5 }, { 5, 2, -1 }, { 0, 1, 0.3 }, { 3, 3 }, { 0, 5, 2, \"float64\" "
               "}, { 2, 9, 3, \"uint8\" } }",
    .param = { { "start", OL_NUMBER, .doc = "the first number; alone, it is end" },
               { "end", OL_NUMBER, .optional = true, .doc = "excluded" },
               { "step", OL_NUMBER, .optional = true, .preset = 1 },
               { "dtype", OL_TYPE, .optional = true, .doc = "default: int64 or float32" } },
    .flags = OL_OP_FUNCTION,
    .forward = arange_forward },
  { .name = "linspace",
    .doc = "steps numbers at equal distances from start to end, both included.",
    .example = "print(optlua.linspace(0, 1, 3)) --> tensor([0.0000, 0.5000, 1.0000])",
    .samples = "{ { 0, 1, 7 }, { 1, -1, 4 }, { 3, 4, 1 }, { 3, 4, 0 }, { 0, 1, 5, \"float64\" } }",
    .param = { { "start", OL_NUMBER },
               { "end", OL_NUMBER, .doc = "included" },
               { "steps", OL_DATA, .doc = "how many" },
               OL_DTYPE_PARAM },
    .flags = OL_OP_FUNCTION,
    .forward = linspace_forward },
  { .name = "eye",
    .doc = "A matrix of n rows and m columns (n if left out) with ones on the diagonal, else 0.",
    .example = "print(optlua.eye(2):sum()) --> tensor(2.)",
    .samples = "{ { 3 }, { 2, 4 }, { 4, 2 }, { 0 }, { 3, 0 }, { 2, 2, \"int64\" } }",
    .param = { { "n", OL_DATA },
               { "m", OL_DATA, .optional = true, .doc = "default: n" },
               OL_DTYPE_PARAM },
    .flags = OL_OP_FUNCTION,
    .forward = eye_forward },
  { 0 },
};

const ol_family ol_creation_ops = { .name = "creation", .doc = "Creation", .ops = ops };
