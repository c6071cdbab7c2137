/* convolution: correlation of images with windows of weights, and its transpose (Dumoulin and
 * Visin, 2016, "A guide to convolution arithmetic for deep learning"). */
#include <string.h>

#include "autograd/node.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "ops/convolve.h"
#include "ops/dense.h"
#include "ops/families.h"
#include "ops/reduce.h"

/* Where the arguments stand, and which inputs the tensors among them are. */
enum { INPUT, WEIGHT, BIAS };
enum { STRIDE = 3, PADDING, DILATION, GROUPS };                   /* of conv1d, conv2d */
enum { T_STRIDE = 3, T_PADDING, T_OUTPUT, T_GROUPS, T_DILATION }; /* of conv_transpose1d, 2d */
enum { VALID = -1, SAME = -2 };                                   /* words for a padding */

/* Lists of a call, one number for each dimension. */
typedef struct lists {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
} lists;

static ol_status check_parts(ol_error *error, const char *op, const ol_value *arg, int spatial) {
  char text[OL_SHAPE_TEXT];
  const ol_tensor *x = arg[INPUT].tensor;
  for (int i = WEIGHT; i <= BIAS; i++) {
    const ol_tensor *part = arg[i].tensor;
    const char *name = i == WEIGHT ? "weight" : "bias";
    const int ndim = i == WEIGHT ? spatial + 2 : 1;
    if (!part) continue;
    if (part->shape.ndim != ndim)
      return ol_fail(error, OL_SHAPE, "%s: %s %s has %d dimensions, wants %d", op, name,
                     ol_shape_text(&part->shape, text), part->shape.ndim, ndim);
    if (part->dtype != x->dtype)
      return ol_fail(error, OL_DTYPE, "%s: %s is %s, input is %s", op, name,
                     ol_dtype_name(part->dtype), ol_dtype_name(x->dtype));
  }
  return OL_OK;
}

/* Checks the groups of a call, which must divide the channels of the weight's first dimension;
 * where those are none, there are no more than the input has channels. */
static ol_status check_groups(ol_error *error, const char *op, const ol_value *arg,
                              int64_t channels, int64_t groups) {
  char text[OL_SHAPE_TEXT];
  const ol_shape *weight = &arg[WEIGHT].tensor->shape;
  if (groups < 1)
    return ol_fail(error, OL_ARGUMENT, "%s: groups is %lld, wants at least 1", op,
                   (long long)groups);
  if ((groups == 1 || groups <= channels || groups <= weight->size[0]) &&
      weight->size[0] % groups == 0)
    return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: %lld groups do not divide the %lld channels of weight %s",
                 op, (long long)groups, (long long)weight->size[0], ol_shape_text(weight, text));
}

static ol_status check_channels(ol_error *error, const char *op, const ol_value *arg,
                                int64_t channels, int64_t groups, int64_t wanted) {
  char own[OL_SHAPE_TEXT], weight[OL_SHAPE_TEXT];
  if (channels == wanted) return OL_OK;
  return ol_fail(
      error, OL_SHAPE, "%s: input %s has %lld channels, weight %s with groups = %lld expects %lld",
      op, ol_shape_text(&arg[INPUT].tensor->shape, own), (long long)channels,
      ol_shape_text(&arg[WEIGHT].tensor->shape, weight), (long long)groups, (long long)wanted);
}

static ol_status check_bias(ol_error *error, const char *op, const ol_value *arg, int64_t out) {
  char text[OL_SHAPE_TEXT];
  const ol_tensor *bias = arg[BIAS].tensor;
  if (!bias || bias->shape.size[0] == out) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: bias %s does not fit %lld channels of the result", op,
                 ol_shape_text(&bias->shape, text), (long long)out);
}

static ol_status check_kernel(ol_error *error, const char *op, const ol_shape *weight, int spatial,
                              int64_t kernel[2]) {
  char text[OL_SHAPE_TEXT];
  kernel[0] = weight->size[2];
  kernel[1] = weight->size[1 + spatial];
  const bool some = kernel[0] > 0 && kernel[1] > 0;
  if (some && kernel[0] <= OL_WINDOW_MOST && kernel[1] <= OL_WINDOW_MOST) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: weight %s has %s taps", op, ol_shape_text(weight, text),
                 some ? "too many" : "no");
}

