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

#define DEFINE_POOL(suffix, type)                                                                  \
  static inline int64_t largest_##suffix(const ol_pool *p, const type *x, ol_span y, ol_span z) {  \
    if (y.count <= 0 || z.count <= 0) return -1;                                                   \
    const int64_t width = p->planes.x.size;                                                        \
    int64_t best = y.first * width + z.first;                                                      \
    type most = x[best];                                                                           \
    for (int64_t a = 0; a < y.count; a++) {                                                        \
      const int64_t line = (y.first + a * p->step_y) * width + z.first;                            \
      for (int64_t b = 0; b < z.count; b++) {                                                      \
        const int64_t at = line + b * p->step_x;                                                   \
        const bool more = x[at] > most || x[at] != x[at];                                          \
        most = more ? x[at] : most;                                                                \
        best = more ? at : best;                                                                   \
      }                                                                                            \
    }                                                                                              \
    return best;                                                                                   \
  }                                                                                                \
  /* Up to TURN whole windows, from the one at x[first] on, which cover `rows` lines: an element   \
   */                                                                                              \
  /* of each at a time. */                                                                         \
  static inline void turn_##suffix(const ol_pool *p, const type *x, int64_t first, int64_t rows,   \
                                   int64_t stride, int64_t count, type *y, int64_t *index) {       \
    type most[TURN];                                                                               \
    int32_t best[TURN]; /* how far from the first element of the window */                         \
    for (int64_t k = 0; k < count; k++) most[k] = x[first + k * stride], best[k] = 0;              \
    for (int64_t a = 0; a < rows; a++)                                                             \
      for (int64_t b = 0; b < p->planes.x.kernel; b++) {                                           \
        const int32_t offset = (int32_t)(a * p->step_y * p->planes.x.size + b * p->step_x);        \
        const type *at = x + first + offset;                                                       \
        OL_APART for (int64_t k = 0; k < count; k++) {                                             \
          const type v = at[k * stride];                                                           \
          const bool more = (int)(v > most[k]) | (int)(v != v);                                    \
          most[k] = more ? v : most[k];                                                            \
          best[k] = more ? offset : best[k];                                                       \
        }                                                                                          \
      }                                                                                            \
    memcpy(y, most, (size_t)count * sizeof *y);                                                    \
    for (int64_t k = 0; index && k < count; k++) index[k] = first + k * stride + best[k];          \
  }                                                                                                \
  static inline void window_##suffix(const ol_pool *p, const type *x, ol_span y, int64_t ox,       \
                                     type *to, int64_t *index) {                                   \
    const int64_t at = largest_##suffix(p, x, y, p->x[ox]);                                        \
    to[ox] = at < 0 ? (type) - INFINITY : x[at];                                                   \
    if (index) index[ox] = at;                                                                     \
  }                                                                                                \
  /* The windows of a line of the result. */                                                       \
  static inline void line_##suffix(const ol_pool *p, const type *x, ol_span y, type *to,           \
                                   int64_t *index) {                                               \
    const int64_t stride = p->planes.x.stride;                                                     \
    const bool turns = y.count > 0 && ol_pool_area(p) <= INT32_MAX;                                \
    int64_t ox = 0, end = turns ? p->to : 0;                                                       \
    for (; ox < (turns ? p->from : 0); ox++) window_##suffix(p, x, y, ox, to, index);              \
    for (; ox < end; ox += TURN) {                                                                 \
      const int64_t first = y.first * p->planes.x.size + p->x[ox].first;                           \
      const int64_t count = end - ox < TURN ? end - ox : TURN;                                     \
      int64_t *own = index ? index + ox : NULL;                                                    \
      if (stride == 1)                                                                             \
        turn_##suffix(p, x, first, y.count, 1, count, to + ox, own);                               \
      else if (stride == 2)                                                                        \
        turn_##suffix(p, x, first, y.count, 2, count, to + ox, own);                               \
      else                                                                                         \
        turn_##suffix(p, x, first, y.count, stride, count, to + ox, own);                          \
    }                                                                                              \
    for (ox = end; ox < p->planes.x.out; ox++) window_##suffix(p, x, y, ox, to, index);            \
  }                                                                                                \
  OL_KERNEL static void pool_##suffix(const ol_pool *p, const type *x, type *y, int64_t *index) {  \
    for (int64_t oy = 0; oy < p->planes.y.out; oy++) {                                             \
      line_##suffix(p, x, p->y[oy], y, index);                                                     \
      y += p->planes.x.out;                                                                        \
      if (index) index += p->planes.x.out;                                                         \
    }                                                                                              \
  }                                                                                                \
  static void give_back_##suffix(int64_t count, int64_t length, const type *g,                     \
                                 const int64_t *index, type *x) {                                  \
    memset(x, 0, (size_t)length * sizeof *x);                                                      \
    for (int64_t i = 0; i < count; i++)                                                            \
      if (index[i] >= 0) x[index[i]] += g[i];                                                      \
  }

DEFINE_POOL(f32, float)
DEFINE_POOL(f64, double)

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
