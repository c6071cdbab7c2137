/* recurrent: sequences through one layer and direction of a recurrent network. */
#include <string.h>

#include "autograd/tape.h"
#include "base/parallel.h"
#include "ops/dense.h"
#include "ops/families.h"
#include "ops/recurrence.h"
#include "ops/reduce.h"
#include "ops/stack.h"

/* The arguments of an op: tensors in the order of its parameters, which are also its inputs. A cell
 * without memory has no c0, and what follows stands one place earlier. */
enum { INPUT, H0, C0, WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, LENGTHS, BATCH_FIRST, REVERSE, RELU };

typedef struct layer {
  const char *op;
  const ol_cell *cell;
  ol_tensor *tensor[LENGTHS + 1]; /* those that are absent are NULL */
  bool batch_first, reverse;
} layer;

/* Where an argument stands among those of a cell. */
static int place(const ol_cell *cell, int argument) {
  return argument > C0 && !cell->memory ? argument - 1 : argument;
}

static layer layer_of(const ol_op *op, const ol_cell *cell, const ol_value *arg) {
  layer l = { .op = op->name, .cell = cell };
  for (int i = 0; i <= LENGTHS; i++)
    if (i != C0 || cell->memory) l.tensor[i] = arg[place(cell, i)].tensor;
  l.batch_first = arg[place(cell, BATCH_FIRST)].flag;
  l.reverse = arg[place(cell, REVERSE)].flag;
  return l;
}

/* ---- checks ---- */

static ol_status check_shape(ol_error *error, const layer *l, int argument, const char *name,
                             ol_shape wanted) {
  char own[OL_SHAPE_TEXT], text[OL_SHAPE_TEXT];
  const ol_tensor *x = l->tensor[argument], *input = l->tensor[INPUT];
  if (!x) return OL_OK;
  if (x->dtype != input->dtype)
    return ol_fail(error, OL_DTYPE, "%s: %s is %s, input %s", l->op, name, ol_dtype_name(x->dtype),
                   ol_dtype_name(input->dtype));
  if (ol_shape_equal(&x->shape, &wanted)) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: %s has shape %s, wants %s", l->op, name,
                 ol_shape_text(&x->shape, own), ol_shape_text(&wanted, text));
}

static ol_status check_lengths(ol_error *error, const layer *l, int64_t batch, int64_t steps) {
  const ol_tensor *lengths = l->tensor[LENGTHS];
  char text[OL_SHAPE_TEXT];
  if (!lengths) return OL_OK;
  if (lengths->dtype != OL_I64 || lengths->shape.ndim != 1 || lengths->numel != batch)
    return ol_fail(error, OL_SHAPE, "%s: lengths is %s %s, wants int64 (%lld)", l->op,
                   ol_dtype_name(lengths->dtype), ol_shape_text(&lengths->shape, text),
                   (long long)batch);
  for (int64_t b = 0; b < batch; b++) {
    int64_t length = ol_tensor_get_integer(lengths, b);
    if (length < 0 || length > steps)
      return ol_fail(error, OL_RANGE, "%s: lengths[%lld] is %lld, outside 0 … %lld", l->op,
                     (long long)b + 1, (long long)length, (long long)steps);
  }
  return OL_OK;
}

