/* join: tensors put side by side, repeated, turned round. */
#include "ops/families.h"
#include "ops/view.h"
#include "tensor/accumulate.h"

/* ---- cat, stack ---- */

/* A tensor of shape (0) is joined with anything and adds nothing, as in PyTorch. */
static bool is_nothing(const ol_tensor *x) { return x->shape.ndim == 1 && x->numel == 0; }

static ol_status unequal(ol_error *error, const char *op, int i, const ol_tensor *first,
                         const ol_tensor *other) {
  char a[OL_SHAPE_TEXT], b[OL_SHAPE_TEXT];
  return ol_fail(error, OL_SHAPE, "%s: tensor %d of shape %s does not fit to the first, %s", op,
                 i + 1, ol_shape_text(&other->shape, b), ol_shape_text(&first->shape, a));
}

static ol_dtype joined_dtype(const ol_value *list) {
  ol_dtype dtype = list->tensors.item[0]->dtype;
  for (int i = 1; i < list->tensors.count; i++)
    dtype = ol_dtype_promote(dtype, list->tensors.item[i]->dtype);
  return dtype;
}

/* The first tensor that has a say in the shape. */
static const ol_tensor *first_of(const ol_value *list) {
  for (int i = 0; i < list->tensors.count; i++)
    if (!is_nothing(list->tensors.item[i])) return list->tensors.item[i];
  return list->tensors.item[0];
}

/* The shape that cat gives, and the dimension. */
static ol_status cat_shape(ol_error *error, const ol_value *arg, ol_shape *shape, int *dim) {
  const ol_tensor *first = first_of(&arg[0]);
  if (first->shape.ndim == 0)
    return ol_fail(error, OL_SHAPE, "cat: 0-dimensional tensors cannot be joined; use stack");
  OL_TRY(ol_shape_dim(error, "cat", arg[1].given ? arg[1].integer : 0, first->shape.ndim, dim));
  *shape = first->shape;
  shape->size[*dim] = 0;
  for (int i = 0; i < arg[0].tensors.count; i++) {
    const ol_tensor *x = arg[0].tensors.item[i];
    if (is_nothing(x)) continue;
    ol_shape rest = x->shape;
    if (rest.ndim == shape->ndim) rest.size[*dim] = shape->size[*dim];
    if (!ol_shape_equal(&rest, shape)) return unequal(error, "cat", i, first, x);
    if (__builtin_add_overflow(shape->size[*dim], x->shape.size[*dim], &shape->size[*dim]))
      return ol_fail(error, OL_SHAPE, "cat: the sizes of dimension %d add up to too much",
                     *dim + 1);
  }
  return OL_OK;
}

/* Copies the tensors of a list into the parts of y along dim. */
static ol_status fill_parts(ol_error *error, const ol_value *list, ol_tensor *y, int dim) {
  int64_t at = 0;
  for (int i = 0; i < list->tensors.count; i++) {
    ol_tensor *x = list->tensors.item[i], *part;
    if (is_nothing(x)) continue;
    OL_TRY(ol_narrow(error, y, dim, at, x->shape.size[dim], &part));
    ol_status status = ol_tensor_copy(error, part, x);
    ol_release(part);
    OL_TRY(status);
    at += x->shape.size[dim];
  }
  return OL_OK;
}

static ol_status cat_forward(ol_error *error, ol_call *call) {
  ol_shape shape;
  ol_tensor *y;
  int dim;
  OL_TRY(cat_shape(error, call->arg, &shape, &dim));
  OL_TRY(ol_tensor_new(error, joined_dtype(&call->arg[0]), &shape, &y));
  ol_status status = fill_parts(error, &call->arg[0], y, dim);
  if (status != OL_OK)
    ol_release(y);
  else
    call->out[0] = y;
  return status;
}

