/* avgpool: the mean of each window. */
#include <string.h>

#include "autograd/tape.h"
#include "base/lanes.h"
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/pooling.h"

/* Where the arguments stand. */
enum { INPUT, KERNEL, STRIDE, PADDING, CEIL, INCLUDE_PAD, DIVISOR };
enum { SIZE = 1 };

typedef struct job {
  const ol_pool *pool;
  bool padded;     /* padding counts */
  int64_t divisor; /* of every window, or 0: what counts */
  const void *from;
  void *to;
} job;

static inline double divisor_of(const job *j, ol_span y, ol_span x) {
  if (j->divisor) return (double)j->divisor;
  return (double)(j->padded ? y.extent * x.extent : y.count * x.count);
}

#define DEFINE_POOL(suffix, type)                                                                  \
  static inline double line_##suffix(const type *x, int64_t count) {                               \
    double lane[OL_SUM_LANES] = { 0 };                                                             \
    int64_t i = 0;                                                                                 \
    for (; i + OL_SUM_LANES <= count; i += OL_SUM_LANES)                                           \
      for (int k = 0; k < OL_SUM_LANES; k++) lane[k] += (double)x[i + k];                          \
    double sum = i ? ol_merge_lanes(lane) : 0;                                                     \
    for (; i < count; i++) sum += (double)x[i];                                                    \
    return sum;                                                                                    \
  }                                                                                                \
  OL_KERNEL static void pool_##suffix(const job *j, const type *x, type *to) {                     \
    const ol_pool *p = j->pool;                                                                    \
    for (int64_t oy = 0; oy < p->planes.y.out; oy++)                                               \
      for (int64_t ox = 0; ox < p->planes.x.out; ox++) {                                           \
        const ol_span y = p->y[oy], z = p->x[ox];                                                  \
        const type *line = x + y.first * p->planes.x.size + z.first;                               \
        double sum = 0;                                                                            \
        if (z.count == p->planes.x.size) /* lines lie behind each other */                         \
          sum = line_##suffix(line, y.count * z.count);                                            \
        else                                                                                       \
          for (int64_t a = 0; a < y.count; a++, line += p->planes.x.size)                          \
            sum += line_##suffix(line, z.count);                                                   \
        *to++ = (type)(sum / divisor_of(j, y, z));                                                 \
      }                                                                                            \
  }                                                                                                \
  OL_KERNEL static void spread_##suffix(const job *j, const type *g, type *x) {                    \
    const ol_pool *p = j->pool;                                                                    \
    memset(x, 0, (size_t)ol_pool_area(p) * sizeof *x);                                             \
    for (int64_t oy = 0; oy < p->planes.y.out; oy++)                                               \
      for (int64_t ox = 0; ox < p->planes.x.out; ox++) {                                           \
        const ol_span y = p->y[oy], z = p->x[ox];                                                  \
        type *line = x + y.first * p->planes.x.size + z.first;                                     \
        const type share = (type)((double)*g++ / divisor_of(j, y, z));                             \
        for (int64_t a = 0; a < y.count; a++, line += p->planes.x.size)                            \
          for (int64_t b = 0; b < z.count; b++) line[b] += share;                                  \
      }                                                                                            \
  }

DEFINE_POOL(f32, float)
DEFINE_POOL(f64, double)

static void pool_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const int64_t area = ol_pool_area(j->pool), windows = ol_pool_windows(j->pool);
  for (int64_t i = begin; i < end; i++)
    if (j->pool->dtype == OL_F32)
      pool_f32(j, (const float *)j->from + i * area, (float *)j->to + i * windows);
    else
      pool_f64(j, (const double *)j->from + i * area, (double *)j->to + i * windows);
}

static void back_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const int64_t area = ol_pool_area(j->pool), windows = ol_pool_windows(j->pool);
  for (int64_t i = begin; i < end; i++)
    if (j->pool->dtype == OL_F32)
      spread_f32(j, (const float *)j->from + i * windows, (float *)j->to + i * area);
    else
      spread_f64(j, (const double *)j->from + i * windows, (double *)j->to + i * area);
}

