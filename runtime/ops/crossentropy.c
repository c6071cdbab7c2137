/* crossentropy: losses of classes, forward and backward row by row.
 *
 * A class c counts v = w (rest q + even): w its weight, q its share of the target (of a label 1 or
 * 0), smoothed. With V the sum of v over the classes, the loss of a row is V log(Σ exp x) - Σ v x,
 * and its gradient V softmax(x) - v. (Label smoothing: Szegedy et al., 2016, section 7.) */
#include <string.h>

#include "base/lanes.h"
#include "base/parallel.h"
#include "base/vecmath.h"
#include "ops/dense.h"
#include "ops/families.h"
#include "ops/lastdim.h"
#include "ops/softmax.h"
#include "ops/targets.h"

/* v of class i; weights and shares may be NULL. */
#define SHARE(i) ((w ? (double)w[i] : 1.0) * ((q ? rest * (double)q[i] : 0.0) + even))

/* sum[0] = Σ v, sum[1] = Σ v (x - max). */
#define ADD_SHARE(i, k)                                                                            \
  do {                                                                                             \
    const double share = SHARE(i);                                                                 \
    v[k] += share;                                                                                 \
    vx[k] += share * ((double)x[i] - max);                                                         \
  } while (0)

#define DEFINE_SUMS(suffix, type)                                                                  \
  OL_KERNEL static void sums_##suffix(int64_t count, const void *row, double max,                  \
                                      const void *shares, const void *weights, double rest,        \
                                      double even, double sum[2]) {                                \
    const type *x = row, *q = shares, *w = weights;                                                \
    double v[OL_SUM_LANES] = { 0 }, vx[OL_SUM_LANES] = { 0 };                                      \
    OL_EACH_LANE(count, ADD_SHARE(i, k));                                                          \
    sum[0] = ol_merge_lanes(v);                                                                    \
    sum[1] = ol_merge_lanes(vx);                                                                   \
  }

/* z = p e - s v, in double. */
#define DEFINE_SLOPE(suffix, type)                                                                 \
  OL_KERNEL static void slope_##suffix(int64_t count, const void *powers, double p,                \
                                       const void *shares, const void *weights, double rest,       \
                                       double even, double s, void *result) {                      \
    const type *e = powers, *q = shares, *w = weights;                                             \
    type *z = result;                                                                              \
    if (!q && even == 0) {                                                                         \
      OL_APART for (int64_t i = 0; i < count; i++) z[i] = (type)(p * (double)e[i]);                \
      return;                                                                                      \
    }                                                                                              \
    OL_APART for (int64_t i = 0; i < count; i++) z[i] = (type)(p * (double)e[i] - s * SHARE(i));   \
  }

/* z = s w (total - x): the slope by the shares. */
#define DEFINE_SHARE_SLOPE(suffix, type)                                                           \
  OL_KERNEL static void share_slope_##suffix(int64_t count, const void *row, double total,         \
                                             const void *weights, double s, void *result) {        \
    const type *x = row, *w = weights;                                                             \
    type *z = result;                                                                              \
    OL_APART for (int64_t i = 0; i < count; i++) z[i] =                                            \
        (type)(s * (w ? (double)w[i] : 1.0) * (total - (double)x[i]));                             \
  }

DEFINE_SUMS(f32, float)
DEFINE_SUMS(f64, double)
DEFINE_SLOPE(f32, float)
DEFINE_SLOPE(f64, double)
DEFINE_SHARE_SLOPE(f32, float)
DEFINE_SHARE_SLOPE(f64, double)

/* The arguments of cross_entropy and nll_loss, by place. */
enum { INPUT, TARGET, WEIGHT, IGNORE_INDEX, REDUCTION, LABEL_SMOOTHING };

/* What is known of each row, in one tensor of float64, (5, rows): kept for backward. */
enum { MAX, SUM, LOG, V, LOSS, FACTS };

typedef struct job {
  const ol_targets *targets;
  ol_dtype dtype;
  int64_t rows, classes;
  double rest, even; /* of smoothing: 1 - ε, ε / classes */
  const void *x, *shares, *weights;
  const int64_t *label; /* NULL with shares */
  void *powers;         /* exp(x - max), (rows, classes) */
  double *fact[FACTS];
  ol_loss_seed seed; /* of backward */
  void *x_slope, *share_slope;
} job;

