/* batchnorm: normalisation of channels over a batch (Ioffe and Szegedy, 2015, "Batch
 * normalization"): x is (N, C, …), and each channel has statistics of its own.
 *
 * Channels whose planes are long are worked on one by one, plane by plane; where planes are short,
 * x is read as rows of columns. Statistics take two passes in double. */
#include <math.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "ops/dense.h"
#include "ops/families.h"
#include "ops/plane.h"
#include "ops/reduce.h"
#include "ops/running.h"

enum { SHORT_PLANE = 16, MOST_BLOCKS = 64, LEAST_ROWS = 32 };

/* Where the arguments stand; the first five are the inputs. */
enum { INPUT, MEAN, VARIANCE, WEIGHT, BIAS, TRAINING, MOMENTUM, EPS };

/* What a block of rows does. */
typedef enum pass { SUM, SQUARES, NORMALIZE, PRODUCTS, SLOPE } pass;

/* Work on a dense x. */
typedef struct job {
  const ol_planes *planes;
  const ol_columns *columns;
  ol_dtype dtype;
  int64_t batch, channels, length; /* x is (batch, channels, length) */
  double eps;
  bool measure;      /* statistics are those of the batch */
  const char *x, *g; /* g is of backward */
  char *y;           /* the result; in backward the slope by x, or NULL */
  const void *weight, *bias;
  double *mean, *rstd;          /* of each channel; kept for backward */
  double *variance;             /* of each channel of the batch */
  double *total, *dot;          /* of backward: sums of g and of g (x - mean) */
  double *scale, *tilt, *shift; /* the numbers of each channel in the last pass */
  /* Of rows of columns: */
  double *wide_mean, *wide_scale, *wide_tilt, *wide_shift; /* one a column */
  double *sums;                                            /* (blocks, 2, columns) */
  int64_t block;                                           /* rows of a block */
  int64_t blocks;
  pass pass;
} job;

static int64_t width(const job *j) { return j->channels * j->length; }

static double values(const job *j) { return (double)(j->batch * j->length); }

/* The place of plane c of item n, in bytes. */
static int64_t place(const job *j, int64_t n, int64_t c) {
  return (n * j->channels + c) * j->length * (int64_t)ol_dtype_size(j->dtype);
}

/* The numbers of forward: y = (x - mean) rstd weight + bias. */
static void aim_forward(job *j, int64_t c) {
  if (j->measure) j->rstd[c] = 1 / sqrt(j->variance[c] + j->eps);
  j->scale[c] = j->rstd[c] * ol_float_at(j->dtype, j->weight, c, 1);
  j->shift[c] = ol_float_at(j->dtype, j->bias, c, 0);
}

/* The numbers of backward. Where the batch was measured, its mean and variance move with x. */
static void aim_backward(job *j, int64_t c) {
  const double rstd = j->rstd[c], scale = rstd * ol_float_at(j->dtype, j->weight, c, 1);
  j->scale[c] = scale;
  j->tilt[c] = j->measure ? scale * rstd * rstd * j->dot[c] / values(j) : 0;
  j->shift[c] = j->measure ? scale * j->total[c] / values(j) : 0;
}

static void measure_channel(const job *j, int64_t c) {
  double sum = 0;
  for (int64_t n = 0; n < j->batch; n++) sum += j->planes->sum(j->length, j->x + place(j, n, c));
  j->mean[c] = sum / values(j);
  sum = 0;
  for (int64_t n = 0; n < j->batch; n++)
    sum += j->planes->squares(j->length, j->x + place(j, n, c), j->mean[c]);
  j->variance[c] = sum / values(j);
}

static void forward_channels(int64_t begin, int64_t end, void *context) {
  job *j = context;
  for (int64_t c = begin; c < end; c++) {
    if (j->measure) measure_channel(j, c);
    aim_forward(j, c);
    for (int64_t n = 0; n < j->batch; n++)
      j->planes->normalize(j->length, j->x + place(j, n, c), j->mean[c], j->scale[c], j->shift[c],
                           j->y + place(j, n, c));
  }
}

static void backward_channels(int64_t begin, int64_t end, void *context) {
  job *j = context;
  for (int64_t c = begin; c < end; c++) {
    double total[2] = { 0, 0 };
    for (int64_t n = 0; n < j->batch; n++)
      j->planes->products(j->length, j->x + place(j, n, c), j->g + place(j, n, c), j->mean[c],
                          total);
    j->total[c] = total[0];
    j->dot[c] = total[1];
    aim_backward(j, c);
    for (int64_t n = 0; n < j->batch && j->y; n++)
      j->planes->slope(j->length, j->x + place(j, n, c), j->g + place(j, n, c), j->mean[c],
                       j->scale[c], j->tilt[c], j->shift[c], j->y + place(j, n, c));
  }
}