/* "same": as many windows as elements; what is odd is added at the end. */
static ol_status pad_same(ol_error *error, const char *op, lists *l) {
  for (int d = 0; d < 2; d++) {
    if (l->stride[d] != 1)
      return ol_fail(error, OL_ARGUMENT, "%s: padding \"same\" wants a stride of 1, got %lld", op,
                     (long long)l->stride[d]);
    l->padding[d] = l->dilation[d] * (l->kernel[d] - 1) / 2;
  }
  return OL_OK;
}

static ol_status read_padding(ol_error *error, const char *op, const ol_value *arg, int spatial,
                              lists *l) {
  const int word = arg[PADDING].given ? arg[PADDING].list.ndim : 0;
  l->padding[0] = l->padding[1] = 0;
  if (word == VALID) return OL_OK;
  if (word == SAME) return pad_same(error, op, l);
  return ol_window_list(error, op, "padding", &arg[PADDING], spatial, 0, 0, l->padding);
}

static ol_status count_windows(ol_error *error, const char *op, bool same, ol_windows *p) {
  if (!same) return ol_windows_count(error, op, p, false);
  p->y.out = p->y.size;
  p->x.out = p->x.size;
  return OL_OK;
}

/* Reads and checks the arguments of conv1d and conv2d. */
static ol_status read_conv(ol_error *error, const char *op, const ol_value *arg, int spatial,
                           ol_convolution *c) {
  lists l;
  const ol_shape *weight = &arg[WEIGHT].tensor->shape;
  const bool same = arg[PADDING].given && arg[PADDING].list.ndim == SAME;
  OL_TRY(ol_windows_of(error, op, arg[INPUT].tensor, spatial, false, &c->planes));
  OL_TRY(check_parts(error, op, arg, spatial));
  OL_TRY(check_kernel(error, op, weight, spatial, l.kernel));
  OL_TRY(ol_window_list(error, op, "stride", &arg[STRIDE], spatial, 1, 1, l.stride));
  OL_TRY(ol_window_list(error, op, "dilation", &arg[DILATION], spatial, 1, 1, l.dilation));
  OL_TRY(read_padding(error, op, arg, spatial, &l));
  OL_TRY(check_groups(error, op, arg, c->planes.channels, arg[GROUPS].integer));
  c->groups = arg[GROUPS].integer;
  c->dtype = arg[INPUT].tensor->dtype;
  c->out = weight->size[0];
  OL_TRY(
      check_channels(error, op, arg, c->planes.channels, c->groups, weight->size[1] * c->groups));
  OL_TRY(check_bias(error, op, arg, c->out));
  ol_windows_set(&c->planes, l.kernel, l.stride, l.padding, l.dilation);
  return count_windows(error, op, same, &c->planes);
}

/* The size of a transposed convolution's result, so that its windows are the input's elements. */
static ol_status expand_axis(ol_error *error, const char *op, int64_t output, ol_axis *axis) {
  const int64_t most = axis->stride > axis->dilation ? axis->stride : axis->dilation;
  if (output >= most)
    return ol_fail(error, OL_ARGUMENT,
                   "%s: output_padding is %lld, wants less than stride or dilation (%lld)", op,
                   (long long)output, (long long)most);
  axis->out = axis->size;
  const int64_t more = axis->dilation * (axis->kernel - 1) + output + 1 - 2 * axis->padding;
  if (__builtin_mul_overflow(axis->out - 1, axis->stride, &axis->size) ||
      __builtin_add_overflow(axis->size, more, &axis->size))
    return ol_fail(error, OL_SHAPE, "%s: a result of more than 2^63 lines", op);
  if (axis->size > 0) return OL_OK;
  return ol_fail(error, OL_SHAPE,
                 "%s: a result of size %lld: the padding of %lld removes all of it", op,
                 (long long)axis->size, (long long)axis->padding);
}

