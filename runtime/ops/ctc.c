/* ctc: connectionist temporal classification (Graves et al., 2006), in logarithms, in double.
 *
 * A target of L labels is read as 2L + 1 states: a blank, a label, a blank … A path stays in a
 * state, goes to the next, or from a label to the next label that differs. Row t of alpha holds the
 * logarithms of what all paths to each state at time t add up to; beta that of the ways from there
 * to the end, without the emission at t. Samples of a batch run side by side. */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "base/vecmath.h"
#include "ops/families.h"
#include "ops/reduce.h"
#include "ops/targets.h"

enum { LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS, BLANK, REDUCTION, ZERO_INFINITY };

/* The tensors of a call, contiguous; one reference each. */
typedef struct parts {
  ol_tensor *x;                          /* (T, N, C) or (T, C) */
  ol_tensor *targets, *inputs, *lengths; /* int64 */
} parts;

typedef struct job {
  ol_dtype dtype;
  const void *x;                 /* (steps, batch, classes) */
  const int64_t *input, *length; /* (batch) */
  int64_t steps, batch, classes, blank;
  int64_t states;       /* of the longest target */
  const int64_t *label; /* of each state: (batch, states) */
  double *alpha;        /* (batch, steps, states) */
  double *loss;         /* (batch) */
  double *scratch;      /* (threads, width) */
  int64_t width;
  void *slope;        /* of backward: (steps, batch, classes), zeros */
  const double *seed; /* (batch) */
} job;

static int64_t states_of(const job *j, int64_t n) { return 2 * j->length[n] + 1; }

static double emission(const job *j, int64_t t, int64_t n, int64_t class) {
  int64_t at = (t * j->batch + n) * j->classes + class;
  return j->dtype == OL_F32 ? ((const float *)j->x)[at] : ((const double *)j->x)[at];
}

/* out[s] = log(exp(a[s]) + exp(b[s]) + exp(c[s] + skip[s])). term: 4 * count numbers. */
OL_KERNEL static void add_paths(int64_t count, const double *a, const double *b, const double *c,
                                const double *skip, double *term, double *out) {
  double *max = term + 3 * count;
  for (int64_t s = 0; s < count; s++) {
    const double third = c[s] + skip[s];
    double m = a[s] > b[s] ? a[s] : b[s];
    m = m > third ? m : third;
    max[s] = m == -INFINITY ? 0 : m;
    term[s] = a[s] - max[s];
    term[count + s] = b[s] - max[s];
    term[2 * count + s] = third - max[s];
  }
  ol_vexp_f64(3 * count, term, term);
  for (int64_t s = 0; s < count; s++) term[s] += term[count + s] + term[2 * count + s];
  ol_vlog_f64(count, term, term);
  for (int64_t s = 0; s < count; s++) out[s] = term[s] + max[s];
}

/* What a thread works with; rows have two states of probability 0 at either end. */
typedef struct scratch {
  double *row, *skip; /* skip: 0 where a path may come from two states before, else -inf */
  double *term;
  double *beta;
  double *share, *power; /* of each class */
} scratch;

static int64_t scratch_width(const job *j) {
  return 2 * (j->states + 4) + 5 * j->states + 2 * j->classes;
}

static scratch take_scratch(const job *j, int64_t n) {
  double *at = j->scratch + ol_thread() * j->width;
  scratch s = { at + 2, at + j->states + 6, at + 2 * (j->states + 4) };
  s.beta = s.term + 4 * j->states;
  s.share = s.beta + j->states;
  s.power = s.share + j->classes;
  for (int64_t i = 0; i < 2 * (j->states + 4); i++) at[i] = -INFINITY;
  const int64_t *label = j->label + n * j->states;
  for (int64_t i = 3; i < states_of(j, n); i += 2)
    if (label[i] != label[i - 2]) s.skip[i] = 0;
  return s;
}

static double *alpha_row(const job *j, int64_t n, int64_t t) {
  return j->alpha + (n * j->steps + t) * j->states;
}

/* The sum of the paths that end in the last two states. */
static double total(const double *row, int64_t states) {
  double a = row[states - 1], b = states > 1 ? row[states - 2] : -INFINITY;
  double max = a > b ? a : b, sum[2] = { a - max, b - max };
  if (max == -INFINITY) return max;
  ol_vexp_f64(2, sum, sum);
  sum[0] += sum[1];
  ol_vlog_f64(1, sum, sum);
  return sum[0] + max;
}

