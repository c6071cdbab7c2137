/* reshape: the same elements in the same order, with another shape. */
#include "ops/families.h"
#include "ops/view.h"

/* Replaces a size of -1 by the one that makes the shape hold x's elements. */
static ol_status infer(ol_error *error, const char *op, const ol_tensor *x, ol_shape *shape) {
  char from[OL_SHAPE_TEXT], to[OL_SHAPE_TEXT];
  ol_shape known = *shape;
  int64_t count;
  int open = -1;
  for (int d = 0; d < shape->ndim; d++) {
    if (shape->size[d] != -1) continue;
    if (open >= 0) return ol_fail(error, OL_ARGUMENT, "%s: only one size may be -1", op);
    open = d;
    known.size[d] = 1;
  }
  if (ol_shape_count(error, &known, 1, &count) != OL_OK) return ol_fail_in(error, op);
  if (open >= 0 && count > 0 && x->numel % count == 0) {
    known.size[open] = x->numel / count;
    count = x->numel;
  } else if (open >= 0 || count != x->numel) {
    return ol_fail(error, OL_SHAPE, "%s: shape %s of %lld elements cannot become %s", op,
                   ol_shape_text(&x->shape, from), (long long)x->numel, ol_shape_text(shape, to));
  }
  *shape = known;
  return OL_OK;
}

/* Gives the dimensions of shape above *at, as far as they fill a run of `numel` elements that lie
 * `step` apart, their strides. Whether the run is filled. */
static bool fill_run(const ol_shape *shape, int64_t numel, int64_t step, int *at, int64_t *stride) {
  int64_t filled = 1;
  for (; *at >= 0 && (filled < numel || shape->size[*at] == 1); --*at) {
    stride[*at] = filled * step;
    filled *= shape->size[*at];
  }
  return filled == numel;
}

/* The strides with which x can be viewed as shape, of as many elements; false where it cannot.
 * Dimensions of x that lie densely in each other form runs; each must be filled by itself. */
static bool restride(const ol_tensor *x, const ol_shape *shape, int64_t *stride) {
  int at = shape->ndim - 1;
  int64_t run = 1, step = 1;
  if (x->numel <= 1 || ol_tensor_is_contiguous(x)) {
    ol_shape_strides(shape, stride);
    return true;
  }
  for (int d = x->shape.ndim - 1; d >= 0; d--) {
    if (x->shape.size[d] == 1) continue;
    if (run > 1 && x->stride[d] != run * step) {
      if (!fill_run(shape, run, step, &at, stride)) return false;
      run = 1;
    }
    if (run == 1) step = x->stride[d];
    run *= x->shape.size[d];
  }
  return fill_run(shape, run, step, &at, stride);
}

ol_status ol_reshape(ol_error *error, ol_tensor *x, const ol_shape *shape, ol_tensor **out) {
  int64_t stride[OL_MAX_DIMS];
  if (restride(x, shape, stride)) return ol_tensor_view(error, x, shape, stride, x->offset, out);
  ol_tensor *copy;
  OL_TRY(ol_tensor_clone(error, x, &copy));
  ol_shape_strides(shape, stride);
  ol_status status = ol_tensor_view(error, copy, shape, stride, 0, out);
  ol_release(copy);
  return status;
}

/* As the op of that name: infers -1, refuses to copy. */
static ol_status view_as(ol_error *error, const char *op, ol_tensor *x, ol_shape shape,
                         ol_tensor **out) {
  int64_t stride[OL_MAX_DIMS];
  char from[OL_SHAPE_TEXT], to[OL_SHAPE_TEXT];
  OL_TRY(infer(error, op, x, &shape));
  if (!restride(x, &shape, stride))
    return ol_fail(error, OL_SHAPE,
                   "%s: shape %s with these strides cannot be viewed as %s; reshape copies", op,
                   ol_shape_text(&x->shape, from), ol_shape_text(&shape, to));
  return ol_tensor_view(error, x, &shape, stride, x->offset, out);
}

static ol_status reshape_forward(ol_error *error, ol_call *call) {
  ol_shape shape = call->arg[1].list;
  OL_TRY(infer(error, "reshape", call->arg[0].tensor, &shape));
  return ol_reshape(error, call->arg[0].tensor, &shape, &call->out[0]);
}

static ol_status view_forward(ol_error *error, ol_call *call) {
  return view_as(error, "view", call->arg[0].tensor, call->arg[1].list, &call->out[0]);
}

static ol_status view_as_forward(ol_error *error, ol_call *call) {
  return view_as(error, "view_as", call->arg[0].tensor, call->arg[1].tensor->shape, &call->out[0]);
}

/* The dimension of an optional index argument. */
static ol_status dimension(ol_error *error, const char *op, const ol_value *value, int64_t preset,
                           int ndim, int *out) {
  return ol_shape_dim(error, op, value->given ? value->integer : preset, ndim, out);
}