static ol_status check(ol_error *error, const layer *l) {
  const ol_tensor *x = l->tensor[INPUT], *w = l->tensor[WEIGHT_HH];
  char text[OL_SHAPE_TEXT];
  OL_TRY(ol_reduce_check(error, l->op, x->dtype, true));
  if (x->shape.ndim != 3)
    return ol_fail(error, OL_SHAPE, "%s: input has shape %s, wants (%s, features)", l->op,
                   ol_shape_text(&x->shape, text),
                   l->batch_first ? "batch, steps" : "steps, batch");
  if (w->shape.ndim != 2 || w->shape.size[0] != l->cell->gates * w->shape.size[1])
    return ol_fail(error, OL_SHAPE, "%s: weight_hh has shape %s, wants (%d * hidden, hidden)",
                   l->op, ol_shape_text(&w->shape, text), l->cell->gates);
  int64_t hidden = w->shape.size[1], gates = w->shape.size[0],
          batch = x->shape.size[!l->batch_first];
  const ol_shape state = { 2, { batch, hidden } }, bias = { 1, { gates } };
  OL_TRY(check_shape(error, l, WEIGHT_HH, "weight_hh", w->shape));
  OL_TRY(
      check_shape(error, l, WEIGHT_IH, "weight_ih", (ol_shape){ 2, { gates, x->shape.size[2] } }));
  OL_TRY(check_shape(error, l, BIAS_IH, "bias_ih", bias));
  OL_TRY(check_shape(error, l, BIAS_HH, "bias_hh", bias));
  OL_TRY(check_shape(error, l, H0, "h0", state));
  OL_TRY(check_shape(error, l, C0, "c0", state));
  return check_lengths(error, l, batch, x->shape.size[l->batch_first]);
}

/* ---- dense arguments ---- */

static void release(ol_tensor **tensor) {
  for (int i = 0; i <= LENGTHS; i++) ol_release(tensor[i]);
}

/* Contiguous forms of all arguments; states that are absent are zeros. */
static ol_status arrange(ol_error *error, const layer *l, ol_tensor **dense) {
  const ol_tensor *x = l->tensor[INPUT];
  const ol_shape state = {
    2, { x->shape.size[!l->batch_first], l->tensor[WEIGHT_HH]->shape.size[1] }
  };
  ol_status status = OL_OK;
  for (int i = 0; i <= LENGTHS && status == OL_OK; i++) {
    if (l->tensor[i])
      status = ol_tensor_contiguous(error, l->tensor[i], &dense[i]);
    else if (i == H0 || (i == C0 && l->cell->memory))
      status = ol_tensor_zeros(error, x->dtype, &state, &dense[i]);
  }
  if (status != OL_OK) release(dense);
  return status;
}

static ol_recurrence recurrence_of(const layer *l, ol_tensor *const *dense) {
  const ol_shape *x = &dense[INPUT]->shape;
  return (ol_recurrence){ .cell = l->cell,
                          .dtype = dense[INPUT]->dtype,
                          .steps = x->size[l->batch_first],
                          .batch = x->size[!l->batch_first],
                          .hidden = dense[WEIGHT_HH]->shape.size[1],
                          .batch_first = l->batch_first,
                          .reverse = l->reverse,
                          .lengths = ol_data_of(dense[LENGTHS]),
                          .weight = ol_tensor_data(dense[WEIGHT_HH]),
                          .h0 = ol_data_of(dense[H0]),
                          .c0 = ol_data_of(dense[C0]) };
}

/* A new tensor (T,B,blocks * H), or (B,T,…), as the input has it. */
static ol_status new_rows(ol_error *error, const ol_recurrence *r, int64_t blocks,
                          ol_tensor **out) {
  ol_shape shape = { 3, { r->steps, r->batch, blocks * r->hidden } };
  if (r->batch_first) shape.size[0] = r->batch, shape.size[1] = r->steps;
  return ol_tensor_new(error, r->dtype, &shape, out);
}

/* Blocks from `block` on of rows (T*B, blocks * H), as a matrix for BLAS. */
static ol_matrix blocks_of(const ol_recurrence *r, const ol_tensor *rows, int block) {
  int64_t apart = rows->shape.size[2];
  char *data = ol_tensor_data(rows);
  return (ol_matrix){ data + block * r->hidden * (int64_t)ol_dtype_size(r->dtype), apart, 1 };
}

static ol_matrix dense_matrix(const ol_tensor *x) {
  int64_t last = x->shape.size[x->shape.ndim - 1];
  return (ol_matrix){ ol_tensor_data(x), last, 1 };
}

static ol_matrix transposed(ol_matrix m) { return (ol_matrix){ m.data, m.col, m.row }; }

/* ---- forward ---- */