static void forward_sample(const job *j, int64_t n) {
  const int64_t *label = j->label + n * j->states, states = states_of(j, n);
  scratch s = take_scratch(j, n);
  for (int64_t t = 0; t < j->input[n]; t++) {
    double *alpha = alpha_row(j, n, t);
    if (t == 0)
      for (int64_t i = 0; i < states; i++) alpha[i] = i < 2 ? 0 : -INFINITY;
    else
      add_paths(states, s.row, s.row - 1, s.row - 2, s.skip, s.term, alpha);
    for (int64_t i = 0; i < states; i++) alpha[i] += emission(j, t, n, label[i]);
    memcpy(s.row, alpha, (size_t)states * sizeof *alpha);
  }
  if (j->input[n] > 0)
    j->loss[n] = -total(s.row, states);
  else
    j->loss[n] = states == 1 ? 0 : INFINITY;
}

static void forward_samples(int64_t begin, int64_t end, void *context) {
  for (int64_t n = begin; n < end; n++) forward_sample(context, n);
}

/* The slope at (t, n): seed times the probability of each class less the share of the paths that
 * emit it. */
static void write_slope(const job *j, int64_t t, int64_t n, const scratch *s) {
  int64_t at = (t * j->batch + n) * j->classes;
  for (int64_t c = 0; c < j->classes; c++) s->power[c] = emission(j, t, n, c);
  ol_vexp_f64(j->classes, s->power, s->power);
  for (int64_t c = 0; c < j->classes; c++) {
    double slope = (s->power[c] - s->share[c]) * j->seed[n];
    if (j->dtype == OL_F32)
      ((float *)j->slope)[at + c] = (float)slope;
    else
      ((double *)j->slope)[at + c] = slope;
  }
}

/* share = the sum over the states of each class of exp(alpha + beta + loss). */
static void add_shares(const job *j, int64_t t, int64_t n, const scratch *s) {
  const int64_t *label = j->label + n * j->states, states = states_of(j, n);
  const double *alpha = alpha_row(j, n, t);
  for (int64_t i = 0; i < states; i++) s->term[i] = alpha[i] + s->beta[i] + j->loss[n];
  ol_vexp_f64(states, s->term, s->term);
  memset(s->share, 0, (size_t)j->classes * sizeof(double));
  for (int64_t i = 0; i < states; i++) s->share[label[i]] += s->term[i];
}

static void backward_sample(const job *j, int64_t n) {
  const int64_t *label = j->label + n * j->states, states = states_of(j, n);
  scratch s = take_scratch(j, n);
  if (j->seed[n] == 0) return;
  for (int64_t t = j->input[n] - 1; t >= 0; t--) {
    if (t == j->input[n] - 1)
      for (int64_t i = 0; i < states; i++) s.beta[i] = i < states - 2 ? -INFINITY : 0;
    else
      add_paths(states, s.row, s.row + 1, s.row + 2, s.skip + 2, s.term, s.beta);
    add_shares(j, t, n, &s);
    write_slope(j, t, n, &s);
    for (int64_t i = 0; i < states; i++) s.row[i] = s.beta[i] + emission(j, t, n, label[i]);
  }
}

static void backward_samples(int64_t begin, int64_t end, void *context) {
  for (int64_t n = begin; n < end; n++) backward_sample(context, n);
}

/* Arguments ------------------------------------------------------------------------------------ */

static ol_status integers(ol_error *error, const char *name, ol_tensor *x, ol_tensor **out) {
  if (x->dtype != OL_I64 && x->dtype != OL_U8)
    return ol_fail(error, OL_DTYPE, "ctc_loss: %s is %s, wants int64", name,
                   ol_dtype_name(x->dtype));
  if (x->dtype == OL_I64) return ol_tensor_contiguous(error, x, out);
  return ol_tensor_convert(error, x, OL_I64, out);
}

static int64_t batch_of(const ol_tensor *x) { return x->shape.ndim == 3 ? x->shape.size[1] : 1; }

static ol_status check_lengths(ol_error *error, const char *name, const ol_tensor *lengths,
                               int64_t batch, int64_t most) {
  const int64_t *length = ol_tensor_data(lengths);
  char text[OL_SHAPE_TEXT];
  if (lengths->shape.ndim > 1 || lengths->numel != batch)
    return ol_fail(error, OL_SHAPE, "ctc_loss: %s has shape %s, wants (%lld): one for each sample",
                   name, ol_shape_text(&lengths->shape, text), (long long)batch);
  for (int64_t n = 0; n < batch; n++)
    if (length[n] < 0 || length[n] > most)
      return ol_fail(error, OL_RANGE, "ctc_loss: %s %lld of sample %lld is not from 0 to %lld",
                     name, (long long)length[n], (long long)n + 1, (long long)most);
  return OL_OK;
}