static job make_job(const ol_targets *t, double smoothing, ol_tensor *powers, ol_tensor *facts) {
  job j = { .targets = t,
            .dtype = t->rows->dtype,
            .rows = ol_row_count(t->rows),
            .classes = ol_row_length(t->rows),
            .rest = 1 - smoothing,
            .x = ol_tensor_data(t->rows),
            .shares = ol_data_of(t->shares),
            .weights = ol_data_of(t->weights),
            .label = ol_data_of(t->labels),
            .powers = ol_tensor_data(powers) };
  j.even = smoothing / (double)j.classes;
  for (int i = 0; i < FACTS; i++) j.fact[i] = (double *)ol_tensor_data(facts) + i * j.rows;
  return j;
}

static void run(job *j, ol_range_fn *fn) {
  ol_parallel_for(j->rows, ol_grain(4 * (double)j->classes), fn, j);
}

/* The address of row r of an operand; NULL stays NULL. */
static void *row(const job *j, const void *operand, int64_t r) {
  return operand ? (char *)operand + r * j->classes * (int64_t)ol_dtype_size(j->dtype) : NULL;
}

static double element(const job *j, const void *operand, int64_t r, int64_t class) {
  const void *at = row(j, operand, r);
  return j->dtype == OL_F32 ? ((const float *)at)[class] : ((const double *)at)[class];
}

static bool ignored(const job *j, int64_t r) {
  return j->label && j->label[r] == j->targets->ignored;
}

/* V and the loss of row r. */
static void row_loss(const job *j, int64_t r) {
  double sum[2] = { 0, 0 }, max = j->fact[MAX][r];
  if (!ignored(j, r)) {
    if (j->shares || j->even != 0)
      (j->dtype == OL_F32 ? sums_f32 : sums_f64)(j->classes, row(j, j->x, r), max,
                                                 row(j, j->shares, r), j->weights, j->rest, j->even,
                                                 sum);
    if (j->label) {
      double v = j->rest * ol_class_weight(j->targets, j->label[r]);
      sum[0] += v;
      sum[1] += v * (element(j, j->x, r, j->label[r]) - max);
    }
    j->fact[LOSS][r] = sum[0] * j->fact[LOG][r] - sum[1];
  } else
    j->fact[LOSS][r] = 0;
  j->fact[V][r] = sum[0];
}

static void loss_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  int64_t some = ol_exp_rows_at_once(j->classes);
  for (int64_t at = begin; at < end; at += some) {
    int64_t count = end - at < some ? end - at : some;
    ol_exp_rows(j->dtype, count, j->classes, row(j, j->x, at), row(j, j->powers, at),
                j->fact[MAX] + at, j->fact[SUM] + at);
    ol_vlog_f64(count, j->fact[SUM] + at, j->fact[LOG] + at);
    for (int64_t r = at; r < at + count; r++) row_loss(j, r);
  }
}

/* Makes what is kept, and the result. */
static ol_status losses(ol_error *error, ol_call *call, const ol_targets *t) {
  ol_shape shape = { .ndim = 2, .size = { FACTS, ol_row_count(t->rows) } };
  OL_TRY(ol_tensor_new(error, t->rows->dtype, &t->rows->shape, &call->kept[0]));
  OL_TRY(ol_tensor_new(error, OL_F64, &shape, &call->kept[1]));
  job j = make_job(t, call->arg[LABEL_SMOOTHING].number, call->kept[0], call->kept[1]);
  run(&j, loss_rows);
  return ol_reduce_losses(error, j.fact[LOSS], j.rows, &t->shape, call->arg[REDUCTION].choice,
                          t->total, j.dtype, &call->out[0]);
}

static ol_status make_targets(ol_error *error, const ol_op *op, const ol_value *arg,
                              bool probabilities, ol_targets *out) {
  return ol_targets_init(error, op->name, arg[INPUT].tensor, arg[TARGET].tensor, arg[WEIGHT].tensor,
                         arg[IGNORE_INDEX].integer, probabilities, out);
}

/* Class weights are data. */
static ol_status refuse_weight_gradient(ol_error *error, const ol_call *call) {
  const ol_tensor *weight = call->arg[WEIGHT].tensor;
  if (!call->recording || !weight || !weight->requires_grad) return OL_OK;
  return ol_fail(error, OL_STATE, "%s: weight has no gradient; pass weight:detach()",
                 call->op->name);
}

static ol_status cross_entropy_forward(ol_error *error, ol_call *call) {
  ol_targets targets;
  double smoothing = call->arg[LABEL_SMOOTHING].number;
  if (!(smoothing >= 0 && smoothing <= 1))
    return ol_fail(error, OL_ARGUMENT, "cross_entropy: label_smoothing is %g, wants 0 to 1",
                   ol_shown(smoothing));
  OL_TRY(refuse_weight_gradient(error, call));
  OL_TRY(make_targets(error, call->op, call->arg, true, &targets));
  ol_status status = losses(error, call, &targets);
  ol_targets_release(&targets);
  return status;
}