static void run_row(const job *j, int64_t n, double *total) {
  const int64_t count = width(j), at = place(j, n, 0);
  const ol_columns *f = j->columns;
  const char *x = j->x + at;
  switch (j->pass) {
  case SUM: f->sum(count, x, total); break;
  case SQUARES: f->squares(count, x, j->wide_mean, total); break;
  case NORMALIZE:
    f->normalize(count, x, j->wide_mean, j->wide_scale, j->wide_shift, j->y + at);
    break;
  case PRODUCTS: f->products(count, x, j->g + at, j->wide_mean, total, total + count); break;
  case SLOPE:
    f->slope(count, x, j->g + at, j->wide_mean, j->wide_scale, j->wide_tilt, j->wide_shift,
             j->y + at);
    break;
  }
}

static void run_blocks(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t b = begin; b < end; b++) {
    double *total = j->sums + 2 * b * width(j);
    for (int64_t i = 0; i < 2 * width(j) && j->pass != NORMALIZE && j->pass != SLOPE; i++)
      total[i] = 0;
    for (int64_t n = b * j->block; n < j->batch && n < (b + 1) * j->block; n++)
      run_row(j, n, total);
  }
}

static void run_pass(job *j, pass next) {
  j->pass = next;
  ol_parallel_for(j->blocks, ol_grain(2 * (double)(j->block * width(j))), run_blocks, j);
}

/* out = a sum (part 0 or 1 of the last pass) of each channel, divided. */
static void fold(const job *j, int part, double divisor, double *out) {
  for (int64_t c = 0; c < j->channels; c++) {
    double sum = 0;
    for (int64_t b = 0; b < j->blocks; b++)
      for (int64_t l = 0; l < j->length; l++)
        sum += j->sums[(2 * b + part) * width(j) + c * j->length + l];
    out[c] = sum / divisor;
  }
}

/* The numbers of channels, one a column. */
static void widen(const job *j, const double *channel, double *column) {
  for (int64_t c = 0; c < j->channels; c++)
    for (int64_t l = 0; l < j->length; l++) column[c * j->length + l] = channel[c];
}

static void forward_rows(job *j) {
  if (j->measure) {
    run_pass(j, SUM);
    fold(j, 0, values(j), j->mean);
  }
  widen(j, j->mean, j->wide_mean);
  if (j->measure) {
    run_pass(j, SQUARES);
    fold(j, 0, values(j), j->variance);
  }
  for (int64_t c = 0; c < j->channels; c++) aim_forward(j, c);
  widen(j, j->scale, j->wide_scale);
  widen(j, j->shift, j->wide_shift);
  run_pass(j, NORMALIZE);
}

static void backward_rows(job *j) {
  widen(j, j->mean, j->wide_mean);
  run_pass(j, PRODUCTS);
  fold(j, 0, 1, j->total);
  fold(j, 1, 1, j->dot);
  for (int64_t c = 0; c < j->channels; c++) aim_backward(j, c);
  if (!j->y) return;
  widen(j, j->scale, j->wide_scale);
  widen(j, j->tilt, j->wide_tilt);
  widen(j, j->shift, j->wide_shift);
  run_pass(j, SLOPE);
}

static bool by_rows(const job *j) { return j->length < SHORT_PLANE; }

static void run(job *j, ol_range_fn *channels, void (*rows)(job *)) {
  if (j->batch * width(j) == 0) return;
  if (by_rows(j))
    rows(j);
  else
    ol_parallel_for(j->channels, ol_grain(2 * values(j)), channels, j);
}

/* Hands out the next `count` numbers of a block. */
static double *cut(double **from, int64_t count) {
  double *part = *from;
  *from += count;
  return part;
}

