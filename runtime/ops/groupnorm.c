/* groupnorm: normalisation of groups of channels of each item (Wu and He, 2018, "Group
 * normalization"), and of single ones (Ulyanov et al., 2016, "Instance normalization"). x is
 * (N, C, ...); the channels of a group lie behind each other. Statistics take two passes in double.
 */
#include <math.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "ops/dense.h"
#include "ops/families.h"
#include "ops/plane.h"
#include "ops/reduce.h"
#include "ops/running.h"

/* What an op's arguments say, whichever of the two it is; weight … may be NULL. */
typedef struct request {
  const char *op;
  ol_tensor *x, *weight, *bias, *running_mean, *running_var;
  int weight_at, bias_at; /* which inputs they are */
  int64_t groups;
  bool single;   /* groups are single channels */
  bool measured; /* by the item's own statistics */
  double momentum, eps;
} request;

/* Work on a dense x: (batch, groups, channels of a group, length). */
typedef struct job {
  const ol_planes *planes;
  ol_dtype dtype;
  int64_t batch, groups, channels, length;
  double eps;
  bool measured;
  const char *x, *g; /* g is of backward */
  char *y;           /* the result; in backward the slope by x, or NULL */
  const void *weight, *bias;
  double *mean, *rstd, *variance; /* of each group of each item */
  double *totals;                 /* of backward: sums of g and g (x - mean), (batch, C, 2) */
} job;

static double values(const job *j) { return (double)(j->channels * j->length); }

/* The number of a group's first plane among all, and a plane's place in bytes. */
static int64_t first_plane(const job *j, int64_t group) { return group * j->channels; }

static int64_t place(const job *j, int64_t plane) {
  return plane * j->length * (int64_t)ol_dtype_size(j->dtype);
}

/* The weight of a plane's channel. */
static double weight_of(const job *j, int64_t plane) {
  return ol_float_at(j->dtype, j->weight, plane % (j->groups * j->channels), 1);
}

static void measure(const job *j, int64_t group) {
  const char *x = j->x + place(j, first_plane(j, group));
  const int64_t count = j->channels * j->length;
  j->mean[group] = j->planes->sum(count, x) / values(j);
  j->variance[group] = j->planes->squares(count, x, j->mean[group]) / values(j);
  j->rstd[group] = 1 / sqrt(j->variance[group] + j->eps);
}

static void forward_groups(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t group = begin; group < end; group++) {
    const int64_t first = first_plane(j, group);
    if (j->measured) measure(j, group);
    for (int64_t p = first; p < first + j->channels; p++)
      j->planes->normalize(
          j->length, j->x + place(j, p), j->mean[group], j->rstd[group] * weight_of(j, p),
          ol_float_at(j->dtype, j->bias, p % (j->groups * j->channels), 0), j->y + place(j, p));
  }
}

static void backward_groups(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t group = begin; group < end; group++) {
    const int64_t first = first_plane(j, group);
    const double mean = j->mean[group], rstd = j->rstd[group];
    double shift = 0, tilt = 0;
    for (int64_t p = first; p < first + j->channels; p++) {
      double *total = j->totals + 2 * p, weight = weight_of(j, p);
      j->planes->products(j->length, j->x + place(j, p), j->g + place(j, p), mean, total);
      shift += weight * total[0];
      tilt += weight * total[1];
    }
    shift = j->measured ? shift * rstd / values(j) : 0;
    tilt = j->measured ? tilt * rstd * rstd * rstd / values(j) : 0;
    for (int64_t p = first; p < first + j->channels && j->y; p++)
      j->planes->slope(j->length, j->x + place(j, p), j->g + place(j, p), mean,
                       rstd * weight_of(j, p), tilt, shift, j->y + place(j, p));
  }
}

static void run(job *j, ol_range_fn *groups) {
  const int64_t size = j->channels * j->length;
  if (size > 0) ol_parallel_for(j->batch * j->groups, ol_grain(2 * (double)size), groups, j);
}

