/* random: random tensors, and filling with random numbers. Numbers are drawn from the generator of
 * the process, one for each element in row-major order. */
#include "ops/creation.h"
#include "ops/families.h"
#include "ops/generator.h"
#include "ops/pointwise.h"

/* Fills a contiguous tensor of float32 or float64 with uniform or normal numbers. */
typedef void draw_fn(ol_tensor *out);

static void draw_uniform(ol_tensor *out) {
  if (out->dtype == OL_F32)
    ol_rng_uniform_f32(ol_generator(), ol_tensor_data(out), out->numel);
  else
    ol_rng_uniform_f64(ol_generator(), ol_tensor_data(out), out->numel);
}

static void draw_normal(ol_tensor *out) {
  if (out->dtype == OL_F32)
    ol_rng_normal_f32(ol_generator(), ol_tensor_data(out), out->numel);
  else
    ol_rng_normal_f64(ol_generator(), ol_tensor_data(out), out->numel);
}

static ol_status check_dtype(ol_error *error, const char *op, ol_dtype dtype) {
  if (ol_dtype_computes(dtype)) return OL_OK;
  return ol_fail(error, OL_DTYPE, "%s: draws float32 or float64, not %s", op, ol_dtype_name(dtype));
}

static ol_status drawn(ol_error *error, ol_call *call, ol_dtype dtype, const ol_shape *shape,
                       draw_fn *draw) {
  OL_TRY(check_dtype(error, call->op->name, dtype));
  OL_TRY(ol_create(error, call->op->name, dtype, shape, &call->out[0]));
  draw(call->out[0]);
  return OL_OK;
}

static ol_status rand_forward(ol_error *error, ol_call *call) {
  return drawn(error, call, ol_dtype_or(&call->arg[1], OL_F32), &call->arg[0].list, draw_uniform);
}

static ol_status randn_forward(ol_error *error, ol_call *call) {
  return drawn(error, call, ol_dtype_or(&call->arg[1], OL_F32), &call->arg[0].list, draw_normal);
}

static ol_status rand_like_forward(ol_error *error, ol_call *call) {
  const ol_tensor *x = call->arg[0].tensor;
  return drawn(error, call, ol_dtype_or(&call->arg[1], x->dtype), &x->shape, draw_uniform);
}

static ol_status randn_like_forward(ol_error *error, ol_call *call) {
  const ol_tensor *x = call->arg[0].tensor;
  return drawn(error, call, ol_dtype_or(&call->arg[1], x->dtype), &x->shape, draw_normal);
}

/* Fills self, which may be strided, with rows of drawn numbers. The generator stays where it was on
 * failure. */
static ol_status draw_into(ol_error *error, ol_call *call, draw_fn *draw, const ol_rows *rows,
                           const double *scalars) {
  ol_tensor *self = call->arg[0].tensor, *numbers;
  ol_rng before = *ol_generator();
  OL_TRY(check_dtype(error, call->op->name, self->dtype));
  if (ol_tensor_is_contiguous(self))
    numbers = ol_retain(self);
  else
    OL_TRY(ol_tensor_new(error, self->dtype, &self->shape, &numbers));
  draw(numbers);
  ol_status status = ol_map_rows(error, call, rows, 1, &numbers, scalars);
  if (status != OL_OK) *ol_generator() = before;
  ol_release(numbers);
  return status;
}

/* s: mean, std. */
#define NORMAL(x) ((x) * s[1] + s[0])
OL_FLOATS(normal, 1, NORMAL)

static ol_status normal_forward(ol_error *error, ol_call *call) {
  const double s[OL_SCALARS] = { call->arg[1].number, call->arg[2].number };
  if (!(s[1] >= 0))
    return ol_fail(error, OL_ARGUMENT, "normal_: std is %g; it must not be negative",
                   ol_shown(s[1]));
  return draw_into(error, call, draw_normal, &normal, s);
}

/* s: from, to. Rounding may reach `to`, which is excluded. */
#define PLACED(x)  ((x) * (s[1] - s[0]) + s[0])
#define UNIFORM(x) (PLACED(x) < s[1] ? PLACED(x) : s[0])
OL_FLOATS(uniform, 1, UNIFORM)

static ol_status uniform_forward(ol_error *error, ol_call *call) {
  const double s[OL_SCALARS] = { call->arg[1].number, call->arg[2].number };
  if (!(s[0] <= s[1]) || !isfinite(s[1] - s[0]))
    return ol_fail(error, OL_ARGUMENT, "uniform_: from %g to %g is not a finite range",
                   ol_shown(s[0]), ol_shown(s[1]));
  return draw_into(error, call, draw_uniform, &uniform, s);
}