static void set(const job *j, void *z, int64_t class, double value) {
  if (j->dtype == OL_F32)
    ((float *)z)[class] = (float)value;
  else
    ((double *)z)[class] = value;
}

/* The gradient by row r of the input. */
static void x_slope(const job *j, int64_t r, double s) {
  void *z = row(j, j->x_slope, r);
  if (ignored(j, r)) {
    memset(z, 0, (size_t)j->classes * ol_dtype_size(j->dtype));
    return;
  }
  double p = s * j->fact[V][r] / j->fact[SUM][r];
  (j->dtype == OL_F32 ? slope_f32 : slope_f64)(j->classes, row(j, j->powers, r), p,
                                               row(j, j->shares, r), j->weights, j->rest, j->even,
                                               s, z);
  if (!j->label) return;
  int64_t label = j->label[r];
  double v = ol_class_weight(j->targets, label) * (j->rest + j->even);
  set(j, z, label, p * element(j, j->powers, r, label) - s * v);
}

static void slope_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t r = begin; r < end; r++) {
    double s = ol_loss_seed_at(&j->seed, r);
    if (j->x_slope) x_slope(j, r, s);
    if (j->share_slope)
      (j->dtype == OL_F32 ? share_slope_f32 : share_slope_f64)(
          j->classes, row(j, j->x, r), j->fact[MAX][r] + j->fact[LOG][r], j->weights, s * j->rest,
          row(j, j->share_slope, r));
  }
}

/* The gradients as rows. */
static ol_status slopes(ol_error *error, ol_back *back, const ol_targets *t, ol_tensor *rows[2]) {
  job j = make_job(t, back->arg[LABEL_SMOOTHING].number, back->kept[0], back->kept[1]);
  for (int i = INPUT; i <= TARGET; i++)
    if (back->needs[i]) OL_TRY(ol_tensor_new(error, j.dtype, &t->rows->shape, &rows[i]));
  j.x_slope = ol_data_of(rows[INPUT]);
  j.share_slope = ol_data_of(rows[TARGET]);
  OL_TRY(
      ol_loss_seed_init(error, back->grad_out[0], back->arg[REDUCTION].choice, t->total, &j.seed));
  run(&j, slope_rows);
  ol_release(j.seed.g);
  return OL_OK;
}

static ol_status cross_entropy_backward(ol_error *error, ol_back *back) {
  ol_targets targets;
  ol_tensor *rows[2] = { NULL, NULL };
  OL_TRY(make_targets(error, back->op, back->arg, true, &targets));
  ol_status status = slopes(error, back, &targets, rows);
  for (int i = INPUT; i <= TARGET; i++)
    if (status == OL_OK && rows[i])
      status = ol_move_back(error, rows[i], targets.dim, targets.ndim, &back->grad[i]);
  ol_release(rows[INPUT]);
  ol_release(rows[TARGET]);
  ol_targets_release(&targets);
  return status;
}

/* nll_loss: minus the weighted input at each label. */
static void nll_losses(const ol_targets *t, double *loss) {
  job j = { .dtype = t->rows->dtype, .classes = ol_row_length(t->rows) };
  const int64_t *label = ol_tensor_data(t->labels);
  for (int64_t r = 0; r < ol_row_count(t->rows); r++) {
    loss[r] = 0;
    if (label[r] == t->ignored) continue;
    loss[r] -= ol_class_weight(t, label[r]) * element(&j, ol_tensor_data(t->rows), r, label[r]);
  }
}

static ol_status nll_reduced(ol_error *error, ol_call *call, const ol_targets *t) {
  ol_tensor *loss;
  OL_TRY(ol_tensor_new(error, OL_F64, &t->shape, &loss));
  nll_losses(t, ol_tensor_data(loss));
  ol_status status =
      ol_reduce_losses(error, ol_tensor_data(loss), loss->numel, &t->shape,
                       call->arg[REDUCTION].choice, t->total, t->rows->dtype, &call->out[0]);
  ol_release(loss);
  return status;
}

static ol_status nll_forward(ol_error *error, ol_call *call) {
  ol_targets targets;
  OL_TRY(refuse_weight_gradient(error, call));
  OL_TRY(make_targets(error, call->op, call->arg, false, &targets));
  ol_status status = nll_reduced(error, call, &targets);
  ol_targets_release(&targets);
  return status;
}