/* Where the arguments of each op stand. */
enum { INPUT, GROUPS, GROUP_WEIGHT, GROUP_BIAS, GROUP_EPS };
enum { MEAN = 1, VARIANCE, WEIGHT, BIAS, OWN, MOMENTUM, EPS };

static request read_group(const ol_op *op, const ol_value *arg) {
  return (request){ .op = op->name,
                    .x = arg[INPUT].tensor,
                    .weight = arg[GROUP_WEIGHT].tensor,
                    .bias = arg[GROUP_BIAS].tensor,
                    .weight_at = 1,
                    .bias_at = 2,
                    .groups = arg[GROUPS].integer,
                    .measured = true,
                    .eps = arg[GROUP_EPS].number };
}

static request read_instance(const ol_op *op, const ol_value *arg) {
  const ol_shape *shape = &arg[INPUT].tensor->shape;
  return (request){ .op = op->name,
                    .x = arg[INPUT].tensor,
                    .weight = arg[WEIGHT].tensor,
                    .bias = arg[BIAS].tensor,
                    .running_mean = arg[MEAN].tensor,
                    .running_var = arg[VARIANCE].tensor,
                    .weight_at = WEIGHT,
                    .bias_at = BIAS,
                    .groups = shape->ndim > 1 ? shape->size[1] : 1,
                    .single = true,
                    .measured = arg[OWN].flag,
                    .momentum = arg[MOMENTUM].number,
                    .eps = arg[EPS].number };
}

static ol_status check(ol_error *error, const request *r) {
  char own[OL_SHAPE_TEXT];
  const ol_shape *shape = &r->x->shape;
  OL_TRY(ol_reduce_check(error, r->op, r->x->dtype, true));
  if (shape->ndim < 2)
    return ol_fail(error, OL_SHAPE, "%s: an input of (N, C, ...) is expected, got shape %s", r->op,
                   ol_shape_text(shape, own));
  if (r->groups < 1 ? shape->size[1] > 0 || r->groups < 0 : shape->size[1] % r->groups != 0)
    return ol_fail(error, OL_SHAPE, "%s: %lld channels cannot be cut into %lld groups", r->op,
                   (long long)shape->size[1], (long long)r->groups);
  OL_TRY(ol_channels_check(error, r->op, "running_mean", r->running_mean, r->x));
  OL_TRY(ol_channels_check(error, r->op, "running_var", r->running_var, r->x));
  OL_TRY(ol_channels_check(error, r->op, "weight", r->weight, r->x));
  OL_TRY(ol_channels_check(error, r->op, "bias", r->bias, r->x));
  return ol_running_check(error, r->op, r->running_mean, r->running_var, r->measured);
}

/* One value has no variance: an error where each channel, or the only group, has one. */
static ol_status check_instance(ol_error *error, const request *r) {
  char own[OL_SHAPE_TEXT];
  const ol_shape *shape = &r->x->shape;
  const int64_t lone = r->single ? shape->size[0] * shape->size[1] : r->groups;
  if (!r->measured || r->x->numel == 0 || r->x->numel != lone) return OL_OK;
  return ol_fail(error, OL_SHAPE,
                 "%s: more than one value a %s is needed; an input of shape %s has one", r->op,
                 r->single ? "channel" : "group", ol_shape_text(shape, own));
}

static job make_job(const request *r, const ol_dense *a, ol_tensor *statistics) {
  const ol_shape *shape = &a->x->shape;
  const int64_t rows = shape->size[0] * r->groups;
  double *facts = ol_tensor_data(statistics);
  job j = { .planes = ol_planes_of(a->x->dtype),
            .dtype = a->x->dtype,
            .batch = shape->size[0],
            .groups = r->groups,
            .channels = r->groups ? shape->size[1] / r->groups : 0,
            .length = 1,
            .eps = r->eps,
            .measured = r->measured,
            .x = ol_data_of(a->x),
            .g = ol_data_of(a->g),
            .weight = ol_data_of(a->weight),
            .bias = ol_data_of(a->bias),
            .mean = facts,
            .rstd = facts + rows,
            .variance = facts + 2 * rows };
  for (int d = 2; d < shape->ndim; d++) j.length *= shape->size[d];
  return j;
}

