/* gather: an index for each element: gather, scatter, scatter_add, take, take_along_dim. */
#include "ops/gather.h"

#include "ops/choose.h"
#include "ops/families.h"
#include "ops/indexing.h"
#include "ops/view.h"

/* ---- checks ---- */

static int dims_of(const ol_shape *shape) { return shape->ndim ? shape->ndim : 1; }

/* The size of dimension d; a 0-dimensional tensor has one, of size 1. */
static int64_t size_of(const ol_shape *shape, int d) { return shape->ndim ? shape->size[d] : 1; }

/* Whether part, but for dimension `except`, lies within whole. */
static bool within(const ol_shape *part, const ol_shape *whole, int except) {
  if (dims_of(part) != dims_of(whole)) return false;
  for (int d = 0; d < dims_of(part); d++)
    if (d != except && size_of(part, d) > size_of(whole, d)) return false;
  return true;
}

static ol_status outside(ol_error *error, const char *op, const char *what, const ol_shape *index,
                         const ol_shape *whole) {
  char a[OL_SHAPE_TEXT], b[OL_SHAPE_TEXT];
  return ol_fail(error, OL_SHAPE, "%s: an index of shape %s does not lie within %s, %s", op,
                 ol_shape_text(index, a), what, ol_shape_text(whole, b));
}

static int64_t step_of(const ol_tensor *x, int dim) { return x->shape.ndim ? x->stride[dim] : 0; }

/* ---- gather ---- */

ol_status ol_gather(ol_error *error, const char *op, ol_tensor *x, int dim, ol_tensor *index,
                    ol_tensor **out) {
  ol_tensor *y;
  if (!within(&index->shape, &x->shape, dim))
    return outside(error, op, "the tensor", &index->shape, &x->shape);
  OL_TRY(ol_index_check(error, op, index, size_of(&x->shape, dim)));
  OL_TRY(ol_tensor_new(error, x->dtype, &index->shape, &y));
  ol_tensor lines = ol_index_lines(x, dim, &index->shape);
  ol_index_read(y, index, &lines, step_of(x, dim));
  *out = y;
  return OL_OK;
}

/* Adds grad to target where index points. */
static ol_status add_at(ol_error *error, const char *op, ol_tensor *target, int dim,
                        ol_tensor *index, const ol_tensor *grad) {
  OL_TRY(ol_index_check(error, op, index, size_of(&target->shape, dim)));
  ol_tensor lines = ol_index_lines(target, dim, &index->shape);
  ol_index_add(&lines, index, grad, step_of(target, dim), dim);
  return OL_OK;
}

ol_status ol_gather_back(ol_error *error, const char *op, ol_tensor *grad, const ol_shape *shape,
                         int dim, ol_tensor *index, ol_tensor **out) {
  ol_tensor *x;
  OL_TRY(ol_tensor_zeros(error, grad->dtype, shape, &x));
  ol_status status = add_at(error, op, x, dim, index, grad);
  if (status != OL_OK)
    ol_release(x);
  else
    *out = x;
  return status;
}

static ol_status gather_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor;
  int dim;
  OL_TRY(ol_shape_dim(error, "gather", call->arg[1].integer, x->shape.ndim, &dim));
  return ol_gather(error, "gather", x, dim, call->arg[2].tensor, &call->out[0]);
}

static ol_status gather_grad(ol_error *error, ol_back *back) {
  int dim;
  OL_TRY(ol_shape_dim(error, "gather", back->arg[1].integer, back->shape[0]->ndim, &dim));
  return ol_gather_back(error, "gather", back->grad_out[0], back->shape[0], dim,
                        back->arg[2].tensor, &back->grad[0]);
}

/* ---- scatter, scatter_add ---- */

