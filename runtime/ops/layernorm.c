/* layernorm: normalisation of the last dimensions (Ba, Kiros and Hinton, 2016, "Layer
 * normalization"), also without centring (Zhang and Sennrich, 2019, "Root mean square layer
 * normalization").
 *
 * Statistics take two passes in double: rows of large numbers keep their variance. */
#include <float.h>
#include <math.h>

#include "autograd/tape.h"
#include "base/lanes.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "ops/dense.h"
#include "ops/families.h"
#include "ops/reduce.h"

/* Where the arguments stand, and which inputs the tensors among them are. rms_norm has no bias. */
enum { INPUT, SHAPE, WEIGHT, BIAS, EPS, RMS_EPS = BIAS };
enum { INPUT_SLOPE, WEIGHT_SLOPE, BIAS_SLOPE };

/* sum[0] and sum[1] of two expressions of i. */
#define LANED_SUMS(count, FIRST, SECOND)                                                           \
  double a[OL_SUM_LANES] = { 0 }, b[OL_SUM_LANES] = { 0 };                                         \
  OL_EACH_LANE(count, a[k] += FIRST(i), b[k] += SECOND(i));

#define X(i)         ((double)x[i])
#define SQUARE(i)    ((X(i) - mean) * (X(i) - mean))
#define ZERO(i)      (0.0)
#define HAT(i)       ((X(i) - mean) * rstd)
#define SLOPE(i)     ((double)g[i] * (w ? (double)w[i] : 1.0))
#define SLOPE_HAT(i) (SLOPE(i) * HAT(i))

#define DEFINE_KERNELS(suffix, type)                                                               \
  OL_KERNEL static double sum_##suffix(int64_t count, const type *x) {                             \
    LANED_SUMS(count, X, ZERO)                                                                     \
    return ol_merge_lanes(a);                                                                      \
  }                                                                                                \
  OL_KERNEL static double squares_##suffix(int64_t count, const type *x, double mean) {            \
    LANED_SUMS(count, SQUARE, ZERO)                                                                \
    return ol_merge_lanes(a);                                                                      \
  }                                                                                                \
  OL_KERNEL static void normalize_##suffix(int64_t count, const type *x, double mean, double rstd, \
                                           const type *w, const type *bias, type *y) {             \
    OL_APART for (int64_t i = 0; i < count; i++) y[i] =                                            \
        (type)(HAT(i) * (w ? (double)w[i] : 1.0) + (bias ? (double)bias[i] : 0.0));                \
  }                                                                                                \
  OL_KERNEL static void slope_##suffix(int64_t count, const type *x, double mean, double rstd,     \
                                       bool centred, const type *g, const type *w, type *y) {      \
    LANED_SUMS(count, SLOPE, SLOPE_HAT)                                                            \
    const double p = centred ? ol_merge_lanes(a) / (double)count : 0,                              \
                 q = ol_merge_lanes(b) / (double)count;                                            \
    OL_APART for (int64_t k = 0; k < count; k++) y[k] =                                            \
        (type)((SLOPE(k) - p - HAT(k) * q) * rstd);                                                \
  }                                                                                                \
  OL_KERNEL static void columns_##suffix(int64_t count, const type *x, double mean, double rstd,   \
                                         const type *g, double *weight, double *bias) {            \
    OL_APART for (int64_t i = 0; i < count; i++) {                                                 \
      weight[i] += (double)g[i] * HAT(i);                                                          \
      bias[i] += (double)g[i];                                                                     \
    }                                                                                              \
  }                                                                                                \
  static void forward_row_##suffix(const job *j, int64_t r) {                                      \
    const type *x = (const type *)j->x + r * j->length;                                            \
    double mean = j->centred ? sum_##suffix(j->length, x) / (double)j->length : 0;                 \
    double variance = squares_##suffix(j->length, x, mean) / (double)j->length;                    \
    j->mean[r] = mean;                                                                             \
    j->rstd[r] = 1 / sqrt(variance + j->eps);                                                      \
    normalize_##suffix(j->length, x, mean, j->rstd[r], j->weight, j->bias,                         \
                       (type *)j->y + r * j->length);                                              \
  }                                                                                                \
  static void backward_row_##suffix(const job *j, int64_t r, double *columns) {                    \
    const type *x = (const type *)j->x + r * j->length, *g = (const type *)j->g + r * j->length;   \
    if (j->y)                                                                                      \
      slope_##suffix(j->length, x, j->mean[r], j->rstd[r], j->centred, g, j->weight,               \
                     (type *)j->y + r * j->length);                                                \
    if (columns)                                                                                   \
      columns_##suffix(j->length, x, j->mean[r], j->rstd[r], g, columns, columns + j->length);     \
  }