static ol_status cat_back(ol_error *error, ol_back *back) {
  const ol_tensor *grad = back->grad_out[0];
  int64_t at = 0;
  int dim;
  OL_TRY(ol_shape_dim(error, "cat", back->arg[1].given ? back->arg[1].integer : 0, grad->shape.ndim,
                      &dim));
  for (int i = 0; i < back->inputs; i++) {
    const ol_shape *shape = back->shape[i];
    if (shape->ndim == 1 && shape->size[0] == 0) continue;
    if (back->needs[i]) OL_TRY(ol_narrow(error, grad, dim, at, shape->size[dim], &back->grad[i]));
    at += shape->size[dim];
  }
  return OL_OK;
}

/* The view of position i of dimension dim, without that dimension. */
static ol_status slice(ol_error *error, const ol_tensor *x, int dim, int64_t i, ol_tensor **out) {
  ol_shape shape = { .ndim = 0 };
  int64_t stride[OL_MAX_DIMS];
  for (int d = 0; d < x->shape.ndim; d++) {
    if (d == dim) continue;
    stride[shape.ndim] = x->stride[d];
    shape.size[shape.ndim++] = x->shape.size[d];
  }
  return ol_tensor_view(error, x, &shape, stride, x->offset + i * x->stride[dim], out);
}

static ol_status stack_shape(ol_error *error, const ol_value *arg, ol_shape *shape, int *dim) {
  const ol_tensor *first = arg[0].tensors.item[0];
  int ndim = first->shape.ndim;
  if (ndim == OL_MAX_DIMS)
    return ol_fail(error, OL_SHAPE, "stack: a tensor has at most %d dimensions", OL_MAX_DIMS);
  OL_TRY(ol_shape_dim(error, "stack", arg[1].given ? arg[1].integer : 0, ndim + 1, dim));
  for (int i = 1; i < arg[0].tensors.count; i++)
    if (!ol_shape_equal(&arg[0].tensors.item[i]->shape, &first->shape))
      return unequal(error, "stack", i, first, arg[0].tensors.item[i]);
  *shape = (ol_shape){ .ndim = ndim + 1 };
  for (int d = 0; d <= ndim; d++)
    shape->size[d] = d == *dim ? arg[0].tensors.count : first->shape.size[d - (d > *dim)];
  return OL_OK;
}

static ol_status fill_slices(ol_error *error, const ol_value *list, ol_tensor *y, int dim) {
  for (int i = 0; i < list->tensors.count; i++) {
    ol_tensor *part;
    OL_TRY(slice(error, y, dim, i, &part));
    ol_status status = ol_tensor_copy(error, part, list->tensors.item[i]);
    ol_release(part);
    OL_TRY(status);
  }
  return OL_OK;
}

static ol_status stack_forward(ol_error *error, ol_call *call) {
  ol_shape shape;
  ol_tensor *y;
  int dim;
  OL_TRY(stack_shape(error, call->arg, &shape, &dim));
  OL_TRY(ol_tensor_new(error, joined_dtype(&call->arg[0]), &shape, &y));
  ol_status status = fill_slices(error, &call->arg[0], y, dim);
  if (status != OL_OK)
    ol_release(y);
  else
    call->out[0] = y;
  return status;
}

static ol_status stack_back(ol_error *error, ol_back *back) {
  const ol_tensor *grad = back->grad_out[0];
  int dim;
  OL_TRY(ol_shape_dim(error, "stack", back->arg[1].given ? back->arg[1].integer : 0,
                      grad->shape.ndim, &dim));
  for (int i = 0; i < back->inputs; i++)
    if (back->needs[i]) OL_TRY(slice(error, grad, dim, i, &back->grad[i]));
  return OL_OK;
}

/* ---- tile, repeat_interleave ---- */

/* How a dimension is repeated: the whole of it (a b a b), or each position (a a b b). */
typedef struct repeat {
  int dim;
  int64_t times;
  bool each;
} repeat;

/* The shape of x with the dimension cut out: (outer, times, size, inner), or with times and size
 * exchanged for each. */
