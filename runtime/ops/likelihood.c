/* likelihood: losses of targets that are probabilities. */
#include <string.h>

#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/pair.h"
#include "ops/unary.h"

enum { INPUT = OL_PAIR_INPUT, TARGET = OL_PAIR_TARGET };

/* The gradient of every input that wants one, of the seed g: slope[i] of what follows. */
typedef struct slopes {
  const ol_rows *rows[2]; /* of input and target: of (g, tensors) */
  ol_tensor *x[2][2];     /* those tensors, NULL where there are fewer */
} slopes;

static ol_status run_slopes(ol_error *error, ol_back *back, const slopes *all, ol_tensor *g) {
  for (int i = INPUT; i <= TARGET; i++) {
    ol_tensor *x[] = { g, all->x[i][0], all->x[i][1] };
    int count = !x[1] ? 1 : !x[2] ? 2 : 3;
    if (back->needs[i])
      OL_TRY(ol_map(error, back->op->name, all->rows[i], count, x, NULL, &back->grad[i]));
  }
  return OL_OK;
}

/* binary_cross_entropy: logarithms are at least -100, so that no loss is infinite. */
#define FLOOR(v)                     ((v) < -100 ? -100 : (v))
#define BCE(y, logx, logrest)        (((y) - 1) * FLOOR(logrest) - (y) * FLOOR(logx))
#define BCE_TARGET(g, logx, logrest) ((g) * (FLOOR(logrest) - FLOOR(logx)))

#define DEFINE_BCE(suffix, T)                                                                      \
  static void logarithms_##suffix(int64_t count, const T *x, T *v, T *w) {                         \
    OL_ASSUME_TILE(count);                                                                         \
    for (int64_t i = 0; i < count; i++) w[i] = -x[i];                                              \
    ol_vlog_##suffix(count, x, v);                                                                 \
    ol_vlog1p_##suffix(count, w, w);                                                               \
  }                                                                                                \
  OL_KERNEL static void bce_##suffix(int64_t count, char *const *data, const double *scalars) {    \
    const T *y = (const T *)data[2];                                                               \
    T v[OL_TILE], w[OL_TILE], *out = (T *)data[0];                                                 \
    (void)scalars;                                                                                 \
    logarithms_##suffix(count, (const T *)data[1], v, w);                                          \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = BCE(y[i], v[i], w[i]);                   \
  }                                                                                                \
  OL_KERNEL static void bce_target_##suffix(int64_t count, char *const *data,                      \
                                            const double *scalars) {                               \
    const T *g = (const T *)data[1];                                                               \
    T v[OL_TILE], w[OL_TILE], *out = (T *)data[0];                                                 \
    (void)scalars;                                                                                 \
    logarithms_##suffix(count, (const T *)data[2], v, w);                                          \
    OL_APART for (int64_t i = 0; i < count; i++) out[i] = BCE_TARGET(g[i], v[i], w[i]);            \
  }
DEFINE_BCE(f32, float)
DEFINE_BCE(f64, double)
OL_ROWS_OF_FLOATS(bce)
OL_ROWS_OF_FLOATS(bce_target)

#define SPREAD(x)          ((1 - (x)) * (x) > (T)1e-12 ? (1 - (x)) * (x) : (T)1e-12)
#define BCE_SLOPE(g, x, y) ((g) * ((x) - (y)) / SPREAD(x))
#define PROBABILITY(x)     ((x) >= 0 && (x) <= 1)
OL_FLOATS(bce_slope, 3, BCE_SLOPE)
OL_MASKS(probability, 1, PROBABILITY)

static ol_status check_probabilities(ol_error *error, const char *op, const char *name,
                                     ol_tensor *x) {
  ol_tensor *mask;
  OL_TRY(ol_unary(error, op, &probability, x, &mask));
  bool good = memchr(ol_tensor_data(mask), 0, (size_t)mask->numel) == NULL;
  ol_release(mask);
  if (good) return OL_OK;
  return ol_fail(error, OL_ARGUMENT, "%s: an element of %s is not a probability, from 0 to 1", op,
                 name);
}

/* The parameters of both cross-entropies, by place. */
enum { WEIGHT = 2, REDUCTION, POS_WEIGHT };