/* s: the probability. */
#define TRIAL(x) ((x) < s[0] ? 1 : 0)
OL_FLOATS(trial, 1, TRIAL)

static ol_status bernoulli_in_forward(ol_error *error, ol_call *call) {
  const double s[OL_SCALARS] = { call->arg[1].number };
  if (!(s[0] >= 0 && s[0] <= 1))
    return ol_fail(error, OL_ARGUMENT, "bernoulli_: p is %g; a probability is from 0 to 1",
                   ol_shown(s[0]));
  return draw_into(error, call, draw_uniform, &trial, s);
}

/* Of (uniform, probability). */
#define TRIALS(x, p)   ((x) < (p) ? 1 : 0)
#define PROBABILITY(x) ((x) >= 0 && (x) <= 1)
OL_FLOATS(trials, 2, TRIALS)
OL_MASKS(probability, 1, PROBABILITY)

static ol_status check_probabilities(ol_error *error, ol_tensor *p) {
  ol_tensor *mask;
  OL_TRY(ol_unary(error, "bernoulli", &probability, p, &mask));
  bool good = memchr(ol_tensor_data(mask), 0, (size_t)mask->numel) == NULL;
  ol_release(mask);
  if (good) return OL_OK;
  return ol_fail(error, OL_ARGUMENT, "bernoulli: an element is not a probability, from 0 to 1");
}

static ol_status bernoulli_forward(ol_error *error, ol_call *call) {
  ol_tensor *p = call->arg[0].tensor, *numbers;
  OL_TRY(check_dtype(error, "bernoulli", p->dtype));
  OL_TRY(check_probabilities(error, p));
  OL_TRY(ol_tensor_new(error, p->dtype, &p->shape, &numbers));
  draw_uniform(numbers);
  call->out[0] = numbers;
  return ol_map_into(error, "bernoulli", &trials, 2, (ol_tensor *[]){ numbers, p }, NULL, numbers);
}

static ol_status randint_forward(ol_error *error, ol_call *call) {
  int64_t low = call->arg[0].integer, high = call->arg[1].integer;
  ol_dtype dtype = ol_dtype_or(&call->arg[3], OL_I64);
  ol_tensor *numbers;
  if (low >= high)
    return ol_fail(error, OL_ARGUMENT, "randint: there is no integer from %lld to below %lld",
                   (long long)low, (long long)high);
  if (dtype == OL_U8 && (low < 0 || high > 256))
    return ol_fail(error, OL_ARGUMENT, "randint: uint8 holds 0 to 255, not %lld to %lld",
                   (long long)low, (long long)high - 1);
  OL_TRY(ol_create(error, "randint", OL_I64, &call->arg[2].list, &numbers));
  ol_status status = OL_OK;
  ol_rng rng = *ol_generator();
  ol_rng_integers(&rng, low, high, ol_tensor_data(numbers), numbers->numel);
  if (dtype == OL_I64)
    call->out[0] = ol_retain(numbers);
  else
    status = ol_tensor_convert(error, numbers, dtype, &call->out[0]);
  if (status == OL_OK) *ol_generator() = rng;
  ol_release(numbers);
  return status;
}

static ol_status randperm_forward(ol_error *error, ol_call *call) {
  ol_shape shape = { .ndim = 1, .size = { call->arg[0].integer } };
  OL_TRY(ol_create(error, "randperm", OL_I64, &shape, &call->out[0]));
  int64_t *item = ol_tensor_data(call->out[0]);
  for (int64_t i = 0; i < shape.size[0]; i++) item[i] = i;
  ol_rng_shuffle(ol_generator(), item, shape.size[0]);
  return OL_OK;
}

#define SIZE_SAMPLES             "{ { { 2, 3 } }, { {} }, { { 0, 3 } }, { { 2 }, \"float64\" } }"
#define LIKE_SAMPLES             "{ { c(2, 3) }, { c() }, { c(0, 3) }, { c(4, 3):t() } }"
#define IN_PLACE                 "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() } }"
#define NUMBER(word, value, ...) { word, OL_NUMBER, .optional = true, .preset = value, __VA_ARGS__ }

