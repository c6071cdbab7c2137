/* gate: activations of two tensors: PReLU and GLU. */
#include "ops/families.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

#define PRELU(x, w)              ((x) > 0 ? (x) : (x) * (w))
#define PRELU_SLOPE(g, x, w)     ((x) > 0 ? (g) : (g) * (w))
#define PRELU_WEIGHT_SLOPE(g, x) ((x) > 0 ? 0 : (g) * (x))
OL_FLOATS(prelu_rows, 2, PRELU)
OL_FLOATS(prelu_slope, 3, PRELU_SLOPE)
OL_FLOATS(prelu_weight_slope, 2, PRELU_WEIGHT_SLOPE)

/* The size of dimension 2, which is that of channels. */
static int64_t channels_of(const ol_shape *shape) { return shape->ndim > 1 ? shape->size[1] : 1; }

static ol_status check_prelu(ol_error *error, const ol_tensor *x, const ol_tensor *weight) {
  char own[OL_SHAPE_TEXT];
  if (weight->dtype != x->dtype)
    return ol_fail(error, OL_DTYPE, "prelu: weight is %s, input %s", ol_dtype_name(weight->dtype),
                   ol_dtype_name(x->dtype));
  if (weight->shape.ndim > 1 || (weight->numel != 1 && weight->numel != channels_of(&x->shape)))
    return ol_fail(error, OL_SHAPE,
                   "prelu: weight has shape %s; one number is expected, or one for each of %lld "
                   "channels",
                   ol_shape_text(&weight->shape, own), (long long)channels_of(&x->shape));
  return OL_OK;
}

/* The view of weight that broadcasts to x: (), or (1, C, 1 …). */
static ol_status spread(ol_error *error, const ol_tensor *weight, int ndim, ol_tensor **out) {
  ol_shape shape = { .ndim = weight->numel == 1 ? 0 : ndim };
  int64_t stride[OL_MAX_DIMS] = { 0 };
  for (int d = 0; d < shape.ndim; d++) {
    shape.size[d] = d == 1 ? weight->numel : 1;
    stride[d] = d == 1 ? weight->stride[0] : 1;
  }
  return ol_tensor_view(error, weight, &shape, stride, weight->offset, out);
}

static ol_status prelu_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *weight;
  OL_TRY(check_prelu(error, x, call->arg[1].tensor));
  OL_TRY(spread(error, call->arg[1].tensor, x->shape.ndim, &weight));
  ol_status status = ol_binary(error, "prelu", &prelu_rows, x, weight, &call->out[0]);
  ol_release(weight);
  return status;
}

/* The sum of the slopes over everything but the weight's channels, in the weight's shape. */
static ol_status weight_gradient(ol_error *error, ol_back *back) {
  ol_tensor *x = back->arg[0].tensor, *slopes = NULL, *sum = NULL;
  ol_shape dims = { .ndim = 0 };
  const bool channels = ol_shape_numel(back->shape[1]) != 1;
  for (int d = 0; d < x->shape.ndim && channels; d++)
    if (d != 1) dims.size[dims.ndim++] = d;
  OL_TRY(ol_binary(error, "prelu", &prelu_weight_slope, back->grad_out[0], x, &slopes));
  ol_status status = ol_sum(error, slopes, &dims, false, &sum);
  if (status == OL_OK) status = ol_reshape(error, sum, back->shape[1], &back->grad[1]);
  ol_release(slopes);
  ol_release(sum);
  return status;
}

static ol_status prelu_backward(ol_error *error, ol_back *back) {
  ol_tensor *x = back->arg[0].tensor, *weight;
  if (back->needs[0]) {
    OL_TRY(spread(error, back->arg[1].tensor, x->shape.ndim, &weight));
    ol_status status =
        ol_ternary(error, "prelu", &prelu_slope, back->grad_out[0], x, weight, &back->grad[0]);
    ol_release(weight);
    OL_TRY(status);
  }
  return back->needs[1] ? weight_gradient(error, back) : OL_OK;
}

/* glu (Dauphin et al., 2016): a * sigmoid(b); v is exp(-b). */
#define MINUS(x)               (-(x))
#define SIGMOID(v)             (1 / (1 + (v)))
#define GLU(a, b, v)           ((a) / (1 + (v)))
#define GATE_SLOPE(g, a, b, v) ((g) * (a) * (SIGMOID(v) * (1 - SIGMOID(v))))
OL_FLOATS_VIA(glu_rows, 2, ol_vexp, MINUS, GLU)
OL_FLOATS_VIA(gate_slope, 3, ol_vexp, MINUS, GATE_SLOPE)

