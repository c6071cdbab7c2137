/* softmax: exponentials of rows, normalised. */
#include "ops/softmax.h"

#include <math.h>

#include "base/lanes.h"
#include "base/parallel.h"
#include "base/vecmath.h"
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/softcolumns.h"

enum { MAX_LANES = 64 };

/* y = x - its maximum, which is returned; x where that is -inf. */
#define DEFINE_SHIFT(suffix, type)                                                                 \
  OL_KERNEL static double shift_##suffix(int64_t count, const void *row, void *result) {           \
    const type *x = row;                                                                           \
    type *y = result, lane[MAX_LANES], max = -INFINITY;                                            \
    const int64_t whole = count & ~(int64_t)(MAX_LANES - 1);                                       \
    if (whole > 0) {                                                                               \
      for (int k = 0; k < MAX_LANES; k++) lane[k] = x[k];                                          \
      for (int64_t i = MAX_LANES; i < whole; i += MAX_LANES)                                       \
        OL_APART for (int k = 0; k < MAX_LANES; k++) lane[k] =                                     \
            x[i + k] > lane[k] ? x[i + k] : lane[k];                                               \
      for (int k = 0; k < MAX_LANES; k++) max = lane[k] > max ? lane[k] : max;                     \
    }                                                                                              \
    for (int64_t i = whole; i < count; i++) max = x[i] > max ? x[i] : max;                         \
    const type by = max == -INFINITY ? 0 : max;                                                    \
    OL_APART for (int64_t k = 0; k < count; k++) y[k] = x[k] - by;                                 \
    return max;                                                                                    \
  }

/* The sum of F(x[i], y[i]) in double: lanes, merged by halves. */
#define DEFINE_SUM(name, suffix, type, F)                                                          \
  OL_KERNEL static double name##_##suffix(int64_t count, const void *a, const void *b) {           \
    const type *x = a, *y = b;                                                                     \
    double lane[OL_SUM_LANES] = { 0 }, all = 0;                                                    \
    (void)y;                                                                                       \
    if (count < OL_SUM_LANES) {                                                                    \
      for (int64_t i = 0; i < count; i++) all += F(x[i], y[i]);                                    \
      return all;                                                                                  \
    }                                                                                              \
    OL_EACH_LANE(count, lane[k] += F(x[i], y[i]));                                                 \
    return ol_merge_lanes(lane);                                                                   \
  }

/* z = F(x, y), computed in double and rounded once; p and q are numbers of the row. */
#define DEFINE_ROW(name, suffix, type, F)                                                          \
  OL_KERNEL static void name##_##suffix(int64_t count, const void *a, const void *b, double p,     \
                                        double q, void *result) {                                  \
                                                                                                   \
    const type *x = a, *y = b;                                                                     \
    type *z = result;                                                                              \
    (void)y, (void)q;                                                                              \
    OL_APART for (int64_t i = 0; i < count; i++) z[i] = (type)(F((double)x[i], (double)y[i]));     \
  }

#define FIRST(x, y)     ((double)(x))
#define PRODUCT(x, y)   ((double)(x) * (double)(y))
#define TIMES(x, y)     ((x) * p)
#define LESS(x, y)      ((x) - p - q)
#define SLOPE(x, y)     ((x) * ((y) - p)) /* of softmax, from its result and g */
#define LOG_SLOPE(x, y) ((y) - (x) * p)   /* of log_softmax, from exp(result) and g */

typedef double row_sum(int64_t count, const void *x, const void *y);
typedef void row_map(int64_t count, const void *x, const void *y, double p, double q, void *z);

/* The functions on rows of one dtype. */
typedef struct row_functions {
  double (*shift)(int64_t count, const void *x, void *y);
  void (*powers)(int64_t count, const void *x, void *y);
  row_sum *sum, *dot;
  row_map *times, *less, *slope, *log_slope;
} row_functions;

#define DEFINE_ROWS(suffix, type)                                                                  \
  DEFINE_SHIFT(suffix, type)                                                                       \
  DEFINE_SUM(sum, suffix, type, FIRST)                                                             \
  DEFINE_SUM(dot, suffix, type, PRODUCT)                                                           \
  DEFINE_ROW(times, suffix, type, TIMES)                                                           \
  DEFINE_ROW(less, suffix, type, LESS)                                                             \
  DEFINE_ROW(slope, suffix, type, SLOPE)                                                           \
  DEFINE_ROW(log_slope, suffix, type, LOG_SLOPE)                                                   \
  static void powers_##suffix(int64_t count, const void *x, void *y) {                             \
    ol_vexp_##suffix(count, x, y);                                                                 \
  }                                                                                                \
  static const row_functions rows_##suffix = { shift_##suffix, powers_##suffix,   sum_##suffix,    \
                                               dot_##suffix,   times_##suffix,    less_##suffix,   \
                                               slope_##suffix, log_slope_##suffix };