/* Work on dense rows. */
typedef struct job {
  ol_dtype dtype;
  int64_t rows, length;
  double eps;
  bool centred;                      /* the mean is subtracted */
  const void *x, *g, *weight, *bias; /* weight and bias may be NULL; g is of backward */
  void *y;                           /* the result; in backward the slope by x, or NULL */
  double *mean, *rstd;               /* of each row */
  double *columns; /* of backward: sums of g * x̂ and of g, (blocks, 2, length); or NULL */
  int64_t block;   /* rows of a block */
} job;

DEFINE_KERNELS(f32, float)
DEFINE_KERNELS(f64, double)

static void forward_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t r = begin; r < end; r++)
    j->dtype == OL_F32 ? forward_row_f32(j, r) : forward_row_f64(j, r);
}

static void backward_blocks(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t b = begin; b < end; b++) {
    double *columns = j->columns ? j->columns + 2 * b * j->length : NULL;
    for (int64_t r = b * j->block; r < j->rows && r < (b + 1) * j->block; r++)
      j->dtype == OL_F32 ? backward_row_f32(j, r, columns) : backward_row_f64(j, r, columns);
  }
}

/* What an op's arguments say, whichever of the two it is; weight and bias may be NULL. */
typedef struct request {
  const char *op;
  ol_tensor *x, *weight, *bias;
  const ol_shape *shape; /* that is normalized */
  double eps;
  bool centred;
} request;

static request read_layer(const ol_op *op, const ol_value *arg) {
  return (request){ .op = op->name,
                    .x = arg[INPUT].tensor,
                    .weight = arg[WEIGHT].tensor,
                    .bias = arg[BIAS].tensor,
                    .shape = &arg[SHAPE].list,
                    .eps = arg[EPS].number,
                    .centred = true };
}

static request read_rms(const ol_op *op, const ol_value *arg) {
  const double least = arg[INPUT].tensor->dtype == OL_F32 ? FLT_EPSILON : DBL_EPSILON;
  return (request){ .op = op->name,
                    .x = arg[INPUT].tensor,
                    .weight = arg[WEIGHT].tensor,
                    .shape = &arg[SHAPE].list,
                    .eps = arg[RMS_EPS].given ? arg[RMS_EPS].number : least };
}

static ol_status check_part(ol_error *error, const request *r, const char *name,
                            const ol_tensor *part) {
  char own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  if (!part) return OL_OK;
  if (part->dtype != r->x->dtype)
    return ol_fail(error, OL_DTYPE, "%s: %s is %s, input %s", r->op, name,
                   ol_dtype_name(part->dtype), ol_dtype_name(r->x->dtype));
  if (ol_shape_equal(&part->shape, r->shape)) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: %s has shape %s, wants %s", r->op, name,
                 ol_shape_text(&part->shape, own), ol_shape_text(r->shape, wanted));
}