/* Reads and checks the arguments of conv_transpose1d and 2d: c becomes the convolution whose
 * images the result is, and whose result the input is. */
static ol_status read_transpose(ol_error *error, const char *op, const ol_value *arg, int spatial,
                                ol_convolution *c) {
  lists l;
  int64_t output[2];
  ol_windows *p = &c->planes;
  const ol_shape *weight = &arg[WEIGHT].tensor->shape;
  OL_TRY(ol_windows_of(error, op, arg[INPUT].tensor, spatial, true, p));
  OL_TRY(check_parts(error, op, arg, spatial));
  OL_TRY(check_kernel(error, op, weight, spatial, l.kernel));
  OL_TRY(ol_window_list(error, op, "stride", &arg[T_STRIDE], spatial, 1, 1, l.stride));
  OL_TRY(ol_window_list(error, op, "padding", &arg[T_PADDING], spatial, 0, 0, l.padding));
  OL_TRY(ol_window_list(error, op, "output_padding", &arg[T_OUTPUT], spatial, 0, 0, output));
  OL_TRY(ol_window_list(error, op, "dilation", &arg[T_DILATION], spatial, 1, 1, l.dilation));
  OL_TRY(check_groups(error, op, arg, p->channels, arg[T_GROUPS].integer));
  c->groups = arg[T_GROUPS].integer;
  c->dtype = arg[INPUT].tensor->dtype;
  c->out = p->channels;
  OL_TRY(check_channels(error, op, arg, p->channels, c->groups, weight->size[0]));
  p->channels = weight->size[1] * c->groups;
  OL_TRY(check_bias(error, op, arg, p->channels));
  ol_windows_set(p, l.kernel, l.stride, l.padding, l.dilation);
  if (spatial == 2) OL_TRY(expand_axis(error, op, output[0], &p->y));
  return expand_axis(error, op, output[1], &p->x);
}

/* The shape of the images, as the result of a transposed convolution. */
static ol_shape images_shape(const ol_convolution *c) {
  ol_windows p = c->planes;
  p.y.out = p.y.size;
  p.x.out = p.x.size;
  return ol_windows_out(&p, p.channels);
}

static ol_status run_forward(ol_error *error, const ol_convolution *c, bool transpose,
                             const ol_dense *d, ol_tensor **out) {
  ol_tensor *y = NULL;
  const ol_shape shape = transpose ? images_shape(c) : ol_windows_out(&c->planes, c->out);
  OL_TRY(ol_tensor_new(error, c->dtype, &shape, &y));
  ol_status status = (transpose ? ol_convolve_back : ol_convolve)(
      error, c, ol_data_of(d->x), ol_data_of(d->weight), ol_data_of(d->bias), ol_tensor_data(y));
  if (status == OL_OK)
    *out = y;
  else
    ol_release(y);
  return status;
}

typedef ol_status read_fn(ol_error *error, const char *op, const ol_value *arg, int spatial,
                          ol_convolution *c);

static ol_status forward(ol_error *error, ol_call *call, int spatial, bool transpose) {
  ol_convolution c;
  ol_dense d;
  const ol_value *arg = call->arg;
  OL_TRY((transpose ? read_transpose : read_conv)(error, call->op->name, arg, spatial, &c));
  OL_TRY(ol_dense_make(error, arg[INPUT].tensor, NULL, arg[WEIGHT].tensor, arg[BIAS].tensor, &d));
  ol_status status = run_forward(error, &c, transpose, &d, &call->out[0]);
  ol_dense_release(&d);
  return status;
}

static ol_status input_gradient(ol_error *error, ol_back *back, const ol_convolution *c,
                                bool transpose, const ol_dense *d) {
  OL_TRY(ol_back_new(error, back, INPUT, &back->grad[INPUT]));
  return (transpose ? ol_convolve : ol_convolve_back)(
      error, c, ol_data_of(d->g), ol_data_of(d->weight), NULL, ol_tensor_data(back->grad[INPUT]));
}