DEFINE_ROWS(f32, float)
DEFINE_ROWS(f64, double)

static const row_functions *functions(ol_dtype dtype) {
  return dtype == OL_F32 ? &rows_f32 : &rows_f64;
}

void ol_exp_rows(ol_dtype dtype, int64_t rows, int64_t length, const void *x, void *e, double *max,
                 double *sum) {
  const row_functions *f = functions(dtype);
  const int64_t bytes = length * (int64_t)ol_dtype_size(dtype);
  for (int64_t r = 0; r < rows; r++)
    max[r] = f->shift(length, (const char *)x + r * bytes, (char *)e + r * bytes);
  f->powers(rows * length, e, e);
  for (int64_t r = 0; r < rows; r++) sum[r] = f->sum(length, (const char *)e + r * bytes, NULL);
}

/* Work on dense rows of one length. */
typedef struct job {
  const row_functions *functions;
  ol_dtype dtype;
  bool logs; /* log_softmax */
  int64_t length, bytes;
  const char *x; /* of forward the input, of backward the result */
  const char *g; /* of backward */
  char *y;
  double *total; /* of logsumexp */
} job;

static job make_job(ol_dtype dtype, int64_t length, const void *x, const void *g, void *y) {
  int64_t bytes = length * (int64_t)ol_dtype_size(dtype);
  return (job){ functions(dtype), dtype, false, length, bytes, x, g, y, NULL };
}

static void run(job *j, int64_t rows, ol_range_fn *fn) {
  if (j->length > 0) ol_parallel_for(rows, ol_grain(4 * (double)j->length), fn, j);
}

/* A few rows at once: y = exp(x - max) / sum, or x - max - log(sum). */
static void softmax_group(const job *j, int64_t begin, int64_t count) {
  double max[OL_EXP_ROWS], sum[OL_EXP_ROWS], log[OL_EXP_ROWS];
  const char *x = j->x + begin * j->bytes;
  char *y = j->y + begin * j->bytes;
  ol_exp_rows(j->dtype, count, j->length, x, y, max, sum);
  if (j->logs) ol_vlog_f64(count, sum, log);
  for (int64_t r = 0; r < count; r++, x += j->bytes, y += j->bytes) {
    if (j->logs)
      j->functions->less(j->length, x, NULL, max[r], log[r], y);
    else
      j->functions->times(j->length, y, NULL, 1 / sum[r], 0, y);
  }
}

/* Calls group on few rows at a time. */
static void softmax_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  int64_t some = ol_exp_rows_at_once(j->length);
  for (int64_t r = begin; r < end; r += some) softmax_group(j, r, end - r < some ? end - r : some);
}

static void slope_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t r = begin; r < end; r++) {
    const char *x = j->x + r * j->bytes, *g = j->g + r * j->bytes;
    char *y = j->y + r * j->bytes;
    if (j->logs) {
      j->functions->powers(j->length, x, y);
      j->functions->log_slope(j->length, y, g, j->functions->sum(j->length, g, NULL), 0, y);
    } else
      j->functions->slope(j->length, x, g, j->functions->dot(j->length, x, g), 0, y);
  }
}

/* A dense tensor as (outer, count, inner) around the dimension dim. */
static ol_softcolumns columns_of(const ol_tensor *x, int dim, bool logs) {
  ol_softcolumns c = { .dtype = x->dtype, .logs = logs, .outer = 1, .count = 1, .inner = 1 };
  for (int d = 0; d < x->shape.ndim; d++)
    *(d < dim ? &c.outer : d > dim ? &c.inner : &c.count) *= x->shape.size[d];
  return c;
}

/* y = softmax of x, both dense. */
static void softmax(const ol_softcolumns *c, const void *x, void *y) {
  job j = make_job(c->dtype, c->count, x, NULL, y);
  j.logs = c->logs;
  if (c->inner == 1)
    run(&j, c->outer, softmax_rows);
  else
    ol_softcolumns_run(c, x, y);
}