static ol_shape repeated(const ol_shape *shape, const repeat *r) {
  ol_shape result = { .ndim = 4, .size = { 1, r->times, shape->size[r->dim], 1 } };
  for (int d = 0; d < r->dim; d++) result.size[0] *= shape->size[d];
  for (int d = r->dim + 1; d < shape->ndim; d++) result.size[3] *= shape->size[d];
  if (r->each) {
    result.size[1] = shape->size[r->dim];
    result.size[2] = r->times;
  }
  return result;
}

/* Repeats one dimension of x (contiguous). */
static ol_status repeat_dim(ol_error *error, const char *op, ol_tensor *x, const repeat *r,
                            ol_tensor **out) {
  repeat once = { .dim = r->dim, .times = 1, .each = r->each };
  ol_shape from = repeated(&x->shape, &once), to = repeated(&x->shape, r), shape = x->shape;
  ol_tensor *cut = NULL, *spread = NULL, *copy = NULL;
  if (__builtin_mul_overflow(shape.size[r->dim], r->times, &shape.size[r->dim]))
    return ol_fail(error, OL_SHAPE, "%s: dimension %d repeated %lld times is too large", op,
                   r->dim + 1, (long long)r->times);
  ol_status status = ol_reshape(error, x, &from, &cut);
  if (status == OL_OK) status = ol_expand(error, op, cut, &to, &spread);
  if (status == OL_OK) status = ol_tensor_clone(error, spread, &copy);
  if (status == OL_OK) status = ol_reshape(error, copy, &shape, out);
  ol_release(cut);
  ol_release(spread);
  ol_release(copy);
  return status;
}

/* Sums the gradient of a repeated dimension; shape is the one before it was repeated. */
static ol_status unrepeat_dim(ol_error *error, ol_tensor *grad, const ol_shape *shape,
                              const repeat *r, ol_tensor **out) {
  repeat once = { .dim = r->dim, .times = 1, .each = r->each };
  ol_shape from = repeated(shape, r), to = repeated(shape, &once);
  ol_tensor *cut = NULL, *sum = NULL;
  ol_status status = ol_reshape(error, grad, &from, &cut);
  if (status == OL_OK) status = ol_tensor_sum_to(error, cut, &to, grad->dtype, &sum);
  if (status == OL_OK) status = ol_reshape(error, sum, shape, out);
  ol_release(cut);
  ol_release(sum);
  return status;
}

/* The shape of a tile's input with as many dimensions as its output: sizes of 1 in front. */
static ol_shape padded(const ol_shape *shape, int ndim) {
  ol_shape result = { .ndim = shape->ndim > ndim ? shape->ndim : ndim };
  int added = result.ndim - shape->ndim;
  for (int d = 0; d < result.ndim; d++) result.size[d] = d < added ? 1 : shape->size[d - added];
  return result;
}

/* How often a tile repeats dimension d of ndim. */
static repeat tile_of(const ol_shape *dims, int d, int ndim) {
  int own = d - (ndim - dims->ndim);
  return (repeat){ .dim = d, .times = own < 0 ? 1 : dims->size[own] };
}

static ol_status tile_forward(ol_error *error, ol_call *call) {
  ol_tensor *y = call->arg[0].tensor, *copy, *next;
  const ol_shape *dims = &call->arg[1].list;
  ol_shape shape = padded(&y->shape, dims->ndim);
  for (int d = 0; d < dims->ndim; d++)
    if (dims->size[d] < 0)
      return ol_fail(error, OL_ARGUMENT, "tile: %lld repetitions", (long long)dims->size[d]);
  OL_TRY(ol_tensor_clone(error, y, &copy));
  ol_status status = ol_reshape(error, copy, &shape, &y);
  ol_release(copy);
  for (int d = shape.ndim - 1; d >= 0 && status == OL_OK; d--) {
    repeat r = tile_of(dims, d, shape.ndim);
    if (r.times == 1) continue;
    status = repeat_dim(error, "tile", y, &r, &next);
    ol_release(y);
    y = next;
  }
  if (status == OL_OK) call->out[0] = y;
  return status;
}