/* Labels (N, S), or (S) for a sample alone, or those of all samples one after the other. */
static ol_status check_targets(ol_error *error, const ol_tensor *x, const ol_tensor *targets,
                               const ol_tensor *lengths) {
  const int64_t batch = batch_of(x), *length = ol_tensor_data(lengths);
  char text[OL_SHAPE_TEXT];
  int64_t sum = 0;
  if (targets->shape.ndim == 2 && x->shape.ndim == 3 && targets->shape.size[0] == batch)
    return OL_OK;
  if (targets->shape.ndim != 1)
    return ol_fail(error, OL_SHAPE,
                   "ctc_loss: targets of shape %s; wants (N, S), or (S) for all samples in a row",
                   ol_shape_text(&targets->shape, text));
  for (int64_t n = 0; n < batch; n++) sum += length[n];
  if (x->shape.ndim == 2 || sum == targets->numel) return OL_OK;
  return ol_fail(error, OL_SHAPE,
                 "ctc_loss: target_lengths add up to %lld, but there are %lld "
                 "targets",
                 (long long)sum, (long long)targets->numel);
}

static ol_status check_shapes(ol_error *error, const ol_value *arg, const parts *p) {
  const ol_shape *shape = &p->x->shape;
  char text[OL_SHAPE_TEXT];
  if ((shape->ndim != 2 && shape->ndim != 3) || shape->size[shape->ndim - 1] == 0)
    return ol_fail(error, OL_SHAPE, "ctc_loss: log_probs of shape %s; wants (T, N, C) or (T, C)",
                   ol_shape_text(shape, text));
  int64_t classes = shape->size[shape->ndim - 1], blank = arg[BLANK].integer;
  if (blank < 0 || blank >= classes)
    return ol_fail(error, OL_RANGE, "ctc_loss: blank %lld is no class (0 to %lld)",
                   (long long)blank, (long long)classes - 1);
  int64_t most =
      p->targets->shape.ndim > 0 ? p->targets->shape.size[p->targets->shape.ndim - 1] : 0;
  OL_TRY(check_lengths(error, "input_lengths", p->inputs, batch_of(p->x), shape->size[0]));
  OL_TRY(check_lengths(error, "target_lengths", p->lengths, batch_of(p->x), most));
  return check_targets(error, p->x, p->targets, p->lengths);
}

static void release_parts(parts *p) {
  ol_release(p->x);
  ol_release(p->targets);
  ol_release(p->inputs);
  ol_release(p->lengths);
}

static ol_status arrange(ol_error *error, const ol_value *arg, parts *p) {
  OL_TRY(ol_reduce_check(error, "ctc_loss", arg[LOG_PROBS].tensor->dtype, true));
  OL_TRY(ol_tensor_contiguous(error, arg[LOG_PROBS].tensor, &p->x));
  OL_TRY(integers(error, "targets", arg[TARGETS].tensor, &p->targets));
  OL_TRY(integers(error, "input_lengths", arg[INPUT_LENGTHS].tensor, &p->inputs));
  OL_TRY(integers(error, "target_lengths", arg[TARGET_LENGTHS].tensor, &p->lengths));
  return check_shapes(error, arg, p);
}

static ol_status check_label(ol_error *error, const job *j, int64_t label, int64_t n, int64_t k) {
  if (label >= 0 && label < j->classes && label != j->blank) return OL_OK;
  return ol_fail(
      error, OL_RANGE, "ctc_loss: target %lld of sample %lld, position %lld, is %s (0 to %lld)",
      (long long)label, (long long)n + 1, (long long)k + 1,
      label == j->blank ? "the blank; wants another class" : "no class", (long long)j->classes - 1);
}

/* Fills in the labels of all states: (batch, states). */
static ol_status spread_labels(ol_error *error, const job *j, const ol_tensor *targets,
                               int64_t *label) {
  const int64_t *from = ol_tensor_data(targets);
  for (int64_t n = 0; n < j->batch; n++, label += j->states) {
    for (int64_t i = 0; i < j->states; i++) label[i] = j->blank;
    for (int64_t k = 0; k < j->length[n]; k++) {
      OL_TRY(check_label(error, j, from[k], n, k));
      label[2 * k + 1] = from[k];
    }
    from += targets->shape.ndim == 2 ? targets->shape.size[1] : j->length[n];
  }
  return OL_OK;
}