static ol_status check_scatter(ol_error *error, const ol_call *call, int *dim) {
  const char *op = call->op->name;
  ol_tensor *self = call->arg[0].tensor, *index = call->arg[2].tensor, *src = call->arg[3].tensor;
  OL_TRY(ol_shape_dim(error, op, call->arg[1].integer, self->shape.ndim, dim));
  if (!within(&index->shape, &self->shape, *dim))
    return outside(error, op, "the tensor", &index->shape, &self->shape);
  if (src->shape.ndim > 0 && !within(&index->shape, &src->shape, -1))
    return outside(error, op, "src", &index->shape, &src->shape);
  if (src->shape.ndim > 0 && src->dtype != self->dtype)
    return ol_fail(error, OL_DTYPE, "%s: src is %s, the tensor %s", op, ol_dtype_name(src->dtype),
                   ol_dtype_name(self->dtype));
  if (src->shape.ndim == 0) OL_TRY(ol_check_fill(error, op, src, self->dtype));
  if (call->op->flags & OL_OP_INPLACE) OL_TRY(ol_index_writable(error, op, self, index));
  return ol_index_check(error, op, index, size_of(&self->shape, *dim));
}

/* A loan: the part of src that index covers; a single number stands still. */
static ol_tensor covered(const ol_tensor *src, const ol_shape *shape) {
  return ol_index_lines(src, -1, shape);
}

/* src as a tensor of target's dtype that shares no memory with it. */
static ol_status apart(ol_error *error, ol_tensor *src, const ol_tensor *target, ol_tensor **out) {
  if (src->dtype != target->dtype || src->storage == target->storage)
    return ol_tensor_convert(error, src, target->dtype, out);
  *out = ol_retain(src);
  return OL_OK;
}

/* Where a scattering op writes: the tensor itself or, unless the op works in place, a copy. */
static ol_status target_of(ol_error *error, ol_call *call, ol_tensor **out) {
  ol_tensor *self = call->arg[0].tensor;
  if (!(call->op->flags & OL_OP_INPLACE)) return ol_tensor_clone(error, self, out);
  *out = ol_retain(self);
  return OL_OK;
}

/* fn is ol_index_write or ol_index_add. */
static ol_status scatter(ol_error *error, ol_call *call, ol_index_fn *fn) {
  ol_tensor *index = call->arg[2].tensor, *src, *target = NULL;
  int dim;
  OL_TRY(check_scatter(error, call, &dim));
  OL_TRY(apart(error, call->arg[3].tensor, call->arg[0].tensor, &src));
  ol_status status = target_of(error, call, &target);
  if (status == OL_OK) {
    ol_tensor lines = ol_index_lines(target, dim, &index->shape);
    ol_tensor part = covered(src, &index->shape);
    fn(&lines, index, &part, step_of(target, dim), dim);
    ol_tensor_touch(target);
    call->out[0] = target;
  }
  ol_release(src);
  return status;
}

static ol_status scatter_forward(ol_error *error, ol_call *call) {
  return scatter(error, call, ol_index_write);
}

static ol_status scatter_add_forward(ol_error *error, ol_call *call) {
  OL_TRY(ol_index_adds(error, call->op->name, call->arg[0].tensor->dtype));
  return scatter(error, call, ol_index_add);
}

/* The gradient of self: what was overwritten has none. */
static ol_status zero_at(ol_error *error, const ol_tensor *grad, int dim, const ol_tensor *index,
                         ol_tensor **out) {
  ol_shape scalar = { .ndim = 0 };
  ol_tensor *zero, *rest;
  OL_TRY(ol_tensor_zeros(error, grad->dtype, &scalar, &zero));
  ol_status status = ol_tensor_clone(error, grad, &rest);
  if (status == OL_OK) {
    ol_tensor lines = ol_index_lines(rest, dim, &index->shape);
    ol_tensor zeros = ol_index_spread(zero, -1, &index->shape);
    ol_index_write(&lines, index, &zeros, step_of(rest, dim), dim);
    *out = rest;
  }
  ol_release(zero);
  return status;
}