static ol_status tile_back(ol_error *error, ol_back *back) {
  const ol_shape *dims = &back->arg[1].list;
  ol_tensor *grad = ol_retain(back->grad_out[0]), *next;
  ol_shape goal = padded(back->shape[0], dims->ndim), shape = grad->shape;
  ol_status status = OL_OK;
  for (int d = 0; d < goal.ndim && status == OL_OK; d++) {
    repeat r = tile_of(dims, d, goal.ndim);
    if (r.times == 1) continue;
    shape.size[d] = goal.size[d];
    status = unrepeat_dim(error, grad, &shape, &r, &next);
    ol_release(grad);
    grad = status == OL_OK ? next : NULL;
  }
  if (status == OL_OK) status = ol_reshape(error, grad, back->shape[0], &back->grad[0]);
  ol_release(grad);
  return status;
}

/* Of repeat_interleave: what it repeats, flattened unless dim is given, and how. */
static ol_status interleave_of(ol_error *error, const ol_value *arg, ol_shape *shape, repeat *r) {
  *r = (repeat){ .times = arg[1].integer, .each = true };
  if (r->times < 0)
    return ol_fail(error, OL_ARGUMENT, "repeat_interleave: %lld repetitions", (long long)r->times);
  if (arg[2].given)
    OL_TRY(ol_shape_dim(error, "repeat_interleave", arg[2].integer, shape->ndim, &r->dim));
  if (shape->ndim == 0 || !arg[2].given)
    *shape = (ol_shape){ .ndim = 1, .size = { ol_shape_numel(shape) } };
  return OL_OK;
}

static ol_status interleave_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *flat;
  ol_shape shape = x->shape;
  repeat r;
  OL_TRY(interleave_of(error, call->arg, &shape, &r));
  OL_TRY(ol_reshape(error, x, &shape, &flat));
  ol_status status = repeat_dim(error, "repeat_interleave", flat, &r, &call->out[0]);
  ol_release(flat);
  return status;
}

static ol_status interleave_back(ol_error *error, ol_back *back) {
  ol_shape shape = *back->shape[0];
  ol_tensor *flat;
  repeat r;
  OL_TRY(interleave_of(error, back->arg, &shape, &r));
  OL_TRY(unrepeat_dim(error, back->grad_out[0], &shape, &r, &flat));
  ol_status status = ol_reshape(error, flat, back->shape[0], &back->grad[0]);
  ol_release(flat);
  return status;
}

/* ---- flip, roll ---- */

static ol_status flip(ol_error *error, const ol_value *arg, const ol_tensor *x, ol_tensor **out) {
  ol_tensor turned = *x, *y; /* strides of tensors are never negative; of this loan they are */
  bool mask[OL_MAX_DIMS];
  OL_TRY(ol_shape_mask(error, "flip", &arg[1].list, x->shape.ndim, mask));
  OL_TRY(ol_tensor_new(error, x->dtype, &x->shape, &y));
  for (int d = 0; d < x->shape.ndim && x->numel > 0 && arg[1].list.ndim > 0; d++) {
    if (!mask[d]) continue;
    turned.offset += (x->shape.size[d] - 1) * x->stride[d];
    turned.stride[d] = -x->stride[d];
  }
  ol_status status = ol_tensor_copy(error, y, &turned);
  if (status != OL_OK)
    ol_release(y);
  else
    *out = y;
  return status;
}

static ol_status flip_forward(ol_error *error, ol_call *call) {
  return flip(error, call->arg, call->arg[0].tensor, &call->out[0]);
}

static ol_status flip_back(ol_error *error, ol_back *back) {
  return flip(error, back->arg, back->grad_out[0], &back->grad[0]);
}

/* Copies `count` positions of dimension dim from x into y. */
static ol_status move(ol_error *error, ol_tensor *y, int64_t to, const ol_tensor *x, int64_t from,
                      int dim, int64_t count) {
  ol_tensor *target, *source = NULL;
  OL_TRY(ol_narrow(error, y, dim, to, count, &target));
  ol_status status = ol_narrow(error, x, dim, from, count, &source);
  if (status == OL_OK) status = ol_tensor_copy(error, target, source);
  ol_release(target);
  ol_release(source);
  return status;
}