static ol_status bce_forward(ol_error *error, ol_call *call) {
  ol_tensor *pair[] = { call->arg[INPUT].tensor, call->arg[TARGET].tensor }, *each;
  ol_tensor *weight = call->arg[WEIGHT].tensor;
  const char *op = call->op->name;
  OL_TRY(ol_pair_check(error, op, pair[0], pair[1]));
  OL_TRY(ol_pair_check_weights(error, call, "weight", weight, &pair[0]->shape));
  OL_TRY(check_probabilities(error, op, "input", pair[0]));
  OL_TRY(ol_map(error, op, &bce, 2, pair, NULL, &each));
  return ol_pair_reduce(error, each, weight, call->arg[REDUCTION].choice, OL_ALL_LOSSES,
                        &call->out[0]);
}

static ol_status bce_backward(ol_error *error, ol_back *back) {
  ol_tensor *x = back->arg[INPUT].tensor, *y = back->arg[TARGET].tensor, *g;
  const slopes all = { { &bce_slope, &bce_target }, { { x, y }, { x } } };
  OL_TRY(ol_pair_seed(error, back->grad_out[0], back->arg[WEIGHT].tensor,
                      back->arg[REDUCTION].choice, OL_ALL_LOSSES, x->numel, &g));
  ol_status status = run_slopes(error, back, &all, g);
  ol_release(g);
  return status;
}

/* binary_cross_entropy_with_logits. With v = log(1 + exp(-|x|)), log(1 + exp(-x)) is v + max(-x,
 * 0). p is pos_weight, the weight of y log sigmoid(x). */
#define BEYOND(x, v)              ((v) + ((x) < 0 ? -(x) : 0))
#define LOGIT(y, x, v)            ((1 - (y)) * (x) + BEYOND(x, v))
#define LOGIT_P(y, p, x, v)       ((1 - (y)) * (x) + (1 + ((p) - 1) * (y)) * BEYOND(x, v))
#define LOGIT_SLOPE(g, y, x, v)   ((g) * (1 / (1 + (v)) - (y)))
#define LOGIT_SLOPE_P(y, p, x, v) ((1 + ((p) - 1) * (y)) / (1 + (v)) - (p) * (y))
#define LOGIT_TARGET(g, x)        (-(g) * (x))
#define LOGIT_TARGET_P(p, x, v)   (((p) - 1) * BEYOND(x, v) - (x))
OL_FLOATS_VIA(logit, 2, ol_log1p_exp, OL_MINUS_ABS, LOGIT)
OL_FLOATS_VIA(logit_p, 3, ol_log1p_exp, OL_MINUS_ABS, LOGIT_P)
OL_FLOATS_VIA(logit_slope, 3, ol_vexp, OL_MINUS, LOGIT_SLOPE)
OL_FLOATS_VIA(logit_slope_p, 3, ol_vexp, OL_MINUS, LOGIT_SLOPE_P)
OL_FLOATS(logit_target, 2, LOGIT_TARGET)
OL_FLOATS_VIA(logit_target_p, 2, ol_log1p_exp, OL_MINUS_ABS, LOGIT_TARGET_P)

static ol_status logit_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[INPUT].tensor, *y = call->arg[TARGET].tensor, *each;
  ol_tensor *weight = call->arg[WEIGHT].tensor, *p = call->arg[POS_WEIGHT].tensor;
  const char *op = call->op->name;
  OL_TRY(ol_pair_check(error, op, x, y));
  OL_TRY(ol_pair_check_weights(error, call, "weight", weight, &x->shape));
  OL_TRY(ol_pair_check_weights(error, call, "pos_weight", p, &x->shape));
  if (p)
    OL_TRY(ol_ternary(error, op, &logit_p, y, p, x, &each));
  else
    OL_TRY(ol_binary(error, op, &logit, y, x, &each));
  return ol_pair_reduce(error, each, weight, call->arg[REDUCTION].choice, OL_ALL_LOSSES,
                        &call->out[0]);
}

/* With pos_weight: the slopes of (y, p, x) and (p, x), times g. */
static ol_status weighted_slopes(ol_error *error, ol_back *back, ol_tensor *g) {
  ol_tensor *x = back->arg[INPUT].tensor, *y = back->arg[TARGET].tensor;
  ol_tensor *p = back->arg[POS_WEIGHT].tensor, *three[] = { y, p, x };
  for (int i = INPUT; i <= TARGET; i++) {
    ol_tensor *rate;
    if (!back->needs[i]) continue;
    OL_TRY(ol_map(error, back->op->name, i == INPUT ? &logit_slope_p : &logit_target_p,
                  i == INPUT ? 3 : 2, three + i, NULL, &rate));
    ol_status status = ol_mul(error, g, rate, &back->grad[i]);
    ol_release(rate);
    OL_TRY(status);
  }
  return OL_OK;
}