static ol_status weight_gradient(ol_error *error, ol_back *back, const ol_convolution *c,
                                 bool transpose, const ol_dense *d) {
  const ol_tensor *images = transpose ? d->g : d->x, *result = transpose ? d->x : d->g;
  OL_TRY(ol_back_new(error, back, WEIGHT, &back->grad[WEIGHT]));
  return ol_convolve_weight(error, c, ol_data_of(images), ol_data_of(result),
                            ol_tensor_data(back->grad[WEIGHT]));
}

/* Sums over images and positions. */
static ol_status bias_gradient(ol_error *error, ol_back *back, const ol_convolution *c) {
  ol_shape dims = { .ndim = 0 };
  if (c->planes.batched) dims.size[dims.ndim++] = 0;
  for (int d = 1; d <= c->planes.spatial; d++) dims.size[dims.ndim++] = c->planes.batched + d;
  OL_TRY(ol_back_new(error, back, BIAS, &back->grad[BIAS]));
  return ol_sum_into(error, back->grad_out[0], &dims, back->grad[BIAS]);
}

/* The arguments as forward had them; a tensor that was not saved lends its shape. */
static ol_status read_again(ol_error *error, const ol_back *back, int spatial, bool transpose,
                            ol_convolution *c) {
  ol_value arg[OL_MAX_PARAMS];
  ol_tensor like[2] = { { .dtype = back->dtype[INPUT], .shape = *back->shape[INPUT] },
                        { .dtype = back->dtype[WEIGHT], .shape = *back->shape[WEIGHT] } };
  memcpy(arg, back->arg, (size_t)ol_op_params(back->op) * sizeof *arg);
  arg[INPUT].tensor = &like[0];
  arg[WEIGHT].tensor = &like[1];
  arg[BIAS].tensor = NULL;
  return (transpose ? read_transpose : read_conv)(error, back->op->name, arg, spatial, c);
}

static ol_status backward(ol_error *error, ol_back *back, int spatial, bool transpose) {
  ol_convolution c;
  ol_dense d;
  OL_TRY(read_again(error, back, spatial, transpose, &c));
  OL_TRY(ol_dense_make(error, back->needs[WEIGHT] ? back->arg[INPUT].tensor : NULL,
                       back->grad_out[0], back->needs[INPUT] ? back->arg[WEIGHT].tensor : NULL,
                       NULL, &d));
  ol_status status = OL_OK;
  if (back->needs[INPUT]) status = input_gradient(error, back, &c, transpose, &d);
  if (status == OL_OK && back->needs[WEIGHT])
    status = weight_gradient(error, back, &c, transpose, &d);
  if (status == OL_OK && back->inputs > BIAS && back->needs[BIAS])
    status = bias_gradient(error, back, &c);
  ol_dense_release(&d);
  return status;
}

#define RUN(name, spatial, transpose)                                                              \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    return forward(error, call, spatial, transpose);                                               \
  }                                                                                                \
  static ol_status name##_backward(ol_error *error, ol_back *back) {                               \
    return backward(error, back, spatial, transpose);                                              \
  }

RUN(conv1d, 1, false)
RUN(conv2d, 2, false)
RUN(conv_transpose1d, 1, true)
RUN(conv_transpose2d, 2, true)