/* The input must end in the normalized shape. */
static ol_status check(ol_error *error, const request *r) {
  char own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  const ol_shape *x = &r->x->shape;
  OL_TRY(ol_reduce_check(error, r->op, r->x->dtype, true));
  bool fits = r->shape->ndim > 0 && r->shape->ndim <= x->ndim;
  for (int d = 0; fits && d < r->shape->ndim; d++)
    fits = x->size[x->ndim - r->shape->ndim + d] == r->shape->size[d];
  if (!fits)
    return ol_fail(error, OL_SHAPE, "%s: input of shape %s does not end in the normalized shape %s",
                   r->op, ol_shape_text(x, own), ol_shape_text(r->shape, wanted));
  OL_TRY(check_part(error, r, "weight", r->weight));
  return check_part(error, r, "bias", r->bias);
}

static int64_t rows_of(const request *r) {
  const int64_t length = ol_shape_numel(r->shape);
  return length ? r->x->numel / length : 0;
}

static job make_job(const request *r, const ol_dense *d, ol_tensor *statistics) {
  double *facts = ol_tensor_data(statistics);
  return (job){ .dtype = r->x->dtype,
                .rows = rows_of(r),
                .length = ol_shape_numel(r->shape),
                .eps = r->eps,
                .centred = r->centred,
                .x = ol_tensor_data(d->x),
                .g = ol_data_of(d->g),
                .weight = ol_data_of(d->weight),
                .bias = ol_data_of(d->bias),
                .mean = facts,
                .rstd = facts + rows_of(r) };
}

static ol_status normalize(ol_error *error, ol_call *call, const request *r, const ol_dense *d) {
  const ol_shape shape = { .ndim = 2, .size = { 2, rows_of(r) } };
  OL_TRY(ol_tensor_new(error, OL_F64, &shape, &call->kept[0]));
  OL_TRY(ol_tensor_new(error, r->x->dtype, &r->x->shape, &call->out[0]));
  job j = make_job(r, d, call->kept[0]);
  j.y = ol_tensor_data(call->out[0]);
  ol_parallel_for(j.rows, ol_grain(2 * (double)j.length), forward_rows, &j);
  return OL_OK;
}

static ol_status forward(ol_error *error, ol_call *call, request r) {
  ol_dense d;
  OL_TRY(check(error, &r));
  OL_TRY(ol_dense_make(error, r.x, NULL, r.weight, r.bias, &d));
  ol_status status = normalize(error, call, &r, &d);
  ol_dense_release(&d);
  return status;
}

/* Adds up the blocks of column sums, in order, into gradients; either may be NULL. */
static void store_columns(const job *j, int64_t blocks, ol_tensor *weight, ol_tensor *bias) {
  ol_tensor *target[] = { weight, bias };
  for (int part = 0; part < 2; part++)
    for (int64_t i = 0; target[part] && i < j->length; i++) {
      double sum = 0;
      for (int64_t b = 0; b < blocks; b++) sum += j->columns[(2 * b + part) * j->length + i];
      if (j->dtype == OL_F32)
        ((float *)ol_tensor_data(target[part]))[i] = (float)sum;
      else
        ((double *)ol_tensor_data(target[part]))[i] = sum;
    }
}

static ol_status run_backward(ol_error *error, ol_back *back, job *j) {
  bool columns = false;
  for (int i = WEIGHT_SLOPE; i < back->inputs; i++) columns |= back->needs[i];
  j->block = OL_GRAIN / (j->length + 1);
  if (j->block < 64) j->block = 64;
  int64_t blocks = j->rows / j->block + 1;
  for (int i = INPUT_SLOPE; i < back->inputs; i++)
    if (back->needs[i]) OL_TRY(ol_back_new(error, back, i, &back->grad[i]));
  j->y = ol_data_of(back->grad[INPUT_SLOPE]);
  if (columns) {
    j->columns = ol_alloc_zero((size_t)(2 * blocks * j->length) * sizeof *j->columns);
    if (!j->columns) return ol_fail(error, OL_MEMORY, "out of memory: sums of %s", back->op->name);
  }
  ol_parallel_for(blocks, 1, backward_blocks, j);
  if (columns)
    store_columns(j, blocks, back->grad[WEIGHT_SLOPE],
                  back->inputs > BIAS_SLOPE ? back->grad[BIAS_SLOPE] : NULL);
  ol_free(j->columns);
  return OL_OK;
}