/* The gradient of src: what was written is looked up, the part that index does not cover is 0. */
static ol_status look_up(ol_error *error, ol_tensor *grad, int dim, ol_tensor *index,
                         const ol_shape *shape, ol_tensor **out) {
  ol_tensor *found;
  if (shape->ndim == 0) return ol_gather(error, "scatter", grad, dim, index, out);
  OL_TRY(ol_tensor_zeros(error, grad->dtype, shape, &found));
  ol_tensor part = covered(found, &index->shape);
  ol_tensor lines = ol_index_lines(grad, dim, &index->shape);
  ol_index_read(&part, index, &lines, step_of(grad, dim));
  *out = found;
  return OL_OK;
}

static ol_status scatter_grad(ol_error *error, ol_back *back, bool add) {
  ol_tensor *grad = back->grad_out[0], *index = back->arg[2].tensor;
  int dim;
  OL_TRY(ol_shape_dim(error, "scatter", back->arg[1].integer, grad->shape.ndim, &dim));
  OL_TRY(ol_index_check(error, "scatter", index, size_of(&grad->shape, dim)));
  if (back->needs[0] && add)
    back->grad[0] = ol_retain(grad);
  else if (back->needs[0])
    OL_TRY(zero_at(error, grad, dim, index, &back->grad[0]));
  if (back->needs[2]) OL_TRY(look_up(error, grad, dim, index, back->shape[2], &back->grad[2]));
  return OL_OK;
}

static ol_status scatter_back(ol_error *error, ol_back *back) {
  return scatter_grad(error, back, false);
}

static ol_status scatter_add_back(ol_error *error, ol_back *back) {
  return scatter_grad(error, back, true);
}

/* ---- take, take_along_dim ---- */

static ol_status take(ol_error *error, const char *op, ol_tensor *x, ol_tensor *index,
                      ol_tensor **out) {
  ol_shape row = { .ndim = 1, .size = { x->numel } };
  ol_tensor *flat = NULL, *y = NULL;
  OL_TRY(ol_index_check(error, op, index, x->numel));
  OL_TRY(ol_reshape(error, x, &row, &flat));
  ol_status status = ol_tensor_new(error, x->dtype, &index->shape, &y);
  if (status == OL_OK) {
    ol_tensor lines = ol_index_spread(flat, -1, &index->shape);
    ol_index_read(y, index, &lines, flat->stride[0]);
    *out = y;
  }
  ol_release(flat);
  return status;
}

static ol_status take_forward(ol_error *error, ol_call *call) {
  return take(error, "take", call->arg[0].tensor, call->arg[1].tensor, &call->out[0]);
}

static ol_status take_back(ol_error *error, ol_back *back) {
  ol_tensor *grad = back->grad_out[0], *index = back->arg[1].tensor, *x;
  OL_TRY(ol_index_check(error, "take", index, ol_shape_numel(back->shape[0])));
  OL_TRY(ol_tensor_zeros(error, grad->dtype, back->shape[0], &x));
  ol_tensor lines = ol_index_spread(x, -1, &index->shape);
  ol_index_add(&lines, index, grad, 1, -1);
  back->grad[0] = x;
  return OL_OK;
}

/* The shapes to which tensor and indices of take_along_dim broadcast; dim is left out of it. */
static ol_status align(ol_error *error, const ol_value *arg, ol_shape *x, ol_shape *index,
                       int *dim) {
  ol_shape a = *x, b = *index, both;
  OL_TRY(ol_shape_dim(error, "take_along_dim", arg[2].integer, x->ndim, dim));
  if (x->ndim != index->ndim)
    return ol_fail(error, OL_SHAPE,
                   "take_along_dim: the tensor has %d dimensions, the indices have %d", x->ndim,
                   index->ndim);
  if (x->ndim == 0) return OL_OK;
  a.size[*dim] = b.size[*dim] = 1;
  OL_TRY(ol_shape_broadcast(error, "take_along_dim", &a, &b, &both));
  a = b = both;
  a.size[*dim] = x->size[*dim];
  b.size[*dim] = index->size[*dim];
  *x = a;
  *index = b;
  return OL_OK;
}