/* Moves every position of dimension dim up by sign * shift; what falls out comes in below. */
static ol_status roll_dim(ol_error *error, const ol_tensor *x, int64_t shift, int sign, int dim,
                          ol_tensor **out) {
  ol_tensor *y;
  int64_t size = x->shape.size[dim];
  int64_t up = size ? (sign * (shift % size) + size) % size : 0;
  OL_TRY(ol_tensor_new(error, x->dtype, &x->shape, &y));
  ol_status status = move(error, y, up, x, 0, dim, size - up);
  if (status == OL_OK) status = move(error, y, 0, x, size - up, dim, up);
  if (status != OL_OK)
    ol_release(y);
  else
    *out = y;
  return status;
}

/* As one row of elements. */
static ol_status roll_flat(ol_error *error, ol_tensor *x, int64_t shift, int sign,
                           ol_tensor **out) {
  ol_shape row = { .ndim = 1, .size = { x->numel } };
  ol_tensor *flat, *rolled = NULL;
  OL_TRY(ol_reshape(error, x, &row, &flat));
  ol_status status = roll_dim(error, flat, shift, sign, 0, &rolled);
  if (status == OL_OK) status = ol_reshape(error, rolled, &x->shape, out);
  ol_release(flat);
  ol_release(rolled);
  return status;
}

/* sign is 1, or -1 for the way back. */
static ol_status roll(ol_error *error, const ol_value *arg, ol_tensor *x, int sign,
                      ol_tensor **out) {
  const ol_shape *shifts = &arg[1].list, *dims = &arg[2].list;
  ol_tensor *y, *next = NULL;
  if (dims->ndim == 0 && shifts->ndim == 1) return roll_flat(error, x, shifts->size[0], sign, out);
  if (dims->ndim != shifts->ndim)
    return ol_fail(error, OL_ARGUMENT, "roll: %d shifts for %d dimensions", shifts->ndim,
                   dims->ndim);
  if (dims->ndim == 0) return ol_tensor_clone(error, x, out);
  y = ol_retain(x);
  for (int i = 0; i < dims->ndim; i++) {
    int dim;
    ol_status status = ol_shape_dim(error, "roll", dims->size[i], x->shape.ndim, &dim);
    if (status == OL_OK && x->shape.ndim > 0)
      status = roll_dim(error, y, shifts->size[i], sign, dim, &next);
    else if (status == OL_OK)
      status = ol_tensor_clone(error, y, &next);
    ol_release(y);
    OL_TRY(status);
    y = next;
  }
  *out = y;
  return OL_OK;
}

static ol_status roll_forward(ol_error *error, ol_call *call) {
  return roll(error, call->arg, call->arg[0].tensor, 1, &call->out[0]);
}

static ol_status roll_back(ol_error *error, ol_back *back) {
  return roll(error, back->arg, back->grad_out[0], -1, &back->grad[0]);
}

