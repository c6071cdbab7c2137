/* maxpool: the largest element of each window, and where it was. NaN counts as the largest, as in
 * PyTorch. */
#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/pooling.h"

/* Where the arguments stand. */
enum { INPUT, KERNEL, STRIDE, PADDING, DILATION, CEIL, INDICES };
enum { SIZE = 1, ADAPTIVE_INDICES };
enum { TURN = 64 }; /* windows that are looked at side by side */

typedef struct job {
  const ol_pool *pool;
  const void *from;
  void *to;
  int64_t *index; /* of each result: its element's position in the plane, or -1; NULL: not wanted */
} job;

#define T       float
#define NAME(x) x##_f32
#include "ops/maxpool_kernel.h"
#undef T
#undef NAME
#define T       double
#define NAME(x) x##_f64
#include "ops/maxpool_kernel.h"

static void pool_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const int64_t area = ol_pool_area(j->pool), windows = ol_pool_windows(j->pool);
  for (int64_t i = begin; i < end; i++) {
    int64_t *index = j->index ? j->index + i * windows : NULL;
    if (j->pool->dtype == OL_F32)
      pool_f32(j->pool, (const float *)j->from + i * area, (float *)j->to + i * windows, index);
    else
      pool_f64(j->pool, (const double *)j->from + i * area, (double *)j->to + i * windows, index);
  }
}

static void back_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const int64_t area = ol_pool_area(j->pool), windows = ol_pool_windows(j->pool);
  for (int64_t i = begin; i < end; i++)
    if (j->pool->dtype == OL_F32)
      give_back_f32(windows, area, (const float *)j->from + i * windows, j->index + i * windows,
                    (float *)j->to + i * area);
    else
      give_back_f64(windows, area, (const double *)j->from + i * windows, j->index + i * windows,
                    (double *)j->to + i * area);
}

static void run(const ol_pool *pool, ol_tensor *from, ol_tensor *to, ol_tensor *index,
                ol_range_fn *fn) {
  job j = { .pool = pool,
            .from = ol_tensor_data(from),
            .to = ol_tensor_data(to),
            .index = index ? ol_tensor_data(index) : NULL };
  ol_parallel_for(pool->planes.images * pool->planes.channels, ol_pool_grain(pool), fn, &j);
}

/* Makes the results; backward has indices of its own, which no script can change. */
static ol_status pool_dense(ol_error *error, ol_call *call, const ol_pool *pool, ol_tensor *x,
                            bool indices) {
  const ol_shape shape = ol_windows_out(&pool->planes, pool->planes.channels);
  ol_tensor **index = indices ? &call->out[1] : &call->kept[0];
  OL_TRY(ol_tensor_new(error, pool->dtype, &shape, &call->out[0]));
  if (indices || call->recording) OL_TRY(ol_tensor_new(error, OL_I64, &shape, index));
  run(pool, x, call->out[0], *index, pool_planes);
  return indices && call->recording ? ol_tensor_clone(error, call->out[1], &call->kept[0]) : OL_OK;
}

static ol_status pool_input(ol_error *error, ol_call *call, const ol_pool *pool, bool indices) {
  ol_tensor *x;
  OL_TRY(ol_tensor_contiguous(error, call->arg[INPUT].tensor, &x));
  ol_status status = pool_dense(error, call, pool, x, indices);
  ol_release(x);
  return status;
}

static ol_status make_fixed(ol_error *error, const char *op, const ol_value *arg, int spatial,
                            ol_pool *pool) {
  ol_windows planes;
  int64_t dilation[2];
  OL_TRY(ol_window_list(error, op, "dilation", &arg[DILATION], spatial, 1, 1, dilation));
  OL_TRY(ol_pool_read(error, op, arg, spatial, dilation, arg[CEIL].flag, &planes));
  return ol_pool_make(error, &planes, arg[INPUT].tensor->dtype, pool);
}

static ol_status forward(ol_error *error, ol_call *call, int spatial, bool adaptive) {
  ol_pool pool;
  const ol_value *arg = call->arg;
  if (adaptive)
    OL_TRY(ol_pool_adaptive(error, call->op->name, arg[INPUT].tensor, spatial, &arg[SIZE], &pool));
  else
    OL_TRY(make_fixed(error, call->op->name, arg, spatial, &pool));
  ol_status status =
      pool_input(error, call, &pool, arg[adaptive ? ADAPTIVE_INDICES : INDICES].flag);
  ol_pool_free(&pool);
  return status;
}

/* The gradient goes where the indices say: of the pool only sizes are needed. */
static ol_status backward(ol_error *error, ol_back *back, int spatial) {
  ol_tensor *g, x = { .dtype = back->dtype[INPUT], .shape = *back->shape[INPUT] };
  ol_tensor *index = back->kept[0];
  ol_pool pool = { .dtype = x.dtype };
  OL_TRY(ol_windows_of(error, back->op->name, &x, spatial, false, &pool.planes));
  pool.planes.x.out = index->shape.size[index->shape.ndim - 1];
  if (spatial == 2) pool.planes.y.out = index->shape.size[index->shape.ndim - 2];
  OL_TRY(ol_tensor_contiguous(error, back->grad_out[0], &g));
  ol_status status = ol_back_new(error, back, INPUT, &back->grad[INPUT]);
  if (status == OL_OK) run(&pool, g, back->grad[INPUT], index, back_planes);
  ol_release(g);
  return status;
}