static ol_status logit_backward(ol_error *error, ol_back *back) {
  ol_tensor *x = back->arg[INPUT].tensor, *y = back->arg[TARGET].tensor, *g;
  const slopes all = { { &logit_slope, &logit_target }, { { y, x }, { x } } };
  OL_TRY(ol_pair_seed(error, back->grad_out[0], back->arg[WEIGHT].tensor,
                      back->arg[REDUCTION].choice, OL_ALL_LOSSES, x->numel, &g));
  ol_status status = back->arg[POS_WEIGHT].tensor ? weighted_slopes(error, back, g)
                                                  : run_slopes(error, back, &all, g);
  ol_release(g);
  return status;
}

/* kl_div (Kullback & Leibler, 1951): y (log y - x), 0 where y is 0; of a target y, or of its
 * logarithm l. */
#define KL(x, y, v)               ((y) == 0 ? 0 : (y) * ((v) - (x)))
#define KL_LOG(x, l, v)           ((v) == 0 ? 0 : (v) * ((l) - (x)))
#define KL_SLOPE(g, y)            (-(g) * (y))
#define KL_LOG_SLOPE(g, l, v)     (-(g) * (v))
#define KL_TARGET(g, x, y, v)     ((g) * ((v) + 1 - (x)))
#define KL_LOG_TARGET(g, x, l, v) ((v) == 0 ? 0 : (g) * ((v) * ((l) - (x) + 1)))
OL_FLOATS_VIA(kl, 2, ol_vlog, OL_SAME, KL)
OL_FLOATS_VIA(kl_log, 2, ol_vexp, OL_SAME, KL_LOG)
OL_FLOATS(kl_slope, 2, KL_SLOPE)
OL_FLOATS_VIA(kl_log_slope, 2, ol_vexp, OL_SAME, KL_LOG_SLOPE)
OL_FLOATS_VIA(kl_target, 3, ol_vlog, OL_SAME, KL_TARGET)
OL_FLOATS_VIA(kl_log_target, 3, ol_vexp, OL_SAME, KL_LOG_TARGET)

enum { KL_REDUCTION = 2, LOG_TARGET, BATCHMEAN = OL_NONE + 1 };

/* The reduction, and what its mean divides by. */
static ol_reduction kl_reduction(const ol_value *arg, const ol_shape *shape, double *total) {
  int choice = arg[KL_REDUCTION].choice;
  *total = OL_ALL_LOSSES;
  if (choice != BATCHMEAN) return choice;
  if (shape->ndim > 0) *total = (double)shape->size[0];
  return shape->ndim > 0 ? OL_MEAN : OL_SUM;
}

static ol_status kl_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[INPUT].tensor, *y = call->arg[TARGET].tensor, *each;
  double total;
  OL_TRY(ol_pair_check(error, call->op->name, x, y));
  ol_reduction reduction = kl_reduction(call->arg, &x->shape, &total);
  OL_TRY(ol_binary(error, call->op->name, call->arg[LOG_TARGET].flag ? &kl_log : &kl, x, y, &each));
  return ol_pair_reduce(error, each, NULL, reduction, total, &call->out[0]);
}

static ol_status kl_backward(ol_error *error, ol_back *back) {
  ol_tensor *x = back->arg[INPUT].tensor, *y = back->arg[TARGET].tensor, *g;
  const slopes plain = { { &kl_slope, &kl_target }, { { y }, { x, y } } };
  const slopes logs = { { &kl_log_slope, &kl_log_target }, { { y }, { x, y } } };
  double total;
  ol_reduction reduction = kl_reduction(back->arg, &y->shape, &total);
  OL_TRY(ol_pair_seed(error, back->grad_out[0], NULL, reduction, total, y->numel, &g));
  ol_status status = run_slopes(error, back, back->arg[LOG_TARGET].flag ? &logs : &plain, g);
  ol_release(g);
  return status;
}

#define SAVED OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(TARGET)
#define WEIGHT_PARAM                                                                               \
  { "weight", OL_TENSOR, true, .doc = "of each loss; broadcasts to the input's shape" }