/* Adds count elements of a bias, from `from` on, to a row from `to` on. */
static void add_bias(const ol_recurrence *r, const ol_tensor *bias, int64_t from, int64_t count,
                     void *row, int64_t to) {
  if (!bias) return;
  for (int64_t k = 0; k < count; k++) {
    if (r->dtype == OL_F32)
      ((float *)row)[to + k] += ((const float *)ol_tensor_data(bias))[from + k];
    else
      ((double *)row)[to + k] += ((const double *)ol_tensor_data(bias))[from + k];
  }
}

typedef struct fill_job {
  char *rows;
  const char *row;
  size_t bytes;
} fill_job;

static void fill_rows(int64_t begin, int64_t end, void *context) {
  const fill_job *job = context;
  for (int64_t i = begin; i < end; i++)
    memcpy(job->rows + (size_t)i * job->bytes, job->row, job->bytes);
}

/* rows = the biases, in every row. */
static ol_status spread_biases(ol_error *error, const ol_recurrence *r, ol_tensor *const *dense,
                               ol_tensor *rows) {
  const ol_shape shape = { 1, { rows->shape.size[2] } };
  ol_tensor *row;
  OL_TRY(ol_tensor_zeros(error, r->dtype, &shape, &row));
  add_bias(r, dense[BIAS_IH], 0, r->cell->gates * r->hidden, ol_tensor_data(row), 0);
  for (int i = 0; i < r->cell->pieces; i++) {
    const ol_cell_piece *p = &r->cell->piece[i];
    add_bias(r, dense[BIAS_HH], p->from * r->hidden, p->count * r->hidden, ol_tensor_data(row),
             p->at * r->hidden);
  }
  size_t bytes = (size_t)row->numel * ol_dtype_size(r->dtype);
  fill_job job = { ol_tensor_data(rows), ol_tensor_data(row), bytes };
  ol_parallel_for(r->steps * r->batch, ol_grain((double)row->numel), fill_rows, &job);
  ol_release(row);
  return OL_OK;
}

/* Fills call->kept and call->out, and runs. */
static ol_status run_forward(ol_error *error, ol_call *call, ol_recurrence *r,
                             ol_tensor *const *dense) {
  OL_TRY(new_rows(error, r, r->cell->width, &call->kept[0]));
  OL_TRY(new_rows(error, r, 1, &call->out[0]));
  OL_TRY(ol_tensor_clone(error, dense[H0], &call->out[1]));
  if (r->cell->memory) {
    OL_TRY(new_rows(error, r, 2, &call->kept[1]));
    OL_TRY(ol_tensor_clone(error, dense[C0], &call->out[2]));
  }
  OL_TRY(spread_biases(error, r, dense, call->kept[0]));
  ol_blas_gemm(r->dtype, r->steps * r->batch, r->cell->gates * r->hidden,
               dense[INPUT]->shape.size[2], 1, dense_matrix(dense[INPUT]),
               transposed(dense_matrix(dense[WEIGHT_IH])), 1, blocks_of(r, call->kept[0], 0));
  r->rows = ol_tensor_data(call->kept[0]);
  r->memory = ol_data_of(call->kept[1]);
  r->output = ol_tensor_data(call->out[0]);
  r->h = ol_tensor_data(call->out[1]);
  r->c = ol_data_of(call->out[2]);
  ol_recurrence_forward(r);
  return OL_OK;
}

static ol_status forward(ol_error *error, ol_call *call, const ol_cell *cell) {
  layer l = layer_of(call->op, cell, call->arg);
  ol_tensor *dense[LENGTHS + 1] = { NULL };
  OL_TRY(check(error, &l));
  OL_TRY(arrange(error, &l, dense));
  ol_recurrence r = recurrence_of(&l, dense);
  ol_status status = run_forward(error, call, &r, dense);
  release(dense);
  return status;
}

/* ---- backward ---- */

/* What backward makes on the way. */
typedef struct traces {
  ol_tensor *slope, *slopes, *previous, *dh, *dc;
} traces;