#define CONVOLUTION(NAME, DOC, INPUT_DOC, WEIGHT_DOC, EXAMPLE, SAMPLES)                            \
  { .name = #NAME,                                                                                 \
    .doc = DOC,                                                                                    \
    .example = EXAMPLE,                                                                            \
    .samples = SAMPLES,                                                                            \
    .param = { { "input", OL_TENSOR, .doc = INPUT_DOC },                                           \
               { "weight", OL_TENSOR, .doc = WEIGHT_DOC },                                         \
               { "bias", OL_TENSOR, true, .doc = "(out); default: none" },                         \
               { "stride", OL_SIZES, true, .doc = "step of the window, at least 1; default 1" },   \
               { "padding", OL_SIZES, true, .choices = "valid|same",                               \
                 .doc =                                                                            \
                     "zeros before and after each line; \"same\": as many windows as elements; "   \
                     "default 0" },                                                                \
               { "dilation", OL_SIZES, true, .doc = "step between taps, at least 1; default 1" },  \
               { "groups", OL_DATA, true, 1, .doc = "sets of channels that do not mix" } },        \
    .saves = OL_SAVE_FOR_OTHERS(INPUT) | OL_SAVE_FOR_OTHERS(WEIGHT),                               \
    .flags = OL_OP_FUNCTION,                                                                       \
    .forward = NAME##_forward,                                                                     \
    .backward = NAME##_backward }

#define TRANSPOSED(NAME, DOC, INPUT_DOC, WEIGHT_DOC, EXAMPLE, SAMPLES)                             \
  { .name = #NAME,                                                                                 \
    .doc = DOC,                                                                                    \
    .example = EXAMPLE,                                                                            \
    .samples = SAMPLES,                                                                            \
    .param = { { "input", OL_TENSOR, .doc = INPUT_DOC },                                           \
               { "weight", OL_TENSOR, .doc = WEIGHT_DOC },                                         \
               { "bias", OL_TENSOR, true, .doc = "(out); default: none" },                         \
               { "stride", OL_SIZES, true, .doc = "step of the window, at least 1; default 1" },   \
               { "padding", OL_SIZES, true,                                                        \
                 .doc = "lines that are cut off at each end; default 0" },                         \
               { "output_padding", OL_SIZES, true,                                                 \
                 .doc = "lines that are added at the end, fewer than stride or dilation; default " \
                        "0" },                                                                     \
               { "groups", OL_DATA, true, 1, .doc = "sets of channels that do not mix" },          \
               { "dilation", OL_SIZES, true,                                                       \
                 .doc = "step between taps, at least 1; default 1" } },                            \
    .saves = OL_SAVE_FOR_OTHERS(INPUT) | OL_SAVE_FOR_OTHERS(WEIGHT),                               \
    .flags = OL_OP_FUNCTION,                                                                       \
    .forward = NAME##_forward,                                                                     \
    .backward = NAME##_backward }

static const ol_op ops[] = {
  CONVOLUTION(
      conv1d,
      "Correlates each line with windows of weights: (N, C, L) or (C, L) give (N, out, L') or "
      "(out, L').",
      "(N, C, L) or (C, L)", "(out, C / groups, taps)",
      "local x = optlua.tensor({ { 1, 2, 3, 4 } })\n"
      "print(optlua.conv1d(x, optlua.tensor({ { { 1, 1 } } }))) --> tensor([[3., 5., 7.]])",
      "{ { t(2, 3, 7), t(4, 3, 3) }, { t(3, 7), t(4, 3, 3), t(4) }, "
      "{ t(2, 3, 9), t(4, 3, 3), t(4), 2, 1, 2 }, "
      "{ t(2, 4, 8), t(6, 2, 3), t(6), { padding = 2, groups = 2 } }, "
      "{ t(2, 2, 9), t(4, 1, 4), { padding = \"same\", groups = 2 } }, "
      "{ t(7, 2, 3):transpose(1, 3):transpose(1, 2), t(3, 3, 4):transpose(1, 3), t(4, 2):select(2, "
      "1) }, "
      "{ t(0, 3, 7), t(4, 3, 3), t(4) } }"),
  CONVOLUTION(
      conv2d,
      "Correlates images with windows of weights: (N, C, H, W) or (C, H, W) give (N, out, H', W') "
      "or (out, H', W').",
      "(N, C, H, W) or (C, H, W)", "(out, C / groups, rows, columns)",
      "local x = optlua.tensor({ { { 1, 2, 3 }, { 4, 5, 6 } } })\n"
      "print(optlua.conv2d(x, optlua.ones(1, 1, 2, 2))) --> tensor([[[12., 16.]]])",
      "{ { t(2, 3, 5, 6), t(4, 3, 3, 2) }, { t(3, 5, 6), t(4, 3, 3, 3), t(4), 1, 1 }, "
      "{ t(2, 2, 7, 8), t(4, 2, 3, 3), t(4), { 2, 3 }, { 1, 2 }, { 1, 2 } }, "
      "{ t(2, 4, 5, 5), t(6, 2, 3, 3), t(6), { padding = 1, groups = 2 } }, "
      "{ t(2, 3, 5, 6), t(6, 1, 3, 3), t(6), { padding = 1, groups = 3, stride = 2 } }, "
      "{ t(1, 3, 5, 4), t(3, 1, 2, 3), { padding = \"same\", groups = 3, dilation = 2 } }, "
      "{ t(2, 2, 4, 5), t(3, 2, 2, 3), t(3), { padding = \"same\" } }, "
      "{ t(2, 3, 4, 4), t(5, 3, 1, 1), t(5) }, { t(1, 3, 9, 9), t(2, 3, 1, 1), t(2) }, "
      "{ t(1, 2, 5, 5), t(2, 2, 1, 1), t(2), 2, { padding = \"valid\" } }, "
      "{ t(5, 2, 2, 6):transpose(1, 3), t(2, 4, 2, 2):transpose(1, 2), t(1):expand(4) }, "
      "{ t(1, 2, 4, 4):expand(3, 2, 4, 4), t(3, 2, 2, 2) }, "
      "{ t(0, 3, 5, 6), t(4, 3, 3, 3), t(4) } }"),
  TRANSPOSED(
      conv_transpose1d,
      "The transpose of conv1d, which maps results of its shape back to lines: (N, C, L) or (C, L) "
      "give (N, out, L') or (out, L').",
      "(N, C, L) or (C, L)", "(C, out / groups, taps)",
      "local x = optlua.tensor({ { 1, 2 } })\n"
      "print(optlua.conv_transpose1d(x, optlua.ones(1, 1, 2))) --> tensor([[1., 3., 2.]])",
      "{ { t(2, 3, 5), t(3, 4, 3) }, { t(3, 5), t(3, 4, 3), t(4) }, "
      "{ t(2, 3, 5), t(3, 4, 3), t(4), 2, 1, 1 }, "
      "{ t(2, 4, 5), t(4, 3, 2), t(6), 3, 0, 2, 2, 2 }, "
      "{ t(5, 3, 2):transpose(1, 3), t(4, 3, 3):transpose(1, 2), t(4, 2):select(2, 1) }, "
      "{ t(0, 3, 5), t(3, 4, 3), t(4) } }"),
  TRANSPOSED(
      conv_transpose2d,
      "The transpose of conv2d, which maps results of its shape back to images: (N, C, H, W) or "
      "(C, H, W) give (N, out, H', W') or (out, H', W').",
      "(N, C, H, W) or (C, H, W)", "(C, out / groups, rows, columns)",
      "local x = optlua.tensor({ { { 1, 2 } } })\n"
      "print(optlua.conv_transpose2d(x, optlua.ones(1, 1, 1, 2))) --> tensor([[[1., 3., 2.]]])",
      "{ { t(2, 3, 4, 5), t(3, 2, 3, 2) }, { t(3, 4, 5), t(3, 2, 3, 3), t(2) }, "
      "{ t(2, 2, 3, 4), t(2, 3, 3, 3), t(3), { 2, 3 }, { 1, 0 }, { 1, 2 }, 1, { 1, 2 } }, "
      "{ t(2, 4, 3, 3), t(4, 2, 2, 2), t(4), { stride = 2, groups = 2 } }, "
      "{ t(2, 3, 3, 4), t(3, 1, 3, 3), t(3), { stride = 2, padding = 1, groups = 3 } }, "
      "{ t(1, 3, 8, 8), t(3, 2, 1, 1), t(2) }, "
      "{ t(4, 4, 3, 2):transpose(1, 4), t(2, 4, 2, 2):transpose(1, 2), t(1):expand(2) }, "
      "{ t(0, 3, 4, 5), t(3, 2, 3, 3), t(2) } }"),
  { 0 }
};

const ol_family ol_convolution_ops = {
  .name = "convolution",
  .doc = "Convolutions and their transposes",
  .ops = ops,
};