/* Makes room for the numbers of channels, columns and blocks, zeroed; the caller frees it. */
static ol_status make_room(ol_error *error, job *j, double **out) {
  const int64_t channel = 6 * j->channels, wide = by_rows(j) ? width(j) : 0;
  j->block = OL_GRAIN / (wide + 1);
  if (j->block < LEAST_ROWS) j->block = LEAST_ROWS;
  if (j->block < j->batch / MOST_BLOCKS + 1) j->block = j->batch / MOST_BLOCKS + 1;
  j->blocks = (j->batch + j->block - 1) / j->block;
  *out = ol_alloc_zero((size_t)(channel + (4 + 2 * j->blocks) * wide) * sizeof **out);
  if (!*out) return ol_fail(error, OL_MEMORY, "out of memory: sums of batch_norm");
  double *room = *out;
  j->variance = cut(&room, j->channels);
  j->total = cut(&room, j->channels);
  j->dot = cut(&room, j->channels);
  j->scale = cut(&room, j->channels);
  j->tilt = cut(&room, j->channels);
  j->shift = cut(&room, j->channels);
  j->wide_mean = cut(&room, wide);
  j->wide_scale = cut(&room, wide);
  j->wide_tilt = cut(&room, wide);
  j->wide_shift = cut(&room, wide);
  j->sums = room;
  return OL_OK;
}

/* Whether statistics are those of the batch. */
static bool measures(const ol_value *arg) { return arg[TRAINING].flag; }

static ol_status check(ol_error *error, const ol_value *arg) {
  char own[OL_SHAPE_TEXT];
  static const char *const names[] = { "input", "running_mean", "running_var", "weight", "bias" };
  const ol_tensor *x = arg[INPUT].tensor;
  OL_TRY(ol_reduce_check(error, "batch_norm", x->dtype, true));
  if (x->shape.ndim < 2)
    return ol_fail(error, OL_SHAPE, "batch_norm: an input of (N, C, ...) is expected, got shape %s",
                   ol_shape_text(&x->shape, own));
  for (int p = MEAN; p <= BIAS; p++)
    OL_TRY(ol_channels_check(error, "batch_norm", names[p], arg[p].tensor, x));
  OL_TRY(
      ol_running_check(error, "batch_norm", arg[MEAN].tensor, arg[VARIANCE].tensor, measures(arg)));
  if (measures(arg) && x->numel > 0 && x->numel == x->shape.size[1])
    return ol_fail(error, OL_SHAPE,
                   "batch_norm: training needs more than one value a channel; an input of shape %s "
                   "has one",
                   ol_shape_text(&x->shape, own));
  return OL_OK;
}

static ol_status arrange(ol_error *error, const ol_value *arg, ol_tensor *g, ol_dense *out) {
  return ol_dense_make(error, arg[INPUT].tensor, g, arg[WEIGHT].tensor, arg[BIAS].tensor, out);
}

static job make_job(const ol_dense *a, const ol_value *arg, ol_tensor *statistics) {
  const ol_shape *shape = &a->x->shape;
  double *facts = ol_tensor_data(statistics);
  job j = { .planes = ol_planes_of(a->x->dtype),
            .columns = ol_columns_of(a->x->dtype),
            .dtype = a->x->dtype,
            .batch = shape->size[0],
            .channels = shape->size[1],
            .length = 1,
            .eps = arg[EPS].number,
            .measure = measures(arg),
            .x = ol_data_of(a->x),
            .g = ol_data_of(a->g),
            .weight = ol_data_of(a->weight),
            .bias = ol_data_of(a->bias),
            .mean = facts,
            .rstd = facts + shape->size[1] };
  for (int d = 2; d < shape->ndim; d++) j.length *= shape->size[d];
  return j;
}

static void read_running(job *j, const ol_value *arg) {
  for (int64_t c = 0; c < j->channels; c++)
    ol_running_read(arg[MEAN].tensor, arg[VARIANCE].tensor, c, j->eps, &j->mean[c], &j->rstd[c]);
}

/* Moves the running statistics towards those of the batch, whose variance is unbiased. */
static void move_running(const job *j, const ol_value *arg) {
  const double unbiased = values(j) / (values(j) - 1);
  for (int64_t c = 0; c < j->channels; c++)
    ol_running_move(arg[MEAN].tensor, arg[VARIANCE].tensor, c, arg[MOMENTUM].number, j->mean[c],
                    j->variance[c] * unbiased);
  ol_tensor_touch(arg[MEAN].tensor);
  ol_tensor_touch(arg[VARIANCE].tensor);
}

static ol_status normalize(ol_error *error, ol_call *call, const ol_dense *a) {
  ol_shape shape = { .ndim = 2, .size = { 2, a->x->shape.size[1] } };
  double *room;
  OL_TRY(ol_tensor_zeros(error, OL_F64, &shape, &call->kept[0])); /* no values are not measured */
  OL_TRY(ol_tensor_new(error, a->x->dtype, &a->x->shape, &call->out[0]));
  job j = make_job(a, call->arg, call->kept[0]);
  OL_TRY(make_room(error, &j, &room));
  j.y = ol_tensor_data(call->out[0]);
  if (!j.measure) read_running(&j, call->arg);
  run(&j, forward_channels, forward_rows);
  if (j.measure && call->arg[MEAN].tensor && a->x->numel > 0) move_running(&j, call->arg);
  ol_free(room);
  return OL_OK;
}