/* Zeros, and minus the weight at each label. */
static ol_status nll_slope(ol_error *error, ol_back *back, const ol_targets *t, ol_tensor **out) {
  ol_loss_seed seed;
  OL_TRY(ol_tensor_zeros(error, t->rows->dtype, &t->rows->shape, out));
  OL_TRY(ol_loss_seed_init(error, back->grad_out[0], back->arg[REDUCTION].choice, t->total, &seed));
  job j = { .dtype = t->rows->dtype, .classes = ol_row_length(t->rows) };
  const int64_t *label = ol_tensor_data(t->labels);
  for (int64_t r = 0; r < ol_row_count(t->rows); r++) {
    if (label[r] == t->ignored) continue;
    set(&j, row(&j, ol_tensor_data(*out), r), label[r],
        -ol_loss_seed_at(&seed, r) * ol_class_weight(t, label[r]));
  }
  ol_release(seed.g);
  return OL_OK;
}

static ol_status nll_backward(ol_error *error, ol_back *back) {
  ol_targets targets;
  ol_tensor *rows = NULL;
  OL_TRY(make_targets(error, back->op, back->arg, false, &targets));
  ol_status status = nll_slope(error, back, &targets, &rows);
  if (status == OL_OK)
    status = ol_move_back(error, rows, targets.dim, targets.ndim, &back->grad[INPUT]);
  ol_release(rows);
  ol_targets_release(&targets);
  return status;
}

#define SHARED_PARAMS                                                                              \
  { "target", OL_TENSOR, .doc = "labels (N, …), from 0" },                                         \
      { "weight", OL_TENSOR, true, .doc = "(C): of each class; default: ones" },                   \
      { "ignore_index", OL_DATA, true, -100, .doc = "a label that does not count" },               \
      { "reduction", OL_CHOICE,     true,                                                          \
        OL_MEAN,     OL_REDUCTIONS, .doc = "the mean is weighted, and 0 where nothing counts" }

static const ol_op ops[] = {
  { .name = "cross_entropy",
    .doc = "Cross-entropy of logits (N, C, …) or (C) and targets: labels, or probabilities of the "
           "input's shape. A label that is no class is an error.",
    .example = "print(optlua.cross_entropy(optlua.zeros(1, 2), optlua.tensor({ 1 }, "
               "{ dtype = \"int64\" }))) --> tensor(0.6931)",
    .samples =
        "{ { t(3, 4), i({3}, 4) }, { t(4), i({}, 4) }, { t(2, 4, 3), i({2, 3}, 4) }, "
        "{ t(3, 4), i({3}, 4), p(4):detach() }, { t(3, 4), i({3}, 4), { label_smoothing = 0.2 } }, "
        "{ t(3, 4), i({3}, 4), p(4):detach(), { label_smoothing = 0.2, reduction = \"none\" } }, "
        "{ t(3, 4), i({3}, 4), { ignore_index = 1, reduction = \"sum\" } }, "
        "{ t(3, 4), i({3}, 4), { reduction = \"none\" } }, "
        "{ t(3, 4), p(3, 4) }, { t(2, 4, 3), p(2, 4, 3), p(4):detach(), { label_smoothing = 0.1 } "
        "}, "
        "{ t(4, 3):t(), i({3}, 4) }, { t(3, 1):expand(3, 4), i({3}, 4) }, "
        "{ t(0, 4), i({0}, 4) }, { t(0, 4), i({0}, 4), { reduction = \"none\" } } }",
    .param = { { "input", OL_TENSOR, .doc = "logits (N, C, …)" },
               SHARED_PARAMS,
               { "label_smoothing", OL_NUMBER, true, 0, .doc = "0 … 1, spread over all classes" } },
    .saves = OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(TARGET) | OL_SAVE_ARG(WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = cross_entropy_forward,
    .backward = cross_entropy_backward },
  { .name = "nll_loss",
    .doc = "Negative log-likelihood of labels, for log-probabilities (N, C, …) or (C).",
    .example = "print(optlua.nll_loss(optlua.tensor({ { -1, -2 } }), optlua.tensor({ 1 }, "
               "{ dtype = \"int64\" }))) --> tensor(2.)",
    .samples = "{ { t(3, 4), i({3}, 4) }, { t(4), i({}, 4) }, { t(2, 4, 3), i({2, 3}, 4), "
               "p(4):detach() }, "
               "{ t(3, 4), i({3}, 4), { reduction = \"none\" } }, "
               "{ t(3, 4), i({3}, 4), { ignore_index = 1, reduction = \"sum\" } }, "
               "{ t(4, 3):t(), i({3}, 4) }, { t(0, 4), i({0}, 4) } }",
    .param = { { "input", OL_TENSOR, .doc = "log-probabilities (N, C, …)" }, SHARED_PARAMS },
    .saves = OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(TARGET) | OL_SAVE_ARG(WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = nll_forward,
    .backward = nll_backward },
  { 0 }
};

const ol_family ol_crossentropy_ops = { .name = "crossentropy",
                                        .doc = "Losses of classes",
                                        .ops = ops };