#define RUN(name, spatial, adaptive)                                                               \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    return forward(error, call, spatial, adaptive);                                                \
  }                                                                                                \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    return backward(error, back, spatial);                                                         \
  }

RUN(max_pool1d, 1, false)
RUN(max_pool2d, 2, false)
RUN(adaptive_max_pool1d, 1, true)
RUN(adaptive_max_pool2d, 2, true)

#define COMMON(NAME, EXAMPLE, SAMPLES)                                                             \
  .name = #NAME, .example = EXAMPLE, .samples = SAMPLES, .outputs = 2, .flags = OL_OP_FUNCTION,    \
  .forward = NAME##_forward, .backward = NAME##_backward

#define RETURN_INDICES                                                                             \
  { "return_indices", OL_FLAG, true,                                                               \
    .doc = "also the positions of the largest elements, int64, from 0 within a plane" }

#define MAX_POOL(NAME, INPUT_DOC, EXAMPLE, SAMPLES)                                                \
  {                                                                                                \
    COMMON(NAME, EXAMPLE, SAMPLES),                                                                \
        .doc = "The largest element of each window; NaN counts as the largest, padding never.",    \
        .param = {                                                                                 \
          { "input", OL_TENSOR, .doc = INPUT_DOC },                                                \
          { "kernel_size", OL_SIZES, .doc = "of the window" },                                     \
          { "stride", OL_SIZES, true, .doc = "step of the window; default: its size" },            \
          { "padding", OL_SIZES, true, .doc = "at most half of the window; default 0" },           \
          { "dilation", OL_SIZES, true, .doc = "step within the window; default 1" },              \
          { "ceil_mode", OL_FLAG, true, .doc = "the last window may hang over the end" },          \
          RETURN_INDICES                                                                           \
        }                                                                                          \
  }

#define ADAPTIVE(NAME, INPUT_DOC, EXAMPLE, SAMPLES)                                                \
  {                                                                                                \
    COMMON(NAME, EXAMPLE, SAMPLES),                                                                \
        .doc = "The largest elements of windows that cut the input into output_size parts.",       \
        .param = {                                                                                 \
          { "input", OL_TENSOR, .doc = INPUT_DOC },                                                \
          { "output_size", OL_SIZES, .doc = "of the result" },                                     \
          RETURN_INDICES                                                                           \
        }                                                                                          \
  }

static const ol_op ops[] = {
  MAX_POOL(max_pool1d, "(N, C, L) or (C, L)",
           "print(optlua.max_pool1d(optlua.tensor({ { 1, 3, 2, 4 } }), 2)) "
           "--> tensor([[3., 4.]])",
           "{ { t(2, 3, 8), 2 }, { t(3, 9), 3, 2, 1 }, { t(2, 2, 10), 3, 2, 1, 2, true }, "
           "{ t(2, 3, 7), 2, { ceil_mode = true, return_indices = true } }, "
           "{ t(8, 3, 2):transpose(1, 3), 3, 1 }, { t(0, 3, 8), 2 } }"),
  MAX_POOL(max_pool2d, "(N, C, H, W) or (C, H, W)",
           "local x = optlua.tensor({ { { 1, 3 }, { 4, 2 } } })\n"
           "print(optlua.max_pool2d(x, 2)) --> tensor([[[4.]]])",
           "{ { t(2, 3, 6, 8), 2 }, { t(3, 7, 6), { 3, 2 }, { 2, 1 }, { 1, 0 } }, "
           "{ t(2, 2, 7, 9), 3, 2, 1, { 2, 1 }, true }, { t(1, 2, 5, 5), 3, 2, 1, 1, true, true }, "
           "{ t(1, 1, 7, 7), 2, { stride = 3, ceil_mode = true, return_indices = true } }, "
           "{ t(6, 5, 3, 2):transpose(1, 4), 3, 1, 1 }, { t(1, 3, 4, 4):expand(2, 3, 4, 4), 2 }, "
           "{ t(0, 3, 6, 8), 2 } }"),
  ADAPTIVE(adaptive_max_pool1d, "(N, C, L) or (C, L)",
           "print(optlua.adaptive_max_pool1d(optlua.tensor({ { 1, 3, 2, 4 } }), 2)) "
           "--> tensor([[3., 4.]])",
           "{ { t(2, 3, 8), 3 }, { t(3, 5), 5 }, { t(2, 3, 4), 7, { return_indices = true } }, "
           "{ t(8, 3, 2):transpose(1, 3), 3 }, { t(0, 3, 8), 2 } }"),
  ADAPTIVE(adaptive_max_pool2d, "(N, C, H, W) or (C, H, W)",
           "local x = optlua.tensor({ { { 1, 3 }, { 4, 2 } } })\n"
           "print(optlua.adaptive_max_pool2d(x, 1)) --> tensor([[[4.]]])",
           "{ { t(2, 3, 7, 8), { 3, 2 } }, { t(3, 5, 7), 1 }, "
           "{ t(2, 2, 3, 4), 5, { return_indices = true } }, "
           "{ t(6, 5, 3, 2):transpose(1, 4), { 2, 3 } }, { t(0, 3, 6, 8), 2 } }"),
  { 0 }
};

const ol_family ol_maxpool_ops = { .name = "maxpool",
                                   .doc = "Largest elements of windows",
                                   .ops = ops };