static ol_status forward(ol_error *error, ol_call *call, bool logs) {
  ol_tensor *x = call->arg[0].tensor, *dense, *y = NULL;
  int dim;
  OL_TRY(ol_reduce_check(error, call->op->name, x->dtype, true));
  OL_TRY(ol_shape_dim(error, call->op->name, call->arg[1].integer, x->shape.ndim, &dim));
  OL_TRY(ol_tensor_contiguous(error, x, &dense));
  ol_status status = ol_tensor_new(error, x->dtype, &x->shape, &y);
  if (status == OL_OK) {
    const ol_softcolumns c = columns_of(dense, dim, logs);
    softmax(&c, ol_tensor_data(dense), ol_tensor_data(y));
    call->out[0] = y;
  }
  ol_release(dense);
  return status;
}

/* dx from y and g, all dense. */
static void slope(const ol_softcolumns *c, const void *y, const void *g, void *dx) {
  job j = make_job(c->dtype, c->count, y, g, dx);
  j.logs = c->logs;
  if (c->inner == 1)
    run(&j, c->outer, slope_rows);
  else
    ol_softcolumns_slope(c, y, g, dx);
}

static ol_status backward(ol_error *error, ol_back *back, bool logs) {
  ol_tensor *y = NULL, *g = NULL, *dx = NULL;
  int dim;
  OL_TRY(ol_shape_dim(error, back->op->name, back->arg[1].integer, back->shape[0]->ndim, &dim));
  ol_status status = ol_tensor_contiguous(error, back->out[0], &y);
  if (status == OL_OK) status = ol_tensor_contiguous(error, back->grad_out[0], &g);
  if (status == OL_OK) status = ol_tensor_new(error, y->dtype, &y->shape, &dx);
  if (status == OL_OK) {
    const ol_softcolumns c = columns_of(y, dim, logs);
    slope(&c, ol_tensor_data(y), ol_tensor_data(g), ol_tensor_data(dx));
    back->grad[0] = dx;
  }
  ol_release(y);
  ol_release(g);
  return status;
}

static ol_status softmax_forward(ol_error *error, ol_call *call) {
  return forward(error, call, false);
}
static ol_status softmax_backward(ol_error *error, ol_back *back) {
  return backward(error, back, false);
}
static ol_status log_softmax_forward(ol_error *error, ol_call *call) {
  return forward(error, call, true);
}
static ol_status log_softmax_backward(ol_error *error, ol_back *back) {
  return backward(error, back, true);
}

static bool holds_nan(ol_dtype dtype, int64_t count, const void *x) {
  bool found = false;
  for (int64_t i = 0; i < count; i++)
    found |= dtype == OL_F32 ? isnan(((const float *)x)[i]) : isnan(((const double *)x)[i]);
  return found;
}

/* total = log(sum of exp(x)), of a few rows. Rows whose maximum is infinite are that infinity,
 * unless they hold NaN. */
static void logsumexp_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  double max[OL_EXP_ROWS], sum[OL_EXP_ROWS];
  int64_t some = ol_exp_rows_at_once(j->length);
  for (int64_t at = begin; at < end; at += some) {
    int64_t count = end - at < some ? end - at : some;
    const char *x = j->x + at * j->bytes;
    ol_exp_rows(j->dtype, count, j->length, x, j->y + at * j->bytes, max, sum);
    ol_vlog_f64(count, sum, sum);
    for (int64_t r = 0; r < count; r++) {
      bool infinite = isinf(max[r]) && !holds_nan(j->dtype, j->length, x + r * j->bytes);
      j->total[at + r] = infinite ? max[r] : max[r] + sum[r];
    }
  }
}

static ol_status logsumexp_into(ol_error *error, const ol_folding *folding, double *total) {
  ol_tensor *x = folding->source, *scratch;
  OL_TRY(ol_tensor_new(error, x->dtype, &x->shape, &scratch));
  job j = make_job(x->dtype, folding->count, ol_tensor_data(x), NULL, ol_tensor_data(scratch));
  j.total = total;
  for (int64_t r = 0; j.length == 0 && r < folding->outer; r++) total[r] = -INFINITY;
  run(&j, folding->outer, logsumexp_rows);
  ol_release(scratch);
  return OL_OK;
}