static ol_status batch_norm_forward(ol_error *error, ol_call *call) {
  ol_dense a;
  OL_TRY(check(error, call->arg));
  OL_TRY(arrange(error, call->arg, NULL, &a));
  ol_status status = normalize(error, call, &a);
  ol_dense_release(&a);
  return status;
}

static ol_status slope(ol_error *error, ol_back *back, const ol_dense *a) {
  double *room;
  job j = make_job(a, back->arg, back->kept[0]);
  for (int i = INPUT; i <= BIAS; i++)
    if (back->needs[i] && (i == INPUT || i >= WEIGHT))
      OL_TRY(ol_back_new(error, back, i, &back->grad[i]));
  OL_TRY(make_room(error, &j, &room));
  j.y = ol_data_of(back->grad[INPUT]);
  run(&j, backward_channels, backward_rows);
  for (int64_t c = 0; c < j.channels; c++) {
    if (back->grad[WEIGHT])
      ol_set_float_at(j.dtype, ol_data_of(back->grad[WEIGHT]), c, j.dot[c] * j.rstd[c]);
    if (back->grad[BIAS]) ol_set_float_at(j.dtype, ol_data_of(back->grad[BIAS]), c, j.total[c]);
  }
  ol_free(room);
  return OL_OK;
}

static ol_status batch_norm_backward(ol_error *error, ol_back *back) {
  ol_dense a;
  OL_TRY(arrange(error, back->arg, back->grad_out[0], &a));
  ol_status status = slope(error, back, &a);
  ol_dense_release(&a);
  return status;
}

static const ol_op ops[] = {
  { .name = "batch_norm",
    .doc = "Normalises each channel of (N, C, ...) to mean 0 and variance 1, by the batch in "
           "training, else by the running statistics; then times weight plus bias. Training moves "
           "the running statistics towards finite ones of the batch.",
    .example = "local x = optlua.tensor({ { 1 }, { 3 } })\n"
               "print(optlua.batch_norm(x, { training = true }):flatten()) "
               "--> tensor([-1.0000,  1.0000])",
    .samples =
        "{ { t(4, 3), { training = true } }, "
        "{ t(4, 3), { weight = t(3), bias = t(3), training = true } }, "
        "{ t(2, 3, 5), { weight = t(3), bias = t(3), training = true, eps = 0.1 } }, "
        "{ t(2, 3, 4, 5), { weight = t(3), bias = t(3), training = true } }, "
        "{ t(3, 2, 17), { weight = t(2), training = true } }, "
        "{ t(2, 3, 4, 5), c(3), p(3):detach(), t(3), t(3) }, "
        "{ t(2, 3, 2), c(3), p(3):detach(), { bias = t(3), eps = 0.1 } }, "
        "{ t(3, 4):t(), c(3, 2):select(2, 1), p(3, 2):detach():select(2, 1) }, "
        "{ t(5, 4, 3):transpose(1, 3), { weight = t(4, 2):select(2, 1), bias = t(1):expand(4), "
        "training = true } }, "
        "{ t(0, 3, 4), { weight = t(3), bias = t(3), training = true } }, "
        "{ t(0, 3), c(3), p(3):detach(), t(3), t(3) } }",
    .param = { { "input", OL_TENSOR, .doc = "(N, C, ...)" },
               { "running_mean", OL_TENSOR, true, .doc = "(C); changed by training" },
               { "running_var", OL_TENSOR, true, .doc = "(C); changed by training" },
               { "weight", OL_TENSOR, true, .doc = "(C); default: ones" },
               { "bias", OL_TENSOR, true, .doc = "(C); default: zeros" },
               { "training", OL_FLAG, true, .doc = "whether to use the statistics of the batch" },
               { "momentum", OL_NUMBER, true, 0.1, .doc = "the share of the batch in the running" },
               { "eps", OL_NUMBER, true, 1e-5, .doc = "added to the variance" } },
    .saves = OL_SAVE_ARG(INPUT) | OL_SAVE_ARG(WEIGHT),
    .flags = OL_OP_FUNCTION,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward },
  { 0 }
};

const ol_family ol_batchnorm_ops = { .name = "batchnorm",
                                     .doc = "Batch normalisation",
                                     .ops = ops };