static ol_status backward(ol_error *error, ol_back *back, request r) {
  ol_dense d;
  OL_TRY(ol_dense_make(error, r.x, back->grad_out[0], r.weight, NULL, &d));
  job j = make_job(&r, &d, back->kept[0]);
  ol_status status = run_backward(error, back, &j);
  ol_dense_release(&d);
  return status;
}

static ol_status layer_forward(ol_error *error, ol_call *call) {
  return forward(error, call, read_layer(call->op, call->arg));
}

static ol_status layer_backward(ol_error *error, ol_back *back) {
  return backward(error, back, read_layer(back->op, back->arg));
}

static ol_status rms_forward(ol_error *error, ol_call *call) {
  return forward(error, call, read_rms(call->op, call->arg));
}

static ol_status rms_backward(ol_error *error, ol_back *back) {
  return backward(error, back, read_rms(back->op, back->arg));
}

static const ol_op ops[] = {
  { .name = "layer_norm",
    .doc = "Normalises the last dimensions, of shape normalized_shape, to mean 0 and variance 1; "
           "then times weight plus bias.",
    .example = "print(optlua.layer_norm(optlua.tensor({ 1, 3 }), { 2 })) "
               "--> tensor([-1.0000,  1.0000])",
    .samples = "{ { t(3, 4), { 4 } }, { t(3, 4), { 4 }, t(4), t(4) }, "
               "{ t(2, 3, 4), { 3, 4 }, t(3, 4), t(3, 4), { eps = 0.1 } }, "
               "{ t(4), { 4 }, t(4) }, { t(3, 4), { 4 }, { bias = t(4) } }, "
               "{ t(4, 3):t(), { 4 }, t(4, 2):select(2, 1), t(1):expand(4) }, "
               "{ t(3, 1):expand(3, 2):add(c(3, 2)), { 2 }, t(2), t(2), { eps = 0.1 } }, "
               "{ t(0, 4), { 4 }, t(4), t(4) } }",
    .param = { { "input", OL_TENSOR },
               { "normalized_shape", OL_SIZES, .doc = "the last sizes of the input" },
               { "weight", OL_TENSOR, true, .doc = "of normalized_shape; default: ones" },
               { "bias", OL_TENSOR, true, .doc = "of normalized_shape; default: zeros" },
               { "eps", OL_NUMBER, true, 1e-5, .doc = "added to the variance" } },
    .saves = OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = layer_forward,
    .backward = layer_backward },
  { .name = "rms_norm",
    .doc = "Divides the last dimensions, of shape normalized_shape, by the root of their mean "
           "square plus eps; then times weight.",
    .example = "print(optlua.rms_norm(optlua.tensor({ 1, 7 }), { 2 })) "
               "--> tensor([0.2000, 1.4000])",
    .samples = "{ { t(3, 4), { 4 } }, { t(3, 4), { 4 }, t(4) }, "
               "{ t(2, 3, 4), { 3, 4 }, t(3, 4), { eps = 0.1 } }, { t(4), { 4 }, t(4), 1e-3 }, "
               "{ t(4, 3):t(), { 4 }, t(4, 2):select(2, 1) }, { t(0, 4), { 4 }, t(4) } }",
    .param = { { "input", OL_TENSOR },
               { "normalized_shape", OL_SIZES, .doc = "the last sizes of the input" },
               { "weight", OL_TENSOR, true, .doc = "of normalized_shape; default: ones" },
               { "eps", OL_NUMBER, true, .doc = "default: the epsilon of the dtype" } },
    .saves = OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = rms_forward,
    .backward = rms_backward },
  { 0 }
};

const ol_family ol_layernorm_ops = { .name = "layernorm",
                                     .doc = "Layer normalisation",
                                     .ops = ops };