const ol_family ol_join_ops = {
  .name = "join",
  .doc = "Joining, repeating, turning round",
  .ops =
      (const ol_op[]){
          { .name = "cat",
            .doc = "Joins tensors along a dimension that they have; their other sizes agree.",
            .example = "print(optlua.cat({ optlua.ones(2), optlua.zeros(1) })) "
                       "--> tensor([1., 1., 0.])",
            .samples = "{ { { t(3, 2), t(1, 2) } }, { { t(3, 2), t(3, 4), t(3, 0) }, 2 }, "
                       "{ { t(2, 3), t(3, 2):t() }, -1 }, { { t(2, 3) }, 1 }, "
                       "{ { t(0), t(2, 3) }, 1 }, { { t(1, 3):expand(2, 3), t(1, 3) }, 1 }, "
                       "{ { t(0, 3), t(0, 3) }, 2 } }",
            .param = { { "tensors", OL_TENSORS },
                       { "dim", OL_INDEX, true, 1, .doc = "the dimension that grows" } },
            .flags = OL_OP_FUNCTION,
            .forward = cat_forward,
            .backward = cat_back },
          { .name = "stack",
            .doc = "Joins tensors of one shape along a new dimension.",
            .example = "print(optlua.stack({ optlua.ones(2), optlua.zeros(2) }, 2):select(1, 1)) "
                       "--> tensor([1., 0.])",
            .samples = "{ { { t(3, 2), t(3, 2) } }, { { t(3), t(3), t(3) }, 2 }, "
                       "{ { t(2, 3), t(3, 2):t() }, -2 }, { { t(), t() } }, "
                       "{ { t(0, 3), t(0, 3) }, 1 } }",
            .param = { { "tensors", OL_TENSORS },
                       { "dim", OL_INDEX, true, 1, .doc = "the new dimension" } },
            .flags = OL_OP_FUNCTION,
            .forward = stack_forward,
            .backward = stack_back },
          { .name = "tile",
            .doc = "Repeats the tensor along its dimensions, the last ones where dims is shorter; "
                   "new ones come in front where it is longer.",
            .example = "print(optlua.tensor({ 1, 2 }):tile(2)) --> tensor([1., 2., 1., 2.])",
            .samples = "{ { t(3), { 2 } }, { t(2, 3), { 2, 3 } }, { t(2, 3), { 2 } }, "
                       "{ t(3), { 2, 1, 2 } }, { t(), { 2, 2 } }, { t(3, 2):t(), { 2, 2 } }, "
                       "{ t(0, 3), { 2, 2 } }, { t(2, 3), { 0, 1 } }, { t(2, 3), { 1, 1 } } }",
            .param = { { "self", OL_TENSOR },
                       { "dims", OL_SIZES, .doc = "how often, for each dimension" } },
            .forward = tile_forward,
            .backward = tile_back },
          { .name = "repeat_interleave",
            .doc = "Repeats each position of a dimension, or each element of the flattened tensor.",
            .example = "print(optlua.tensor({ 1, 2 }):repeat_interleave(2)) "
                       "--> tensor([1., 1., 2., 2.])",
            .samples = "{ { t(3), 2 }, { t(2, 3), 2 }, { t(2, 3), 3, 1 }, { t(2, 3), 2, -1 }, "
                       "{ t(), 2 }, { t(3, 2):t(), 2, 2 }, { t(0, 3), 2, 2 }, { t(3), 0 } }",
            .param = { { "self", OL_TENSOR },
                       { "repeats", OL_DATA, .doc = "how often" },
                       { "dim", OL_INDEX, true, .doc = "none: the flattened tensor" } },
            .forward = interleave_forward,
            .backward = interleave_back },
          { .name = "flip",
            .doc = "A copy in which dimensions run the other way.",
            .example = "print(optlua.arange(3):flip(1)) --> tensor([2, 1, 0])",
            .samples = "{ { t(3), 1 }, { t(2, 3), { 1, 2 } }, { t(2, 3), -1 }, { t(), {} }, "
                       "{ t(3, 2):t(), 2 }, { t(0, 3), 1 }, { t(1, 3):expand(2, 3), { 1, 2 } } }",
            .param = { { "self", OL_TENSOR }, { "dims", OL_DIMS } },
            .forward = flip_forward,
            .backward = flip_back },
          { .name = "roll",
            .doc = "A copy moved along dimensions; what falls out at the end comes in at the "
                   "start. Without dims the flattened tensor is moved.",
            .example = "print(optlua.arange(4):roll(1)) --> tensor([3, 0, 1, 2])",
            .samples = "{ { t(4), 1 }, { t(2, 3), 2 }, { t(2, 3), { 1, -2 }, { 1, 2 } }, "
                       "{ t(), 1 }, { t(3, 2):t(), 1, 2 }, { t(0, 3), 1, 1 }, { t(3), 7, 1 } }",
            .param = { { "self", OL_TENSOR },
                       { "shifts", OL_SIZES, .doc = "positions, one for each of dims" },
                       { "dims", OL_DIMS, true } },
            .forward = roll_forward,
            .backward = roll_back },
          { 0 } },
};