static ol_status read_divisor(ol_error *error, const char *op, const ol_value *arg, int spatial,
                              int64_t *out) {
  *out = 0;
  if (spatial == 1 || !arg[DIVISOR].given) return OL_OK;
  *out = arg[DIVISOR].integer;
  if (*out != 0) return OL_OK;
  return ol_fail(error, OL_ARGUMENT, "%s: divisor_override is 0", op);
}

/* Reads the arguments for an input like x into a job, whose pool is to be freed. */
static ol_status make_job(ol_error *error, const char *op, ol_tensor *x, const ol_value *args,
                          int spatial, bool adaptive, ol_pool *pool, job *j) {
  static const int64_t dilation[2] = { 1, 1 };
  ol_windows planes;
  *j = (job){ .pool = pool };
  if (adaptive) return ol_pool_adaptive(error, op, x, spatial, &args[SIZE], pool);
  ol_value arg[DIVISOR + 1];
  memcpy(arg, args, (size_t)(spatial == 1 ? DIVISOR : DIVISOR + 1) * sizeof *arg);
  arg[INPUT].tensor = x;
  j->padded = arg[INCLUDE_PAD].flag;
  OL_TRY(read_divisor(error, op, arg, spatial, &j->divisor));
  OL_TRY(ol_pool_read(error, op, arg, spatial, dilation, arg[CEIL].flag, &planes));
  return ol_pool_make(error, &planes, x->dtype, pool);
}

/* From a tensor, made dense, to another. */
static ol_status run(ol_error *error, job *j, ol_tensor *from, ol_tensor *to, ol_range_fn *fn) {
  ol_tensor *dense;
  OL_TRY(ol_tensor_contiguous(error, from, &dense));
  j->from = ol_tensor_data(dense);
  j->to = ol_tensor_data(to);
  ol_parallel_for(j->pool->planes.images * j->pool->planes.channels, ol_pool_grain(j->pool), fn, j);
  ol_release(dense);
  return OL_OK;
}

static ol_status forward(ol_error *error, ol_call *call, int spatial, bool adaptive) {
  ol_pool pool;
  job j;
  ol_tensor *x = call->arg[INPUT].tensor;
  OL_TRY(make_job(error, call->op->name, x, call->arg, spatial, adaptive, &pool, &j));
  const ol_shape shape = ol_windows_out(&pool.planes, pool.planes.channels);
  ol_status status = ol_tensor_new(error, x->dtype, &shape, &call->out[0]);
  if (status == OL_OK) status = run(error, &j, x, call->out[0], pool_planes);
  ol_pool_free(&pool);
  return status;
}

static ol_status backward(ol_error *error, ol_back *back, int spatial, bool adaptive) {
  ol_pool pool;
  job j;
  ol_tensor x = { .dtype = back->dtype[INPUT], .shape = *back->shape[INPUT] };
  OL_TRY(make_job(error, back->op->name, &x, back->arg, spatial, adaptive, &pool, &j));
  ol_status status = ol_back_new(error, back, INPUT, &back->grad[INPUT]);
  if (status == OL_OK) status = run(error, &j, back->grad_out[0], back->grad[INPUT], back_planes);
  ol_pool_free(&pool);
  return status;
}

#define RUN(name, spatial, adaptive)                                                               \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    return forward(error, call, spatial, adaptive);                                                \
  }                                                                                                \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    return backward(error, back, spatial, adaptive);                                               \
  }

RUN(avg_pool1d, 1, false)
RUN(avg_pool2d, 2, false)
RUN(adaptive_avg_pool1d, 1, true)
RUN(adaptive_avg_pool2d, 2, true)

#define COMMON(NAME, EXAMPLE, SAMPLES)                                                             \
  .name = #NAME, .example = EXAMPLE, .samples = SAMPLES, .flags = OL_OP_FUNCTION,                  \
  .forward = NAME##_forward, .backward = NAME##_backward

