/* peak: greatest and least elements over dimensions, and where they are. NaN is both. */
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/gather.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"

/* Where the arguments of max, min, argmax and argmin stand. */
enum { SELF, DIM, KEEPDIM };

#define MAX(t, x, c) OL_MAX_OF(t, x)
#define MIN(t, x, c) OL_MIN_OF(t, x)
OL_EXTREME_FOLDS(maxima, -INFINITY, 0, INT64_MIN, MAX, OL_MAX_OF)
OL_EXTREME_FOLDS(minima, INFINITY, UINT8_MAX, INT64_MAX, MIN, OL_MIN_OF)

#define TIES(t, x, c) ((t) + ((x) == (c)))
OL_FLOAT_FOLDS(ties, 0, TIES, OL_FOLD_ADD)

static ol_status refuse_nothing(ol_error *error, const char *op, const ol_folding *folding) {
  if (folding->count > 0) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: of no elements has no value", op);
}

/* Folds maxima or minima, over dims, into a tensor of x's dtype. */
static ol_status extremes(ol_error *error, const char *op, const ol_folds *folds,
                          const ol_folding *folding, ol_tensor **out) {
  OL_TRY(refuse_nothing(error, op, folding));
  return ol_fold_tensor(error, folding, folds, NULL, NULL, 0, folding->source->dtype, out);
}

static ol_status extreme_values(ol_error *error, ol_call *call, const ol_folds *folds,
                                const ol_shape *dims) {
  ol_folding folding;
  const char *op = call->op->name;
  ol_tensor *x = call->arg[SELF].tensor;
  OL_TRY(ol_reduce_check(error, op, x->dtype, false));
  OL_TRY(ol_folding_init(error, op, x, dims, call->arg[KEEPDIM].flag, &folding));
  ol_status status = extremes(error, op, folds, &folding, &call->out[0]);
  ol_folding_release(&folding);
  return status;
}

/* The slope of an extreme value, shared evenly by the elements that reach it. */
#define SHARE(g, x, y) ((x) == (y) ? (g) : 0)
OL_FLOATS(shares, 3, SHARE)

static ol_status count_ties(ol_error *error, ol_back *back, const ol_shape *dims, ol_tensor **out) {
  ol_folding folding;
  ol_tensor *center = NULL;
  OL_TRY(ol_folding_init(error, back->op->name, back->arg[SELF].tensor, dims,
                         back->arg[KEEPDIM].flag, &folding));
  ol_status status = ol_tensor_convert(error, back->out[0], OL_F64, &center);
  if (status == OL_OK)
    status = ol_fold_tensor(error, &folding, &ties, ol_tensor_data(center), NULL, 0,
                            back->out[0]->dtype, out);
  ol_release(center);
  ol_folding_release(&folding);
  return status;
}

static ol_status share_evenly(ol_error *error, ol_back *back, const ol_shape *dims) {
  const char *op = back->op->name;
  ol_tensor *count = NULL, *g = NULL, *wide = NULL, *y = NULL, *x = back->arg[SELF].tensor;
  ol_status status = count_ties(error, back, dims, &count);
  if (status == OL_OK) status = ol_div(error, back->grad_out[0], count, &g);
  if (status == OL_OK) status = ol_unreduce(error, op, g, back->shape[0], dims, &wide);
  if (status == OL_OK) status = ol_unreduce(error, op, back->out[0], back->shape[0], dims, &y);
  if (status == OL_OK) status = ol_ternary(error, op, &shares, wide, x, y, &back->grad[0]);
  ol_release(count);
  ol_release(g);
  ol_release(wide);
  ol_release(y);
  return status;
}

static ol_status amax_forward(ol_error *error, ol_call *call) {
  return extreme_values(error, call, &maxima, ol_dims(&call->arg[DIM]));
}
static ol_status amin_forward(ol_error *error, ol_call *call) {
  return extreme_values(error, call, &minima, ol_dims(&call->arg[DIM]));
}
static ol_status amax_backward(ol_error *error, ol_back *back) {
  return share_evenly(error, back, ol_dims(&back->arg[DIM]));
}

/* Positions: for each total the first element that equals it; NaN equals NaN. */
typedef struct search {
  const ol_folding *folding;
  const void *value; /* (outer, inner), of the elements' dtype */
  int64_t *position; /* (outer, inner) */
} search;

enum { CHUNK = 256 };
#define EQUAL(a, b) ((a) == (b) || ((a) != (a) && (b) != (b)))