/* Views of both halves of x along a dimension. */
static ol_status halve(ol_error *error, const ol_tensor *x, int64_t index, ol_tensor *half[2]) {
  int dim;
  if (x->shape.ndim == 0)
    return ol_fail(error, OL_SHAPE, "glu: a 0-dimensional tensor has no halves");
  OL_TRY(ol_shape_dim(error, "glu", index, x->shape.ndim, &dim));
  const int64_t size = x->shape.size[dim];
  if (size % 2)
    return ol_fail(error, OL_SHAPE, "glu: dimension %d has the odd size %lld; it must have halves",
                   dim + 1, (long long)size);
  OL_TRY(ol_narrow(error, x, dim, 0, size / 2, &half[0]));
  ol_status status = ol_narrow(error, x, dim, size / 2, size / 2, &half[1]);
  if (status != OL_OK) ol_release(half[0]);
  return status;
}

static void release_halves(ol_tensor *half[2]) {
  ol_release(half[0]);
  ol_release(half[1]);
}

static ol_status glu_forward(ol_error *error, ol_call *call) {
  ol_tensor *half[2];
  OL_TRY(halve(error, call->arg[0].tensor, call->arg[1].integer, half));
  ol_status status = ol_binary(error, "glu", &glu_rows, half[0], half[1], &call->out[0]);
  release_halves(half);
  return status;
}

static ol_status glu_slopes(ol_error *error, ol_tensor *g, ol_tensor *half[2], ol_tensor *to[2]) {
  ol_tensor *own[] = { g, half[1] }, *gate[] = { g, half[0], half[1] };
  OL_TRY(ol_map_into(error, "glu", &glu_rows, 2, own, NULL, to[0]));
  return ol_map_into(error, "glu", &gate_slope, 3, gate, NULL, to[1]);
}

static ol_status glu_backward(ol_error *error, ol_back *back) {
  ol_tensor *x = back->arg[0].tensor, *half[2], *to[2];
  OL_TRY(ol_tensor_new(error, x->dtype, &x->shape, &back->grad[0]));
  OL_TRY(halve(error, x, back->arg[1].integer, half));
  ol_status status = halve(error, back->grad[0], back->arg[1].integer, to);
  if (status == OL_OK) {
    status = glu_slopes(error, back->grad_out[0], half, to);
    release_halves(to);
  }
  release_halves(half);
  return status;
}

static const ol_op ops[] = {
  { .name = "prelu",
    .doc = "x where it is positive, else weight * x; weight is one number, or one for each channel "
           "(dimension 2).",
    .example = "print(optlua.tensor({ -4, 2 }):prelu(optlua.tensor({ 0.25 }))) "
               "--> tensor([-1.,  2.])",
    .samples = "{ { t(3, 4), t(1) }, { t(2, 3, 4), t(3) }, { t(3, 4), t(4) }, { t(), t(1) }, "
               "{ t(5), t(1) }, { t(4, 3):t(), t(4, 2):select(2, 1) }, { t(0, 3), t(3) }, "
               "{ t(3, 4), t() } }",
    .param = { { "self", OL_TENSOR }, { "weight", OL_TENSOR, .doc = "(1) or (C)" } },
    .saves = OL_SAVE_ARG(0) | OL_SAVE_ARG(1),
    .forward = prelu_forward,
    .backward = prelu_backward },
  { .name = "glu",
    .doc = "The first half along a dimension, times the sigmoid of the second.",
    .example = "print(optlua.tensor({ 4, 0 }):glu()) --> tensor([2.])",
    .samples = "{ { t(3, 4) }, { t(4, 3), 1 }, { t(2, 4, 3), 2 }, { t(6), -1 }, { t(0, 4) }, "
               "{ t(4, 3):t() }, { t(3, 8):narrow(2, 2, 4) } }",
    .param = { { "self", OL_TENSOR },
               { "dim", OL_INDEX, true, -1, .doc = "the dimension that is halved" } },
    .saves = OL_SAVE_ARG(0),
    .forward = glu_forward,
    .backward = glu_backward },
  { 0 },
};

const ol_family ol_gate_ops = { .name = "gate", .doc = "Gated activations", .ops = ops };