static job make_job(const ol_value *arg, const parts *p) {
  job j = { .dtype = p->x->dtype,
            .x = ol_tensor_data(p->x),
            .input = ol_tensor_data(p->inputs),
            .length = ol_tensor_data(p->lengths),
            .steps = p->x->shape.size[0],
            .batch = batch_of(p->x),
            .classes = p->x->shape.size[p->x->shape.ndim - 1],
            .blank = arg[BLANK].integer,
            .states = 1 };
  for (int64_t n = 0; n < j.batch; n++)
    if (states_of(&j, n) > j.states) j.states = states_of(&j, n);
  j.width = scratch_width(&j);
  return j;
}

static ol_status run(ol_error *error, job *j, ol_range_fn *fn) {
  void *memory = NULL;
  size_t size = (size_t)ol_threads() * (size_t)j->width * sizeof(double);
  OL_TRY(ol_alloc_for(error, size, "ctc_loss", &memory));
  j->scratch = memory;
  ol_parallel_for(j->batch, 1, fn, j);
  ol_free(memory);
  return OL_OK;
}

/* Forward -------------------------------------------------------------------------------------- */

/* The loss of sample n as it is reduced. */
static double counted(const job *j, const ol_value *arg, int64_t n) {
  if (arg[ZERO_INFINITY].flag && isinf(j->loss[n])) return 0;
  bool divides = arg[REDUCTION].choice == OL_MEAN && j->length[n] > 0;
  return divides ? j->loss[n] / (double)j->length[n] : j->loss[n];
}

static ol_status reduce(ol_error *error, ol_call *call, const job *j) {
  ol_shape one = { .ndim = 1, .size = { j->batch } }, alone = { .ndim = 0 };
  ol_tensor *each;
  OL_TRY(ol_tensor_new(error, OL_F64, &one, &each));
  double *loss = ol_tensor_data(each);
  for (int64_t n = 0; n < j->batch; n++) loss[n] = counted(j, call->arg, n);
  bool batched = call->arg[LOG_PROBS].tensor->shape.ndim == 3;
  ol_status status =
      ol_reduce_losses(error, loss, j->batch, batched ? &one : &alone, call->arg[REDUCTION].choice,
                       (double)j->batch, j->dtype, &call->out[0]);
  ol_release(each);
  return status;
}

/* kept: alpha, the losses, the labels. */
static ol_status losses(ol_error *error, ol_call *call, const parts *p) {
  job j = make_job(call->arg, p);
  ol_shape rows = { .ndim = 3, .size = { j.batch, j.steps, j.states } };
  ol_shape labels = { .ndim = 2, .size = { j.batch, j.states } };
  OL_TRY(ol_tensor_new(error, OL_F64, &rows, &call->kept[0]));
  OL_TRY(ol_tensor_new(error, OL_F64, &(ol_shape){ 1, { j.batch } }, &call->kept[1]));
  OL_TRY(ol_tensor_new(error, OL_I64, &labels, &call->kept[2]));
  OL_TRY(spread_labels(error, &j, p->targets, ol_tensor_data(call->kept[2])));
  j.alpha = ol_tensor_data(call->kept[0]);
  j.loss = ol_tensor_data(call->kept[1]);
  j.label = ol_tensor_data(call->kept[2]);
  OL_TRY(run(error, &j, forward_samples));
  return reduce(error, call, &j);
}

static ol_status ctc_forward(ol_error *error, ol_call *call) {
  parts p = { 0 };
  ol_status status = arrange(error, call->arg, &p);
  if (status == OL_OK) status = losses(error, call, &p);
  release_parts(&p);
  return status;
}

/* Backward ------------------------------------------------------------------------------------- */

/* What each sample's slope is multiplied by. */
static ol_status make_seeds(ol_error *error, ol_back *back, const job *j, double *seed) {
  int reduction = back->arg[REDUCTION].choice;
  ol_loss_seed g;
  OL_TRY(ol_loss_seed_init(error, back->grad_out[0], reduction, (double)j->batch, &g));
  for (int64_t n = 0; n < j->batch; n++) {
    seed[n] = ol_loss_seed_at(&g, n);
    if (reduction == OL_MEAN && j->length[n] > 0) seed[n] /= (double)j->length[n];
    if (back->arg[ZERO_INFINITY].flag && isinf(j->loss[n])) seed[n] = 0;
  }
  ol_release(g.g);
  return OL_OK;
}