static void read_running(job *j, const request *r) {
  for (int64_t k = 0; k < j->batch * j->groups; k++)
    ol_running_read(r->running_mean, r->running_var, k % j->groups, j->eps, &j->mean[k],
                    &j->rstd[k]);
}

/* Moves the running statistics towards the averages of all items, with unbiased variances. */
static void move_running(const job *j, const request *r) {
  const double unbiased = values(j) / (values(j) - 1);
  for (int64_t c = 0; c < j->groups; c++) {
    double mean = 0, variance = 0;
    for (int64_t n = 0; n < j->batch; n++) {
      mean += j->mean[n * j->groups + c];
      variance += j->variance[n * j->groups + c] * unbiased;
    }
    ol_running_move(r->running_mean, r->running_var, c, r->momentum, mean / (double)j->batch,
                    variance / (double)j->batch);
  }
  ol_tensor_touch(r->running_mean);
  ol_tensor_touch(r->running_var);
}

static ol_status normalize(ol_error *error, ol_call *call, const request *r, const ol_dense *a) {
  ol_shape shape = { .ndim = 2, .size = { 3, a->x->shape.size[0] * r->groups } };
  OL_TRY(ol_tensor_zeros(error, OL_F64, &shape, &call->kept[0])); /* no values are not measured */
  OL_TRY(ol_tensor_new(error, a->x->dtype, &a->x->shape, &call->out[0]));
  job j = make_job(r, a, call->kept[0]);
  j.y = ol_tensor_data(call->out[0]);
  if (!r->measured) read_running(&j, r);
  run(&j, forward_groups);
  if (r->measured && r->running_mean && a->x->numel > 0) move_running(&j, r);
  return OL_OK;
}

static ol_status forward(ol_error *error, ol_call *call, request r) {
  ol_dense a;
  OL_TRY(check(error, &r));
  OL_TRY(check_instance(error, &r));
  OL_TRY(ol_dense_make(error, r.x, NULL, r.weight, r.bias, &a));
  ol_status status = normalize(error, call, &r, &a);
  ol_dense_release(&a);
  return status;
}

/* The sums of all items, in order, into the gradients of weight and bias; either may be NULL. */
static void store_totals(const job *j, ol_tensor *weight, ol_tensor *bias) {
  const int64_t channels = j->groups * j->channels;
  for (int64_t c = 0; c < channels; c++) {
    double product = 0, sum = 0;
    for (int64_t n = 0; n < j->batch; n++) {
      const double *total = j->totals + 2 * (n * channels + c);
      sum += total[0];
      product += total[1] * j->rstd[n * j->groups + c / j->channels];
    }
    if (weight) ol_set_float_at(j->dtype, ol_tensor_data(weight), c, product);
    if (bias) ol_set_float_at(j->dtype, ol_tensor_data(bias), c, sum);
  }
}

static ol_status slope(ol_error *error, ol_back *back, const request *r, const ol_dense *a) {
  job j = make_job(r, a, back->kept[0]);
  const int inputs[] = { INPUT, r->weight_at, r->bias_at };
  for (int k = 0; k < 3; k++)
    if (back->needs[inputs[k]]) OL_TRY(ol_back_new(error, back, inputs[k], &back->grad[inputs[k]]));
  const int64_t planes = j.batch * j.groups * j.channels;
  j.totals = ol_alloc_zero((size_t)(2 * planes) * sizeof *j.totals);
  if (!j.totals) return ol_fail(error, OL_MEMORY, "out of memory: sums of %s", r->op);
  j.y = ol_data_of(back->grad[INPUT]);
  run(&j, backward_groups);
  store_totals(&j, back->grad[r->weight_at], back->grad[r->bias_at]);
  ol_free(j.totals);
  return OL_OK;
}