static void release_traces(traces *t) {
  ol_release(t->slope);
  ol_release(t->slopes);
  ol_release(t->previous);
  ol_release(t->dh);
  ol_release(t->dc);
}

/* A state's gradient to start from: of output i, or zeros. */
static ol_status first_slope(ol_error *error, const ol_back *back, int i, const ol_recurrence *r,
                             ol_tensor **out) {
  const ol_shape state = { 2, { r->batch, r->hidden } };
  if (back->grad_out[i]) return ol_tensor_clone(error, back->grad_out[i], out);
  return ol_tensor_zeros(error, r->dtype, &state, out);
}

static ol_status make_traces(ol_error *error, const ol_back *back, ol_recurrence *r, traces *t) {
  if (back->grad_out[0]) OL_TRY(ol_tensor_contiguous(error, back->grad_out[0], &t->slope));
  OL_TRY(new_rows(error, r, r->cell->width, &t->slopes));
  OL_TRY(new_rows(error, r, 1, &t->previous));
  OL_TRY(first_slope(error, back, 1, r, &t->dh));
  if (r->cell->memory) OL_TRY(first_slope(error, back, 2, r, &t->dc));
  r->rows = ol_tensor_data(back->kept[0]);
  r->memory = ol_data_of(back->kept[1]);
  r->output = ol_tensor_data(back->out[0]);
  r->slope = ol_data_of(t->slope);
  r->slopes = ol_tensor_data(t->slopes);
  r->previous = ol_tensor_data(t->previous);
  r->dh = ol_tensor_data(t->dh);
  r->dc = ol_data_of(t->dc);
  return OL_OK;
}

/* Gradients of the input and of its weights. */
static ol_status input_slopes(ol_error *error, ol_back *back, const ol_recurrence *r,
                              ol_tensor *const *dense, const traces *t) {
  const int weight = place(r->cell, WEIGHT_IH);
  int64_t rows = r->steps * r->batch, gates = r->cell->gates * r->hidden;
  int64_t features = dense[INPUT]->shape.size[2];
  ol_matrix slopes = blocks_of(r, t->slopes, 0);
  if (back->needs[INPUT]) {
    OL_TRY(ol_back_new(error, back, INPUT, &back->grad[INPUT]));
    ol_blas_gemm(r->dtype, rows, features, gates, 1, slopes, dense_matrix(dense[WEIGHT_IH]), 0,
                 dense_matrix(back->grad[INPUT]));
  }
  if (back->needs[weight]) {
    OL_TRY(ol_back_new(error, back, weight, &back->grad[weight]));
    ol_blas_gemm(r->dtype, gates, features, rows, 1, transposed(slopes), dense_matrix(dense[INPUT]),
                 0, dense_matrix(back->grad[weight]));
  }
  return OL_OK;
}

static ol_status state_slopes(ol_error *error, ol_back *back, const ol_recurrence *r,
                              const traces *t) {
  const int weight = place(r->cell, WEIGHT_HH);
  if (!back->needs[weight]) return OL_OK;
  OL_TRY(ol_back_new(error, back, weight, &back->grad[weight]));
  ol_matrix target = dense_matrix(back->grad[weight]);
  for (int i = 0; i < r->cell->pieces; i++) {
    const ol_cell_piece *p = &r->cell->piece[i];
    char *rows =
        (char *)target.data + p->from * r->hidden * r->hidden * (int64_t)ol_dtype_size(r->dtype);
    ol_blas_gemm(r->dtype, p->count * r->hidden, r->hidden, r->steps * r->batch, 1,
                 transposed(blocks_of(r, t->slopes, p->at)), dense_matrix(t->previous), 0,
                 (ol_matrix){ rows, target.row, 1 });
  }
  return OL_OK;
}