static ol_status logsumexp_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *total = NULL;
  ol_folding folding;
  OL_TRY(ol_reduce_check(error, "logsumexp", x->dtype, true));
  OL_TRY(ol_folding_rows(error, "logsumexp", x, &call->arg[1].list, call->arg[2].flag, &folding));
  ol_status status = ol_tensor_new(error, OL_F64, &folding.shape, &total);
  if (status == OL_OK) status = logsumexp_into(error, &folding, ol_tensor_data(total));
  ol_folding_release(&folding);
  if (status == OL_OK && x->dtype == OL_F64)
    call->out[0] = ol_retain(total);
  else if (status == OL_OK)
    status = ol_tensor_convert(error, total, x->dtype, &call->out[0]);
  ol_release(total);
  return status;
}

/* g * exp(d) */
#define WEIGHTED(g, d, e) ((g) * (e))
OL_FLOATS_VIA(weighted, 2, ol_vexp, OL_SAME, WEIGHTED)

/* g * exp(x - result) */
static ol_status logsumexp_backward(ol_error *error, ol_back *back) {
  const ol_shape *dims = &back->arg[1].list;
  ol_tensor *g = NULL, *y = NULL, *d = NULL;
  ol_status status = ol_unreduce(error, "logsumexp", back->out[0], back->shape[0], dims, &y);
  if (status == OL_OK)
    status = ol_unreduce(error, "logsumexp", back->grad_out[0], back->shape[0], dims, &g);
  if (status == OL_OK) status = ol_sub(error, back->arg[0].tensor, y, &d);
  if (status == OL_OK) status = ol_binary(error, "logsumexp", &weighted, g, d, &back->grad[0]);
  ol_release(y);
  ol_release(g);
  ol_release(d);
  return status;
}

#define SAMPLES_DIM                                                                                \
  "{ { t(3, 4), 2 }, { t(3, 4), 1 }, { t(2, 3, 4), 2 }, { t(5), -1 }, { t(), 1 }, "                \
  "{ t(0, 3), 2 }, { t(3, 0), 2 }, { t(4, 3):t(), 2 }, { t(3, 6):narrow(2, 2, 3), 1 }, "           \
  "{ t(3, 1):expand(3, 4), 1 } }"

#define DIM_PARAM { { "self", OL_TENSOR }, { "dim", OL_INDEX, .doc = "the dimension of a row" } }

static const ol_op ops[] = {
  { .name = "softmax",
    .doc = "exp(x) / sum(exp(x)) along a dimension; a row that is all -inf, or holds inf or NaN, "
           "gives NaN.",
    .example = "print(optlua.tensor({ 0, 0 }):softmax(1)) --> tensor([0.5000, 0.5000])",
    .samples = SAMPLES_DIM,
    .param = DIM_PARAM,
    .saves = OL_SAVE_OUT(0),
    .forward = softmax_forward,
    .backward = softmax_backward },
  { .name = "log_softmax",
    .doc = "Logarithm of softmax along a dimension; a row that is all -inf, or holds inf or NaN, "
           "gives NaN.",
    .example = "print(optlua.tensor({ 0, 0 }):log_softmax(1)) --> tensor([-0.6931, -0.6931])",
    .samples = SAMPLES_DIM,
    .param = DIM_PARAM,
    .saves = OL_SAVE_OUT(0),
    .forward = log_softmax_forward,
    .backward = log_softmax_backward },
  { .name = "logsumexp",
    .doc = "log(sum(exp(x))) over dimensions, safe for large x; -inf of nothing, or of nothing but "
           "-inf.",
    .example = "print(optlua.tensor({ 1000, 1000 }):logsumexp(1)) --> tensor(1000.6932)",
    .samples = "{ { t(3, 4), 2 }, { t(3, 4), 1 }, { t(2, 3, 4), { 1, 3 } }, { t(), 1 }, "
               "{ t(2, 3, 4), 2, true }, { t(0, 3), 2 }, { t(3, 0), 2 }, { t(4, 3):t(), 1 }, "
               "{ t(3, 1):expand(3, 4), 2 } }",
    .param = { { "self", OL_TENSOR },
               { "dim", OL_DIMS, .doc = "dimensions to reduce" },
               { "keepdim", OL_FLAG, true, .doc = "keep them with size 1" } },
    .saves = OL_SAVE_ARG(0) | OL_SAVE_OUT(0),
    .forward = logsumexp_forward,
    .backward = logsumexp_backward },
  { 0 }
};

const ol_family ol_softmax_ops = { .name = "softmax", .doc = "Softmax", .ops = ops };