#define FIXED_PARAMS(INPUT_DOC)                                                                    \
  { "input", OL_TENSOR, .doc = INPUT_DOC }, { "kernel_size", OL_SIZES, .doc = "of the window" },   \
      { "stride", OL_SIZES, true, .doc = "step of the window; default: its size" },                \
      { "padding", OL_SIZES, true, .doc = "zeros, at most half of the window; default 0" },        \
      { "ceil_mode", OL_FLAG, true, .doc = "the last window may hang over the end" },              \
      { "count_include_pad", OL_FLAG, true, 1, .doc = "whether padding counts as elements" }

#define ADAPTIVE(NAME, INPUT_DOC, EXAMPLE, SAMPLES)                                                \
  {                                                                                                \
    COMMON(NAME, EXAMPLE, SAMPLES),                                                                \
        .doc = "The means of windows that cut the input into output_size parts.", .param = {       \
          { "input", OL_TENSOR, .doc = INPUT_DOC },                                                \
          { "output_size", OL_SIZES, .doc = "of the result" }                                      \
        }                                                                                          \
  }

static const ol_op ops[] = {
  { COMMON(avg_pool1d,
           "print(optlua.avg_pool1d(optlua.tensor({ { 1, 3, 2, 4 } }), 2)) --> tensor([[2., 3.]])",
           "{ { t(2, 3, 8), 2 }, { t(3, 9), 3, 2, 1 }, { t(2, 2, 10), 3, 2, 1, true, false }, "
           "{ t(2, 3, 40), 33, 3 }, { t(8, 3, 2):transpose(1, 3), 3, 1 }, { t(0, 3, 8), 2 } }"),
    .doc = "The mean of each window.", .param = { FIXED_PARAMS("(N, C, L) or (C, L)") } },
  { COMMON(avg_pool2d,
           "local x = optlua.tensor({ { { 1, 3 }, { 4, 2 } } })\n"
           "print(optlua.avg_pool2d(x, 2)) --> tensor([[[2.5000]]])",
           "{ { t(2, 3, 6, 8), 2 }, { t(3, 7, 6), { 3, 2 }, { 2, 1 }, { 1, 0 } }, "
           "{ t(2, 2, 7, 9), 3, 2, 1, true, false }, { t(2, 2, 7, 9), 3, 2, 1, true }, "
           "{ t(1, 2, 5, 5), 3, { padding = 1, divisor_override = 5 } }, "
           "{ t(6, 5, 3, 2):transpose(1, 4), 3, 1, 1 }, { t(1, 3, 4, 4):expand(2, 3, 4, 4), 2 }, "
           "{ t(0, 3, 6, 8), 2 } }"),
    .doc = "The mean of each window.",
    .param = { FIXED_PARAMS("(N, C, H, W) or (C, H, W)"),
               { "divisor_override", OL_DATA, true, .doc = "divides every sum" } } },
  ADAPTIVE(adaptive_avg_pool1d, "(N, C, L) or (C, L)",
           "print(optlua.adaptive_avg_pool1d(optlua.tensor({ { 1, 3, 2, 4 } }), 2)) "
           "--> tensor([[2., 3.]])",
           "{ { t(2, 3, 8), 3 }, { t(3, 5), 5 }, { t(2, 3, 4), 7 }, "
           "{ t(8, 3, 2):transpose(1, 3), 3 }, { t(0, 3, 8), 2 } }"),
  ADAPTIVE(adaptive_avg_pool2d, "(N, C, H, W) or (C, H, W)",
           "local x = optlua.tensor({ { { 1, 3 }, { 4, 2 } } })\n"
           "print(optlua.adaptive_avg_pool2d(x, 1)) --> tensor([[[2.5000]]])",
           "{ { t(2, 3, 7, 8), { 3, 2 } }, { t(3, 5, 7), 1 }, { t(2, 2, 3, 4), 5 }, "
           "{ t(6, 5, 3, 2):transpose(1, 4), { 2, 3 } }, { t(0, 3, 6, 8), 2 } }"),
  { 0 }
};

const ol_family ol_avgpool_ops = { .name = "avgpool", .doc = "Means of windows", .ops = ops };