static const ol_op ops[] = {
  { .name = "rand",
    .doc = "Random numbers, uniform from 0 to below 1.",
    .example = "print(optlua.rand(2, 3):lt(1):sum():item()) --> 6",
    .samples = SIZE_SAMPLES,
    .param = { OL_SIZE_PARAM, OL_DTYPE_PARAM },
    .flags = OL_OP_RANDOM | OL_OP_FUNCTION,
    .forward = rand_forward },
  { .name = "randn",
    .doc = "Random numbers, normal, of mean 0 and standard deviation 1.",
    .example = "print(#optlua.randn(2, 3).shape) --> 2",
    .samples = SIZE_SAMPLES,
    .param = { OL_SIZE_PARAM, OL_DTYPE_PARAM },
    .flags = OL_OP_RANDOM | OL_OP_FUNCTION,
    .forward = randn_forward },
  { .name = "rand_like",
    .doc = "As rand, in the shape and dtype of another tensor.",
    .example = "print(optlua.rand_like(optlua.zeros(3)).shape[1]) --> 3",
    .samples = LIKE_SAMPLES,
    .param = { OL_LIKE_PARAMS },
    .flags = OL_OP_RANDOM | OL_OP_FUNCTION,
    .forward = rand_like_forward },
  { .name = "randn_like",
    .doc = "As randn, in the shape and dtype of another tensor.",
    .example = "print(optlua.randn_like(optlua.zeros(3)).shape[1]) --> 3",
    .samples = LIKE_SAMPLES,
    .param = { OL_LIKE_PARAMS },
    .flags = OL_OP_RANDOM | OL_OP_FUNCTION,
    .forward = randn_like_forward },
  { .name = "randint",
    .doc = "Random integers, uniform from low to below high.",
    .example = "print(optlua.randint(0, 10, { 5 }):lt(10):sum():item()) --> 5",
    .samples = "{ { 0, 5, { 2, 3 } }, { -3, 3, {} }, { 0, 1, { 0, 3 } },"
               "  { 0, 256, { 4 }, \"uint8\" }, { 0, 9, { 4 }, \"float32\" } }",
    .param = { { "low", OL_DATA, .doc = "the least" },
               { "high", OL_DATA, .doc = "excluded" },
               OL_SIZE_PARAM,
               { "dtype", OL_TYPE, .optional = true, .preset = OL_I64 } },
    .flags = OL_OP_RANDOM | OL_OP_FUNCTION,
    .forward = randint_forward },
  { .name = "randperm",
    .doc = "The integers from 0 to below n in random order.",
    .example = "print(optlua.randperm(5):sum():item()) --> 10",
    .samples = "{ { 5 }, { 1 }, { 0 } }",
    .param = { { "n", OL_DATA, .doc = "how many" } },
    .flags = OL_OP_RANDOM | OL_OP_FUNCTION,
    .forward = randperm_forward },
  { .name = "normal_",
    .doc = "Fills the tensor with normal random numbers.",
    .example = "print(optlua.zeros(3):normal_(5, 0)) --> tensor([5., 5., 5.])",
    .samples = IN_PLACE,
    .param = { { "self", OL_TENSOR },
               NUMBER("mean", 0),
               NUMBER("std", 1, .doc = "standard deviation") },
    .flags = OL_OP_RANDOM | OL_OP_INPLACE,
    .forward = normal_forward,
    .backward = ol_flat_backward },
  { .name = "uniform_",
    .doc = "Fills the tensor with random numbers, uniform from `from` to below `to`.",
    .example = "print(optlua.zeros(3):uniform_(2, 3):ge(2):sum():item()) --> 3",
    .samples = IN_PLACE,
    .param = { { "self", OL_TENSOR }, NUMBER("from", 0), NUMBER("to", 1, .doc = "excluded") },
    .flags = OL_OP_RANDOM | OL_OP_INPLACE,
    .forward = uniform_forward,
    .backward = ol_flat_backward },
  { .name = "bernoulli",
    .doc = "1 with the probability that each element of self is, else 0.",
    .example = "print(optlua.tensor({ 0, 1 }):bernoulli()) --> tensor([0., 1.])",
    .samples = "{ { c(3, 4):abs():clamp(0, 1) }, { c():abs():clamp(0, 1) }, { c(0, 3) },"
               "  { c(4, 3):abs():clamp(0, 1):t() } }",
    .param = { { "self", OL_TENSOR, .doc = "probabilities, from 0 to 1" } },
    .flags = OL_OP_RANDOM,
    .forward = bernoulli_forward,
    .backward = ol_flat_backward },
  { .name = "bernoulli_",
    .doc = "Sets each element to 1 with probability p, else to 0.",
    .example = "print(optlua.zeros(3):bernoulli_(1)) --> tensor([1., 1., 1.])",
    .samples = IN_PLACE,
    .param = { { "self", OL_TENSOR }, NUMBER("p", 0.5) },
    .flags = OL_OP_RANDOM | OL_OP_INPLACE,
    .forward = bernoulli_in_forward,
    .backward = ol_flat_backward },
  { 0 },
};

const ol_family ol_random_ops = { .name = "random", .doc = "Random numbers", .ops = ops };