/* A row is searched by chunks; columns are searched together. */
#define DEFINE_SEARCH(suffix, type)                                                                \
  OL_KERNEL static int64_t find_##suffix(int64_t count, const type *x, type value) {               \
    int64_t begin = 0;                                                                             \
    for (; begin + CHUNK < count; begin += CHUNK) {                                                \
      int hits = 0;                                                                                \
      for (int64_t k = 0; k < CHUNK; k++) hits += EQUAL(x[begin + k], value);                      \
      if (hits) break;                                                                             \
    }                                                                                              \
    while (begin < count - 1 && !EQUAL(x[begin], value)) begin++;                                  \
    return begin;                                                                                  \
  }                                                                                                \
  OL_KERNEL static void mark_##suffix(int64_t count, const type *x, const type *value, int64_t r,  \
                                      int64_t *position) {                                         \
    OL_APART for (int64_t i = 0; i < count; i++) position[i] =                                     \
        position[i] < 0 && EQUAL(x[i], value[i]) ? r : position[i];                                \
  }                                                                                                \
  static void search_##suffix(const search *s, int64_t outer) {                                    \
    const int64_t count = s->folding->count, inner = s->folding->inner;                            \
    const type *x = (const type *)ol_tensor_data(s->folding->source) + outer * count * inner;      \
    const type *value = (const type *)s->value + outer * inner;                                    \
    int64_t *position = s->position + outer * inner;                                               \
    if (inner == 1) {                                                                              \
      *position = find_##suffix(count, x, *value);                                                 \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < inner; i++) position[i] = -1;                                          \
    for (int64_t r = 0; r < count; r++) mark_##suffix(inner, x + r * inner, value, r, position);   \
  }
DEFINE_SEARCH(u8, uint8_t)
DEFINE_SEARCH(i64, int64_t)
DEFINE_SEARCH(f32, float)
DEFINE_SEARCH(f64, double)

static void search_rows(int64_t begin, int64_t end, void *context) {
  const search *s = context;
  ol_dtype dtype = s->folding->source->dtype;
  void (*one)(const search *, int64_t) = dtype == OL_F32   ? search_f32
                                         : dtype == OL_F64 ? search_f64
                                         : dtype == OL_I64 ? search_i64
                                                           : search_u8;
  for (int64_t outer = begin; outer < end; outer++) one(s, outer);
}

/* The positions of values in a folding, as int64. */
static ol_status positions(ol_error *error, const ol_folding *folding, const ol_tensor *values,
                           ol_tensor **out) {
  OL_TRY(ol_tensor_new(error, OL_I64, &folding->shape, out));
  search s = { folding, ol_tensor_data(values), ol_tensor_data(*out) };
  int64_t work = folding->count * folding->inner;
  if (values->numel > 0) ol_parallel_for(folding->outer, ol_grain((double)work), search_rows, &s);
  return OL_OK;
}

/* Values and positions over one dimension, or over all (none given). */
static ol_status locate(ol_error *error, const ol_call *call, const ol_folds *folds,
                        ol_tensor **values, ol_tensor **places) {
  ol_folding folding;
  const char *op = call->op->name;
  const ol_value *arg = call->arg;
  const ol_shape dims = { .ndim = arg[DIM].given, .size = { arg[DIM].integer } };
  OL_TRY(ol_reduce_check(error, op, arg[SELF].tensor->dtype, false));
  OL_TRY(ol_folding_init(error, op, arg[SELF].tensor, &dims, arg[KEEPDIM].flag, &folding));
  ol_status status = extremes(error, op, folds, &folding, values);
  if (status == OL_OK) status = positions(error, &folding, *values, places);
  ol_folding_release(&folding);
  return status;
}

/* max, min: with a dimension values and positions, without one the value. */
static ol_status extreme(ol_error *error, ol_call *call, const ol_folds *folds) {
  const ol_shape all = { .ndim = 0 };
  if (call->arg[DIM].given) return locate(error, call, folds, &call->out[0], &call->out[1]);
  if (call->arg[KEEPDIM].flag)
    return ol_fail(error, OL_ARGUMENT, "%s: keepdim wants a dim", call->op->name);
  return extreme_values(error, call, folds, &all);
}

static ol_status max_forward(ol_error *error, ol_call *call) {
  return extreme(error, call, &maxima);
}
static ol_status min_forward(ol_error *error, ol_call *call) {
  return extreme(error, call, &minima);
}

/* x with dimension dim of size 1 put back. */
static ol_status restore_dim(ol_error *error, ol_tensor *x, const ol_shape *shape, int dim,
                             ol_tensor **out) {
  const ol_shape dims = { .ndim = 1, .size = { dim } };
  ol_shape kept = *shape;
  if (kept.ndim > 0) kept.size[dim] = 1;
  return ol_unreduce(error, "max", x, &kept, &dims, out);
}