/* The indices of take_along_dim, expanded; and the shape that the tensor is expanded to. */
static ol_status expand_indices(ol_error *error, const ol_value *arg, ol_shape *shape, int *dim,
                                ol_tensor **out) {
  ol_shape indices = arg[1].tensor->shape;
  OL_TRY(align(error, arg, shape, &indices, dim));
  return ol_expand(error, "take_along_dim", arg[1].tensor, &indices, out);
}

static ol_status along_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *index = call->arg[1].tensor, *wide = NULL;
  ol_shape shape = x->shape, row = { .ndim = 1, .size = { index->numel } };
  int dim;
  if (call->arg[2].given) {
    OL_TRY(expand_indices(error, call->arg, &shape, &dim, &index));
    ol_status status = ol_expand(error, "take_along_dim", x, &shape, &wide);
    if (status == OL_OK)
      status = ol_gather(error, "take_along_dim", wide, dim, index, &call->out[0]);
    ol_release(index);
    ol_release(wide);
    return status;
  }
  OL_TRY(ol_reshape(error, index, &row, &index));
  ol_status status = take(error, "take_along_dim", x, index, &call->out[0]);
  ol_release(index);
  return status;
}

static ol_status along_back(ol_error *error, ol_back *back) {
  ol_tensor *grad, *index;
  ol_shape shape = *back->shape[0];
  int dim;
  if (!back->arg[2].given) {
    OL_TRY(ol_reshape(error, back->grad_out[0], &back->arg[1].tensor->shape, &grad));
    ol_back same = *back;
    same.grad_out = &grad;
    ol_status status = take_back(error, &same);
    ol_release(grad);
    return status;
  }
  OL_TRY(expand_indices(error, back->arg, &shape, &dim, &index));
  ol_status status = ol_gather_back(error, "take_along_dim", back->grad_out[0], &shape, dim, index,
                                    &back->grad[0]);
  ol_release(index);
  return status;
}

/* An op and its twin that works in place. */
#define SCATTER(name_, flags_, doc_, example_, src_kind, run, back)                                \
  { .name = name_,                                                                                 \
    .doc = doc_,                                                                                   \
    .example = example_,                                                                           \
    .samples = "{ { t(3, 4), 2, c(3, 4):argsort(2):narrow(2, 1, 2), t(3, 2) }, "                   \
               "{ t(3, 4), 1, i({ 1, 3 }, 3), t(1, 3) }, "                                         \
               "{ t(4, 3), -1, i({ 4, 1 }, 3), t(3, 4):t() }, { t(), 1, i({}, 1), t() }, "         \
               "{ t(0, 3), 2, i({ 0, 3 }, 3), t(0, 3) } }",                                        \
    .param = { { "self", OL_TENSOR },                                                              \
               { "dim", OL_INDEX },                                                                \
               { "index", OL_TENSOR, .doc = "int64, counting from 0" },                            \
               { "src", src_kind, .doc = "at least as large as index" } },                         \
    .saves = OL_SAVE_ARG(2),                                                                       \
    .flags = flags_,                                                                               \
    .forward = run,                                                                                \
    .backward = back }