static ol_status slopes(ol_error *error, ol_back *back, const parts *p) {
  job j = make_job(back->arg, p);
  ol_tensor *seeds;
  j.alpha = ol_tensor_data(back->kept[0]);
  j.loss = ol_tensor_data(back->kept[1]);
  j.label = ol_tensor_data(back->kept[2]);
  OL_TRY(ol_tensor_zeros(error, j.dtype, &p->x->shape, &back->grad[LOG_PROBS]));
  OL_TRY(ol_tensor_new(error, OL_F64, &back->kept[1]->shape, &seeds));
  ol_status status = make_seeds(error, back, &j, ol_tensor_data(seeds));
  j.seed = ol_tensor_data(seeds);
  j.slope = ol_tensor_data(back->grad[LOG_PROBS]);
  if (status == OL_OK) status = run(error, &j, backward_samples);
  ol_release(seeds);
  return status;
}

static ol_status ctc_backward(ol_error *error, ol_back *back) {
  parts p = { 0 };
  if (!back->needs[LOG_PROBS]) return OL_OK;
  ol_status status = arrange(error, back->arg, &p);
  if (status == OL_OK) status = slopes(error, back, &p);
  release_parts(&p);
  return status;
}

/* clang-format off */
#define LENGTHS(...) "optlua.tensor({ " #__VA_ARGS__ " }, { dtype = \"int64\" })"
static const char samples[] = "{"
  "{ t(5, 2, 4):log_softmax(3), i({ 2, 2 }, 3) + 1, " LENGTHS(5, 4) ", " LENGTHS(2, 1) " },"
  "{ t(5, 4):log_softmax(2), i({ 2 }, 3) + 1, " LENGTHS(5) ", " LENGTHS(2) " },"
  "{ t(5, 2, 4):transpose(1, 3):log_softmax(3), i({ 3 }, 3), " LENGTHS(4, 3) ", " LENGTHS(1, 2) ","
  "  { blank = 3, reduction = \"none\" } },"
  "{ t(2, 2, 3):log_softmax(3), i({ 2, 3 }, 2) + 1, " LENGTHS(1, 2) ", " LENGTHS(2, 1) ","
  "  0, \"sum\", true },"
  "{ t(6, 2, 3):log_softmax(3), i({ 2, 3 }, 1) + 1, " LENGTHS(6, 6) ", " LENGTHS(3, 0) ","
  "  { reduction = \"none\" } },"
  "{ t(2, 3, 2):log_softmax(3):transpose(1, 2), i({ 2, 1 }, 1) + 1, " LENGTHS(3, 2) ","
  "  " LENGTHS(1, 1) " } }";
/* clang-format on */

static const ol_op ops[] = {
  { .name = "ctc_loss",
    .doc = "Connectionist temporal classification: minus the log-probability of all ways to emit "
           "the targets in order, with repeats and blanks between. The mean divides each loss by "
           "the length of its target first. The gradient is that for outputs of log_softmax.",
    .example = "local x = optlua.zeros(3, 2):log_softmax(2) -- 3 steps of blank or 1\n"
               "local function int(n) return optlua.tensor(n, { dtype = \"int64\" }) end\n"
               "print(optlua.ctc_loss(x, int { 1 }, int(3), int(1))) --> tensor(0.2877)",
    .samples = samples,
    .param = { { "log_probs", OL_TENSOR,
                 .doc = "(T, N, C) or (T, C): logarithms of probabilities" },
               { "targets", OL_TENSOR,
                 .doc = "classes from 0, no blanks: (N, S), or those of all samples in a row" },
               { "input_lengths", OL_TENSOR, .doc = "(N): how many of the T steps count" },
               { "target_lengths", OL_TENSOR, .doc = "(N): how many of the S targets count" },
               { "blank", OL_DATA, true, 0, .doc = "the class that stands for nothing" },
               { "reduction", OL_CHOICE, true, OL_MEAN, OL_REDUCTIONS },
               { "zero_infinity", OL_FLAG, true,
                 .doc = "samples that cannot be emitted count 0, and have no gradient" } },
    .saves = OL_SAVE_ARG(LOG_PROBS) | OL_SAVE_ARG(TARGETS) | OL_SAVE_ARG(INPUT_LENGTHS) |
             OL_SAVE_ARG(TARGET_LENGTHS),
    .flags = OL_OP_FUNCTION,
    .forward = ctc_forward,
    .backward = ctc_backward },
  { 0 }
};

const ol_family ol_ctc_ops = { .name = "ctc", .doc = "Losses of sequences", .ops = ops };