static ol_status backward(ol_error *error, ol_back *back, request r) {
  ol_dense a;
  OL_TRY(ol_dense_make(error, r.x, back->grad_out[0], r.weight, r.bias, &a));
  ol_status status = slope(error, back, &r, &a);
  ol_dense_release(&a);
  return status;
}

static ol_status group_forward(ol_error *error, ol_call *call) {
  return forward(error, call, read_group(call->op, call->arg));
}

static ol_status group_backward(ol_error *error, ol_back *back) {
  return backward(error, back, read_group(back->op, back->arg));
}

static ol_status instance_forward(ol_error *error, ol_call *call) {
  return forward(error, call, read_instance(call->op, call->arg));
}

static ol_status instance_backward(ol_error *error, ol_back *back) {
  return backward(error, back, read_instance(back->op, back->arg));
}

static const ol_op ops[] = {
  { .name = "group_norm",
    .doc = "Normalises each of num_groups groups of channels of each item of (N, C, ...) to mean 0 "
           "and variance 1; then times weight plus bias.",
    .example = "print(optlua.group_norm(optlua.tensor({ { 1, 3 } }), 1):flatten()) "
               "--> tensor([-1.0000,  1.0000])",
    .samples = "{ { t(3, 8), 2 }, { t(3, 8), 2, t(8), t(8) }, "
               "{ t(2, 4, 5), 2, t(4), t(4), { eps = 0.1 } }, { t(2, 6, 4, 5), 3, t(6), t(6) }, "
               "{ t(2, 3, 4), 1, { weight = t(3) } }, "
               "{ t(5, 4, 3):transpose(1, 3), 2, t(4, 2):select(2, 1), t(1):expand(4) }, "
               "{ t(0, 4, 3), 2, t(4), t(4) } }",
    .param = { { "input", OL_TENSOR, .doc = "(N, C, ...)" },
               { "num_groups", OL_DATA },
               { "weight", OL_TENSOR, true, .doc = "(C); default: ones" },
               { "bias", OL_TENSOR, true, .doc = "(C); default: zeros" },
               { "eps", OL_NUMBER, true, 1e-5, .doc = "added to the variance" } },
    .saves = OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(GROUP_WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = group_forward,
    .backward = group_backward },
  { .name = "instance_norm",
    .doc = "Normalises each channel of each item of (N, C, ...) to mean 0 and variance 1, by its "
           "own statistics or by running ones; then times weight plus bias. The former move the "
           "running statistics, where there are any.",
    .example = "print(optlua.instance_norm(optlua.tensor({ { { 1, 3 } } })):flatten()) "
               "--> tensor([-1.0000,  1.0000])",
    .samples = "{ { t(2, 3, 4) }, { t(2, 3, 4), { weight = t(3), bias = t(3) } }, "
               "{ t(2, 3, 4, 5), { weight = t(3), eps = 0.1 } }, "
               "{ t(2, 3, 4), c(3), p(3):detach(), t(3), t(3), false }, "
               "{ t(5, 4, 3):transpose(1, 3), { weight = t(4, 2):select(2, 1) } }, "
               "{ t(0, 3, 4), { weight = t(3), bias = t(3) } } }",
    .param = { { "input", OL_TENSOR, .doc = "(N, C, ...)" },
               { "running_mean", OL_TENSOR, true, .doc = "(C); moved by use_input_stats" },
               { "running_var", OL_TENSOR, true, .doc = "(C); moved by use_input_stats" },
               { "weight", OL_TENSOR, true, .doc = "(C); default: ones" },
               { "bias", OL_TENSOR, true, .doc = "(C); default: zeros" },
               { "use_input_stats", OL_FLAG, true, 1, .doc = "false: running statistics" },
               { "momentum", OL_NUMBER, true, 0.1, .doc = "the share of the input in the running" },
               { "eps", OL_NUMBER, true, 1e-5, .doc = "added to the variance" } },
    .saves = OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = instance_forward,
    .backward = instance_backward },
  { 0 }
};

const ol_family ol_groupnorm_ops = { .name = "groupnorm",
                                     .doc = "Group normalisation",
                                     .ops = ops };