/* The gradient goes to the position that was chosen. */
static ol_status extreme_backward(ol_error *error, ol_back *back) {
  const ol_shape all = { .ndim = 0 }, *shape = back->shape[0];
  ol_tensor *g = NULL, *place = NULL;
  int dim;
  if (!back->arg[DIM].given) return share_evenly(error, back, &all);
  if (shape->ndim == 0) {
    back->grad[0] = ol_retain(back->grad_out[0]);
    return OL_OK;
  }
  OL_TRY(ol_shape_dim(error, back->op->name, back->arg[DIM].integer, shape->ndim, &dim));
  ol_status status = restore_dim(error, back->grad_out[0], shape, dim, &g);
  if (status == OL_OK) status = restore_dim(error, back->out[1], shape, dim, &place);
  if (status == OL_OK)
    status = ol_gather_back(error, back->op->name, g, shape, dim, place, &back->grad[0]);
  ol_release(g);
  ol_release(place);
  return status;
}

static ol_status position(ol_error *error, ol_call *call, const ol_folds *folds) {
  ol_tensor *values = NULL;
  ol_status status = locate(error, call, folds, &values, &call->out[0]);
  ol_release(values);
  return status;
}

static ol_status argmax_forward(ol_error *error, ol_call *call) {
  return position(error, call, &maxima);
}
static ol_status argmin_forward(ol_error *error, ol_call *call) {
  return position(error, call, &minima);
}

/* The three ops of one end. */
#define PEAK(end, word, values, value, place)                                                      \
  { .name = "a" #end,                                                                              \
    .doc = "The " word " elements over dimensions; equal ones share the gradient; NaN wins.",      \
    .example = "print(optlua.tensor({ { 1, 4 }, { 3, 2 } }):a" #end "(2)) --> " values,            \
    .samples = OL_DIM_SAMPLES("t"),                                                                \
    .param = { { "self", OL_TENSOR }, OL_DIM_PARAMS },                                             \
    .saves = OL_SAVE_ARG(SELF) | OL_SAVE_OUT(0),                                                   \
    .forward = a##end##_forward,                                                                   \
    .backward = amax_backward },                                                                   \
      { .name = #end,                                                                              \
        .doc = "The " word " element; along a dimension, the " word " elements and their "         \
               "positions (int64, from 0; of equal ones the first); NaN wins.",                    \
        .example = "local values, positions = optlua.tensor({ { 1, 4 }, { 3, 2 } }):" #end         \
                   "(2)\nprint(values) --> " values "\nprint(positions) --> " place,               \
        .samples = "{ { t(3, 4) }, { t(3, 4), 1 }, { t(3, 4), 2, true }, { t(2, 3, 4), 2 }, "      \
                   "{ t() }, { t(), 1 }, { t(4, 3):t(), 1 }, { t(3, 6):narrow(2, 2, 3) }, "        \
                   "{ t(0, 3), 2 } }",                                                             \
        .param = { { "self", OL_TENSOR },                                                          \
                   { "dim", OL_INDEX, true, .doc = "default: all" },                               \
                   OL_KEEPDIM_PARAM },                                                             \
        .outputs = 2,                                                                              \
        .saves = OL_SAVE_ARG(SELF) | OL_SAVE_OUT(0) | OL_SAVE_OUT(1),                              \
        .forward = end##_forward,                                                                  \
        .backward = extreme_backward },                                                            \
  {                                                                                                \
    .name = "arg" #end,                                                                            \
    .doc = "The position (int64, from 0) of the " word " element: along a dimension, or in "       \
           "row-major order; of equal ones the first.",                                            \
    .example = "print(optlua.tensor({ 3, 1, 4 }):arg" #end "()) --> tensor(" value ")",            \
    .samples = "{ { t(3, 4) }, { t(3, 4), 1 }, { t(3, 4), 2, true }, { t(2, 3, 4), 2 }, "          \
               "{ t() }, { t(4, 3):t(), 1 }, { t(3, 6):narrow(2, 2, 3) }, { t(0, 3), 2 } }",       \
    .param = { { "self", OL_TENSOR },                                                              \
               { "dim", OL_INDEX, true, .doc = "default: all" },                                   \
               OL_KEEPDIM_PARAM },                                                                 \
    .forward = arg##end##_forward                                                                  \
  }

static const ol_op ops[] = { PEAK(max, "greatest", "tensor([4., 3.])", "2", "tensor([1, 0])"),
                             PEAK(min, "least", "tensor([1., 2.])", "1", "tensor([0, 1])"),
                             { 0 } };

const ol_family ol_peak_ops = { .name = "peak", .doc = "Extreme elements", .ops = ops };