static ol_status flatten_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor;
  ol_shape shape = { .ndim = 0 };
  int first, last;
  OL_TRY(dimension(error, "flatten", &call->arg[1], 0, x->shape.ndim, &first));
  OL_TRY(dimension(error, "flatten", &call->arg[2], -1, x->shape.ndim, &last));
  if (first > last)
    return ol_fail(error, OL_ARGUMENT, "flatten: start_dim %d lies behind end_dim %d", first + 1,
                   last + 1);
  for (int d = 0; d < x->shape.ndim; d++) {
    if (d <= first || d > last)
      shape.size[shape.ndim++] = x->shape.size[d];
    else
      shape.size[first] *= x->shape.size[d];
  }
  if (x->shape.ndim == 0) shape = (ol_shape){ .ndim = 1, .size = { 1 } };
  return ol_reshape(error, x, &shape, &call->out[0]);
}

static ol_status too_many_dims(ol_error *error, const char *op) {
  return ol_fail(error, OL_SHAPE, "%s: a tensor has at most %d dimensions", op, OL_MAX_DIMS);
}

/* Replaces dimension dim of shape by sizes, whose product is that dimension's size. */
static ol_status splice(ol_error *error, const char *op, ol_shape *shape, int dim,
                        const ol_shape *sizes) {
  ol_shape result = { .ndim = 0 };
  if (shape->ndim - 1 + sizes->ndim > OL_MAX_DIMS) return too_many_dims(error, op);
  for (int d = 0; d < dim; d++) result.size[result.ndim++] = shape->size[d];
  for (int d = 0; d < sizes->ndim; d++) result.size[result.ndim++] = sizes->size[d];
  for (int d = dim + 1; d < shape->ndim; d++) result.size[result.ndim++] = shape->size[d];
  *shape = result;
  return OL_OK;
}

static ol_status unflatten_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor;
  ol_shape shape = x->shape, sizes = call->arg[2].list;
  int dim;
  OL_TRY(ol_shape_dim(error, "unflatten", call->arg[1].integer, x->shape.ndim, &dim));
  ol_tensor row = { .shape = { .ndim = 1 } }; /* one dimension by itself, to infer -1 from */
  row.numel = row.shape.size[0] = x->shape.ndim ? x->shape.size[dim] : 1;
  OL_TRY(infer(error, "unflatten", &row, &sizes));
  if (x->shape.ndim == 0) shape = row.shape;
  OL_TRY(splice(error, "unflatten", &shape, dim, &sizes));
  return ol_reshape(error, x, &shape, &call->out[0]);
}

static ol_status squeeze_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor;
  ol_shape shape = { .ndim = 0 };
  bool mask[OL_MAX_DIMS];
  int64_t stride[OL_MAX_DIMS];
  OL_TRY(ol_shape_mask(error, "squeeze", &call->arg[1].list, x->shape.ndim, mask));
  for (int d = 0; d < x->shape.ndim; d++) {
    if (mask[d] && x->shape.size[d] == 1) continue;
    stride[shape.ndim] = x->stride[d];
    shape.size[shape.ndim++] = x->shape.size[d];
  }
  return ol_tensor_view(error, x, &shape, stride, x->offset, &call->out[0]);
}

static ol_status unsqueeze_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor;
  ol_shape shape = { .ndim = 0 };
  int64_t stride[OL_MAX_DIMS];
  int dim, ndim = x->shape.ndim;
  if (ndim == OL_MAX_DIMS) return too_many_dims(error, "unsqueeze");
  OL_TRY(ol_shape_dim(error, "unsqueeze", call->arg[1].integer, ndim + 1, &dim));
  for (int d = 0; d <= ndim; d++) {
    if (d == dim) {
      stride[shape.ndim] = d < ndim ? x->stride[d] * x->shape.size[d] : 1;
      shape.size[shape.ndim++] = 1;
    }
    if (d == ndim) break;
    stride[shape.ndim] = x->stride[d];
    shape.size[shape.ndim++] = x->shape.size[d];
  }
  return ol_tensor_view(error, x, &shape, stride, x->offset, &call->out[0]);
}

/* The gradient has the input's elements in the same order. */
static ol_status reshape_back(ol_error *error, ol_back *back) {
  return ol_reshape(error, back->grad_out[0], back->shape[0], &back->grad[0]);
}