static const ol_op ops[] = {
  { .name = "binary_cross_entropy",
    .doc = "Cross-entropy of probabilities and targets from 0 to 1. Logarithms below -100 count as "
           "-100.",
    .example = "print(optlua.binary_cross_entropy(optlua.tensor({ 0.5, 1 }), "
               "optlua.tensor({ 1, 1 }))) --> tensor(0.3466)",
    .samples = "{ { u(3, 4):abs(), u(3, 4):abs() }, "
               "{ u(3, 4):abs(), u(4, 3):abs():t(), { reduction = \"none\" } }, "
               "{ u(2, 3):abs(), u(2, 3):abs(), p(3):detach(), { reduction = \"sum\" } }, "
               "{ u(2, 3):abs(), u(2, 3):abs(), p(2, 1):detach() }, "
               "{ u():abs(), u():abs() }, { u(0, 2), u(0, 2), { reduction = \"sum\" } }, "
               "{ u(1, 4):abs():expand(3, 4), u(3, 4):abs():detach() } }",
    .param = { OL_PAIR_PARAMS, WEIGHT_PARAM, OL_REDUCTION_PARAM },
    .saves = SAVED | OL_SAVE_ARG(WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = bce_forward,
    .backward = bce_backward },
  { .name = "binary_cross_entropy_with_logits",
    .doc = "Cross-entropy of sigmoid(input) and targets from 0 to 1, exact for large inputs.",
    .example = "print(optlua.binary_cross_entropy_with_logits(optlua.tensor({ 0, 100 }), "
               "optlua.tensor({ 1, 1 }))) --> tensor(0.3466)",
    .samples = "{ { t(3, 4), u(3, 4):abs() }, "
               "{ t(3, 4), u(4, 3):abs():t(), { reduction = \"none\" } }, "
               "{ t(2, 3), u(2, 3):abs(), p(3):detach(), { reduction = \"sum\" } }, "
               "{ t(2, 3), u(2, 3):abs(), { pos_weight = p(3):detach() } }, "
               "{ t(2, 3), u(2, 3):abs(), p(2, 1):detach(), \"none\", p(3):detach() }, "
               "{ t(), u():abs() }, { t(0, 2), u(0, 2), { reduction = \"sum\" } }, "
               "{ t(1, 4):expand(3, 4), u(3, 4):abs():detach() } }",
    .param = { OL_PAIR_PARAMS,
               WEIGHT_PARAM,
               OL_REDUCTION_PARAM,
               { "pos_weight", OL_TENSOR, true,
                 .doc = "of targets that are 1; broadcasts to the input's shape" } },
    .saves = SAVED | OL_SAVE_ARG(WEIGHT) | OL_SAVE_ARG(POS_WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = logit_forward,
    .backward = logit_backward },
  { .name = "kl_div",
    .doc = "target (log target - input), the divergence of log-probabilities from a target "
           "distribution. batchmean: the sum over the first dimension's size.",
    .example = "print(optlua.kl_div(optlua.tensor({ 0.5, 0.5 }):log(), optlua.tensor({ 1, 0 }), "
               "\"sum\")) --> tensor(0.6931)",
    .samples = "{ { t(3, 4), p(3, 4) }, { t(3, 4), p(4, 3):t(), { reduction = \"none\" } }, "
               "{ t(3, 4), p(3, 4), { reduction = \"batchmean\" } }, "
               "{ t(3, 4), t(3, 4), \"sum\", true }, { t(3, 4), t(3, 4), { log_target = true } }, "
               "{ t(), p() }, { t(0, 2), p(0, 2), { reduction = \"sum\" } }, "
               "{ t(1, 4):expand(3, 4), p(3, 4):detach() } }",
    .param = { { "input", OL_TENSOR, .doc = "log-probabilities" },
               { "target", OL_TENSOR, .doc = "of the input's shape" },
               { "reduction", OL_CHOICE, true, OL_MEAN, OL_REDUCTIONS "|batchmean" },
               { "log_target", OL_FLAG, true, .doc = "the target is log-probabilities too" } },
    .saves = SAVED,
    .flags = OL_OP_FUNCTION,
    .forward = kl_forward,
    .backward = kl_backward },
  { 0 }
};

const ol_family ol_likelihood_ops = { .name = "likelihood",
                                      .doc = "Losses of probabilities",
                                      .ops = ops };