const ol_family ol_gather_ops = {
  .name = "gather",
  .doc = "Looking up and scattering, an index for each element",
  .ops =
      (const ol_op[]){
          { .name = "gather",
            .doc = "out[i][j] = self[i][index[i][j]] for dim 2, likewise for others; indices are "
                   "data, from 0.",
            .example = "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):gather(2, "
                       "optlua.tensor({ { 1 }, { 0 } }, { dtype = \"int64\" })):flatten()) "
                       "--> tensor([2., 3.])",
            .samples = "{ { t(3, 4), 2, i({ 3, 2 }, 4) }, { t(3, 4), 1, i({ 7, 3 }, 3) }, "
                       "{ t(4, 3):t(), -1, i({ 3, 5 }, 4) }, { t(), 1, i({}, 1) }, "
                       "{ t(), 1, i({ 3 }, 1) }, { t(0, 3), 2, i({ 0, 2 }, 3) }, "
                       "{ t(1, 4):expand(3, 4), 2, i({ 3, 1 }, 4):expand(3, 6) } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_INDEX },
                       { "index", OL_TENSOR, .doc = "int64, counting from 0" } },
            .saves = OL_SAVE_ARG(2),
            .forward = gather_forward,
            .backward = gather_grad },
          SCATTER("scatter", 0,
                  "A copy with src, a tensor or number, written where index points along dim; of "
                  "repeated indices the last counts.",
                  "print(optlua.zeros(3):scatter(1, optlua.tensor({ 2 }, { dtype = \"int64\" }), "
                  "5)) --> tensor([0., 0., 5.])",
                  OL_OPERAND, scatter_forward, scatter_back),
          SCATTER("scatter_", OL_OP_INPLACE, "As scatter, in place.",
                  "print(optlua.zeros(3):scatter_(1, optlua.tensor({ 2 }, { dtype = \"int64\" }), "
                  "5)) --> tensor([0., 0., 5.])",
                  OL_OPERAND, scatter_forward, scatter_back),
          SCATTER("scatter_add", 0, "A copy with src added where index points along dim.",
                  "print(optlua.zeros(3):scatter_add(1, optlua.tensor({ 2, 0, 2 }, { dtype = "
                  "\"int64\" }), optlua.ones(3))) --> tensor([1., 0., 2.])",
                  OL_TENSOR, scatter_add_forward, scatter_add_back),
          SCATTER("scatter_add_", OL_OP_INPLACE, "As scatter_add, in place.",
                  "print(optlua.zeros(3):scatter_add_(1, optlua.tensor({ 2, 0, 2 }, { dtype = "
                  "\"int64\" }), optlua.ones(3))) --> tensor([1., 0., 2.])",
                  OL_TENSOR, scatter_add_forward, scatter_add_back),
          { .name = "take",
            .doc = "The elements at positions of the flattened tensor, from 0, in the shape of "
                   "index.",
            .example = "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):take(optlua.tensor({ 3, 0 }, "
                       "{ dtype = \"int64\" }))) --> tensor([4., 1.])",
            .samples = "{ { t(3, 4), i({ 2, 2 }, 12) }, { t(4, 3):t(), i({ 20 }, 12) }, "
                       "{ t(3), i({}, 3) }, { t(), i({ 2 }, 1) }, { t(0, 3), i({ 0 }, 1) } }",
            .param = { { "self", OL_TENSOR },
                       { "index", OL_TENSOR, .doc = "int64, counting from 0" } },
            .saves = OL_SAVE_ARG(1),
            .forward = take_forward,
            .backward = take_back },
          { .name = "take_along_dim",
            .doc = "As gather, but tensor and indices broadcast; without dim both are flattened.",
            .example = "print(optlua.tensor({ 5, 6, 7 }):take_along_dim(optlua.tensor({ 2, 0 }, "
                       "{ dtype = \"int64\" }), 1)) --> tensor([7., 5.])",
            .samples = "{ { t(3, 4), i({ 1, 2 }, 4), 2 }, { t(1, 4), i({ 3, 6 }, 4), -1 }, "
                       "{ t(3, 4), i({ 2, 2 }, 12) }, { t(4, 3):t(), i({ 2, 1 }, 3), 1 }, "
                       "{ t(), i({}, 1) }, { t(0, 3), i({ 0, 2 }, 3), 2 } }",
            .param = { { "self", OL_TENSOR },
                       { "indices", OL_TENSOR, .doc = "int64, counting from 0" },
                       { "dim", OL_INDEX, true, .doc = "none: the flattened tensors" } },
            .saves = OL_SAVE_ARG(1),
            .forward = along_forward,
            .backward = along_back },
          { 0 } },
};