/* Copies parts of the sums of all rows of slopes to the gradients of the biases. */
static ol_status bias_slopes(ol_error *error, ol_back *back, const ol_recurrence *r,
                             const traces *t) {
  const int ih = place(r->cell, BIAS_IH), hh = place(r->cell, BIAS_HH);
  const ol_shape dims = { 2, { 0, 1 } };
  const size_t block = (size_t)r->hidden * ol_dtype_size(r->dtype);
  ol_tensor *sums;
  if (!back->needs[ih] && !back->needs[hh]) return OL_OK;
  if (back->needs[ih]) OL_TRY(ol_back_new(error, back, ih, &back->grad[ih]));
  if (back->needs[hh]) OL_TRY(ol_back_new(error, back, hh, &back->grad[hh]));
  OL_TRY(ol_sum(error, t->slopes, &dims, false, &sums));
  const char *sum = ol_tensor_data(sums);
  if (back->needs[ih]) memcpy(ol_tensor_data(back->grad[ih]), sum, block * (size_t)r->cell->gates);
  for (int i = 0; i < r->cell->pieces && back->needs[hh]; i++) {
    const ol_cell_piece *p = &r->cell->piece[i];
    memcpy((char *)ol_tensor_data(back->grad[hh]) + block * (size_t)p->from,
           sum + block * (size_t)p->at, block * (size_t)p->count);
  }
  ol_release(sums);
  return OL_OK;
}

static ol_status run_backward(ol_error *error, ol_back *back, ol_recurrence *r,
                              ol_tensor *const *dense, traces *t) {
  OL_TRY(make_traces(error, back, r, t));
  ol_recurrence_backward(r);
  OL_TRY(input_slopes(error, back, r, dense, t));
  OL_TRY(state_slopes(error, back, r, t));
  OL_TRY(bias_slopes(error, back, r, t));
  if (back->needs[H0]) back->grad[H0] = ol_retain(t->dh);
  if (r->cell->memory && back->needs[C0]) back->grad[C0] = ol_retain(t->dc);
  return OL_OK;
}

static ol_status backward(ol_error *error, ol_back *back, const ol_cell *cell) {
  layer l = layer_of(back->op, cell, back->arg);
  ol_tensor *dense[LENGTHS + 1] = { NULL };
  traces t = { NULL };
  OL_TRY(arrange(error, &l, dense));
  ol_recurrence r = recurrence_of(&l, dense);
  ol_status status = run_backward(error, back, &r, dense, &t);
  release_traces(&t);
  release(dense);
  return status;
}

/* ---- ops ---- */

static const ol_cell *plain_cell(const ol_value *arg) {
  return arg[RELU - 1].choice == 1 ? &ol_relu_cell : &ol_tanh_cell;
}

static ol_status rnn_forward(ol_error *error, ol_call *call) {
  return forward(error, call, plain_cell(call->arg));
}
static ol_status rnn_backward(ol_error *error, ol_back *back) {
  return backward(error, back, plain_cell(back->arg));
}
static ol_status gru_forward(ol_error *error, ol_call *call) {
  return forward(error, call, &ol_gru_cell);
}
static ol_status gru_backward(ol_error *error, ol_back *back) {
  return backward(error, back, &ol_gru_cell);
}
static ol_status lstm_forward(ol_error *error, ol_call *call) {
  return forward(error, call, &ol_lstm_cell);
}
static ol_status lstm_backward(ol_error *error, ol_back *back) {
  return backward(error, back, &ol_lstm_cell);
}

#define WEIGHT_PARAMS                                                                              \
  { "weight_ih", OL_TENSOR }, { "weight_hh", OL_TENSOR }, { "bias_ih", OL_TENSOR, true },          \
      { "bias_hh", OL_TENSOR, true },                                                              \
      { "lengths", OL_TENSOR, true,                                                                \
        .doc = "steps of each row, int64 (B); later ones do nothing" },                            \
      { "batch_first", OL_FLAG, true }, {                                                          \
    "reverse", OL_FLAG, true                                                                       \
  }