const ol_family ol_reshape_ops = {
  .name = "reshape",
  .doc = "Other shapes for the same elements",
  .ops =
      (const ol_op[]){
          { .name = "reshape",
            .doc = "The same elements in row-major order with another shape, of which one size may "
                   "be -1; a view where the strides allow it, else a copy.",
            .example = "print(optlua.arange(6):reshape(3, -1):select(1, 2)) --> tensor([2, 3])",
            .samples =
                "{ { t(3, 4), { 2, -1 } }, { t(4, 3):t(), { 6, 2 } }, { t(), { 1, 1 } }, "
                "{ t(1), {} }, { t(0, 3), { 3, 0, 2 } }, { t(2, 6):narrow(2, 2, 3), { -1 } }, "
                "{ t(1, 3):expand(4, 3), { 2, 2, 3 } } }",
            .param = { { "self", OL_TENSOR },
                       { "shape", OL_SIZES, .doc = "the new sizes; -1: what remains" } },
            .forward = reshape_forward,
            .backward = reshape_back },
          { .name = "view",
            .doc = "As reshape, but never a copy: raises where the strides do not allow a view.",
            .example = "print(optlua.arange(4):view(2, 2):select(2, 1)) --> tensor([0, 2])",
            .samples = "{ { t(3, 4), { 2, -1 } }, { t(), { 1, 1 } }, { t(1), {} }, "
                       "{ t(0, 3), { 3, 0 } }, { t(6, 4):narrow(1, 2, 4), { 2, 8 } }, "
                       "{ t(4, 6):t(), { 2, 3, 4 } }, { t(1, 3):expand(4, 3), { 2, 2, 3 } } }",
            .param = { { "self", OL_TENSOR },
                       { "shape", OL_SIZES, .doc = "the new sizes; -1: what remains" } },
            .flags = OL_OP_VIEW,
            .forward = view_forward,
            .backward = reshape_back },
          { .name = "view_as",
            .doc = "As view, with the shape of another tensor.",
            .example = "print(optlua.arange(3):view_as(optlua.zeros(3, 1)):size(1)) --> 3",
            .samples = "{ { t(3, 4), c(2, 6) }, { t(), c(1, 1) }, { t(0, 3), c(3, 0) } }",
            .param = { { "self", OL_TENSOR }, { "other", OL_TENSOR } },
            .flags = OL_OP_VIEW,
            .forward = view_as_forward,
            .backward = reshape_back },
          { .name = "flatten",
            .doc = "Joins the dimensions from start_dim to end_dim into one; a 0-dimensional "
                   "tensor gets one dimension.",
            .example = "print(optlua.zeros(2, 3, 4):flatten(2):size(2)) --> 12",
            .samples = "{ { t(2, 3, 2) }, { t(2, 3, 2), 2 }, { t(2, 3, 2), -3, -2 }, { t() }, "
                       "{ t(0, 3) }, { t(4, 3):t() } }",
            .param = { { "self", OL_TENSOR },
                       { "start_dim", OL_INDEX, true, 1, .doc = "the first dimension to join" },
                       { "end_dim", OL_INDEX, true, -1, .doc = "the last one" } },
            .forward = flatten_forward,
            .backward = reshape_back },
          { .name = "unflatten",
            .doc = "Cuts one dimension into several, whose sizes multiply to its size.",
            .example = "print(optlua.arange(6):unflatten(1, { 2, 3 }):select(1, 2)) "
                       "--> tensor([3, 4, 5])",
            .samples = "{ { t(2, 6), 2, { 3, -1 } }, { t(6, 2):t(), -1, { 2, 3 } }, "
                       "{ t(0, 4), 2, { 2, 2 } } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_INDEX, .doc = "the dimension to cut" },
                       { "sizes", OL_SIZES, .doc = "its new sizes; one may be -1" } },
            .forward = unflatten_forward,
            .backward = reshape_back },
          { .name = "squeeze",
            .doc = "A view without the dimensions of size 1, or without those of them that dim "
                   "names.",
            .example = "print(optlua.ones(1, 3, 1):squeeze()) --> tensor([1., 1., 1.])",
            .samples = "{ { t(1, 3, 1) }, { t(1, 3, 1), 1 }, { t(1, 3, 1), { 2, -1 } }, { t() }, "
                       "{ t(1, 0) }, { t(3, 1, 2):transpose(1, 3) } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_DIMS, true, .doc = "dimensions; of other sizes they stay" } },
            .flags = OL_OP_VIEW,
            .forward = squeeze_forward,
            .backward = reshape_back },
          { .name = "unsqueeze",
            .doc = "A view with a dimension of size 1 put in, which becomes dimension dim.",
            .example = "print(optlua.ones(3):unsqueeze(1):size(1)) --> 1",
            .samples = "{ { t(3, 4), 1 }, { t(3, 4), 3 }, { t(3, 4), -1 }, { t(), 1 }, "
                       "{ t(0, 3), 2 }, { t(4, 3):t(), -2 } }",
            .param = { { "self", OL_TENSOR }, { "dim", OL_INDEX, .doc = "1 … ndim + 1" } },
            .flags = OL_OP_VIEW,
            .forward = unsqueeze_forward,
            .backward = reshape_back },
          { 0 } },
};
