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
#include "ops/families.h"
#include "ops/reduce.h"

enum { LANES = 16 };

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

static void *data_of(const ol_tensor *tensor) { return tensor ? ol_tensor_data(tensor) : NULL; }

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

/* The arguments, dense. */
typedef struct arguments {
  ol_tensor *x, *weight, *bias;
  int64_t length;
} arguments;

static void release(arguments *a) {
  ol_release(a->x);
  ol_release(a->weight);
  ol_release(a->bias);
}

/* What an op of the family does with the mean, and its arguments where they differ. */
static bool centres(const ol_op *op) { return op->param[BIAS].kind == OL_TENSOR; }

static ol_tensor *bias_of(const ol_op *op, const ol_value *arg) {
  return centres(op) ? arg[BIAS].tensor : NULL;
}

static double eps_of(const ol_op *op, const ol_value *arg, ol_dtype dtype) {
  if (centres(op)) return arg[EPS].number;
  if (arg[RMS_EPS].given) return arg[RMS_EPS].number;
  return dtype == OL_F32 ? FLT_EPSILON : DBL_EPSILON;
}

static ol_status check_part(ol_error *error, const char *op, const char *name,
                            const ol_tensor *part, const ol_value *arg) {
  char own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  const ol_tensor *x = arg[INPUT].tensor;
  if (!part) return OL_OK;
  if (part->dtype != x->dtype)
    return ol_fail(error, OL_DTYPE, "%s: %s is %s, input %s", op, name, ol_dtype_name(part->dtype),
                   ol_dtype_name(x->dtype));
  if (ol_shape_equal(&part->shape, &arg[SHAPE].list)) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: %s has shape %s, wants %s", op, name,
                 ol_shape_text(&part->shape, own), ol_shape_text(&arg[SHAPE].list, wanted));
}

/* The input must end in the normalized shape. */
static ol_status check(ol_error *error, const ol_op *op, const ol_value *arg) {
  char own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  const ol_shape *x = &arg[INPUT].tensor->shape, *shape = &arg[SHAPE].list;
  OL_TRY(ol_reduce_check(error, op->name, arg[INPUT].tensor->dtype, true));
  bool fits = shape->ndim > 0 && shape->ndim <= x->ndim;
  for (int d = 0; fits && d < shape->ndim; d++)
    fits = x->size[x->ndim - shape->ndim + d] == shape->size[d];
  if (!fits)
    return ol_fail(error, OL_SHAPE, "%s: input of shape %s does not end in the normalized shape %s",
                   op->name, ol_shape_text(x, own), ol_shape_text(shape, wanted));
  OL_TRY(check_part(error, op->name, "weight", arg[WEIGHT].tensor, arg));
  return check_part(error, op->name, "bias", bias_of(op, arg), arg);
}

static ol_status arrange(ol_error *error, const ol_op *op, const ol_value *arg, arguments *out) {
  arguments a = { .length = ol_shape_numel(&arg[SHAPE].list) };
  ol_tensor *weight = arg[WEIGHT].tensor, *bias = bias_of(op, arg);
  ol_status status = ol_tensor_contiguous(error, arg[INPUT].tensor, &a.x);
  if (status == OL_OK && weight) status = ol_tensor_contiguous(error, weight, &a.weight);
  if (status == OL_OK && bias) status = ol_tensor_contiguous(error, bias, &a.bias);
  if (status == OL_OK)
    *out = a;
  else
    release(&a);
  return status;
}

static job make_job(const arguments *a, const ol_op *op, const ol_value *arg,
                    ol_tensor *statistics) {
  int64_t rows = a->length ? a->x->numel / a->length : 0;
  double *facts = ol_tensor_data(statistics);
  return (job){ .dtype = a->x->dtype,
                .rows = rows,
                .length = a->length,
                .eps = eps_of(op, arg, a->x->dtype),
                .centred = centres(op),
                .x = ol_tensor_data(a->x),
                .weight = data_of(a->weight),
                .bias = data_of(a->bias),
                .mean = facts,
                .rstd = facts + rows };
}

static ol_status normalize(ol_error *error, ol_call *call, const arguments *a) {
  ol_shape shape = { .ndim = 2, .size = { 2, a->length ? a->x->numel / a->length : 0 } };
  OL_TRY(ol_tensor_new(error, OL_F64, &shape, &call->kept[0]));
  OL_TRY(ol_tensor_new(error, a->x->dtype, &a->x->shape, &call->out[0]));
  job j = make_job(a, call->op, call->arg, call->kept[0]);
  j.y = ol_tensor_data(call->out[0]);
  ol_parallel_for(j.rows, ol_grain(2 * (double)j.length), forward_rows, &j);
  return OL_OK;
}

static ol_status forward(ol_error *error, ol_call *call) {
  arguments a;
  OL_TRY(check(error, call->op, call->arg));
  OL_TRY(arrange(error, call->op, call->arg, &a));
  ol_status status = normalize(error, call, &a);
  release(&a);
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
  j->y = data_of(back->grad[INPUT_SLOPE]);
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

static ol_status backward(ol_error *error, ol_back *back) {
  arguments a;
  ol_tensor *g;
  OL_TRY(arrange(error, back->op, back->arg, &a));
  ol_status status = ol_tensor_contiguous(error, back->grad_out[0], &g);
  if (status == OL_OK) {
    job j = make_job(&a, back->op, back->arg, back->kept[0]);
    j.g = ol_tensor_data(g);
    status = run_backward(error, back, &j);
    ol_release(g);
  }
  release(&a);
  return status;
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
    .forward = forward,
    .backward = backward },
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
    .forward = forward,
    .backward = backward },
  { 0 }
};

const ol_family ol_layernorm_ops = { .name = "layernorm",
                                     .doc = "Layer normalisation",
                                     .ops = ops };