/* All but the biases, and the output. */
#define SAVES(memory)                                                                              \
  ((memory) ? (OL_SAVE_ARG(5) - 1) | OL_SAVE_ARG(7) | OL_SAVE_OUT(0)                               \
            : (OL_SAVE_ARG(4) - 1) | OL_SAVE_ARG(6) | OL_SAVE_OUT(0))

#define LENGTHS_SAMPLE "optlua.tensor({ 2, 4, 0 }, { dtype = 'int64' })"

/* Samples of a cell with G gates; S doubles its states where there are two. */
/* clang-format off */
#define SAMPLES(G, S)                                                                              \
  "{ { t(3, 2, 4), " S("t(2, 3)") "u(" G " * 3, 4), u(" G " * 3, 3), u(" G " * 3), u(" G " * 3) }," \
  "  { t(2, 3, 4), " S("t(2, 2)") "u(" G " * 2, 4), u(" G " * 2, 2), { batch_first = true } },"    \
  "  { t(4, 3, 2), " S("t(3, 2)") "u(" G " * 2, 2), u(" G " * 2, 2), u(" G " * 2), u(" G " * 2), " \
  "    " LENGTHS_SAMPLE " },"                                                                      \
  "  { t(3, 4, 2), " S("t(3, 2)") "u(" G " * 2, 2), u(" G " * 2, 2), u(" G " * 2), u(" G " * 2), " \
  "    " LENGTHS_SAMPLE ", true, true },"                                                          \
  "  { t(4, 2, 3):permute(3, 2, 1), " S("t(2, 2):t()") "u(4, " G " * 2):t(), u(2, " G " * 2):t(),"  \
  "    { reverse = true } },"                                                                      \
  "  { t(0, 2, 4), " S("t(2, 3)") "u(" G " * 3, 4), u(" G " * 3, 3) },"                            \
  "  { t(3, 0, 4), " S("t(0, 3)") "u(" G " * 3, 4), u(" G " * 3, 3), u(" G " * 3), u(" G " * 3) } }"
#define ONE(s) s ", "
#define TWO(s) s ", " s ", "
/* clang-format on */

static const ol_op ops[] = {
  { .name = "rnn_sequence",
    .doc = "A plain recurrent layer in one direction: input (T, B, I), h0 (B, H) -> output "
           "(T, B, H), h (B, H).",
    .samples = SAMPLES("1", ONE),
    .param = { { "input", OL_TENSOR },
               { "h0", OL_TENSOR, true },
               WEIGHT_PARAMS,
               { "nonlinearity", OL_CHOICE, true, .choices = "tanh|relu" } },
    .outputs = 2,
    .saves = SAVES(false),
    .flags = OL_OP_FUNCTION | OL_OP_HIDDEN,
    .forward = rnn_forward,
    .backward = rnn_backward },
  { .name = "gru_sequence",
    .doc =
        "A GRU layer in one direction: input (T, B, I), h0 (B, H) -> output (T, B, H), h (B, H).",
    .samples = SAMPLES("3", ONE),
    .param = { { "input", OL_TENSOR }, { "h0", OL_TENSOR, true }, WEIGHT_PARAMS },
    .outputs = 2,
    .saves = SAVES(false),
    .flags = OL_OP_FUNCTION | OL_OP_HIDDEN,
    .forward = gru_forward,
    .backward = gru_backward },
  { .name = "lstm_sequence",
    .doc = "An LSTM layer in one direction: input (T, B, I), h0 and c0 (B, H) -> output (T, B, H), "
           "h and c (B, H).",
    .samples = SAMPLES("4", TWO),
    .param = { { "input", OL_TENSOR },
               { "h0", OL_TENSOR, true },
               { "c0", OL_TENSOR, true },
               WEIGHT_PARAMS },
    .outputs = 3,
    .saves = SAVES(true),
    .flags = OL_OP_FUNCTION | OL_OP_HIDDEN,
    .forward = lstm_forward,
    .backward = lstm_backward },
  { 0 }
};

const ol_family ol_recurrent_ops = { .name = "recurrent", .doc = "Recurrent layers", .ops = ops };
