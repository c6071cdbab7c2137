/* view: other looks at the same memory: dimensions exchanged, cut, stretched. */
#include "ops/view.h"

#include "ops/families.h"

/* Where a view looks. */
typedef struct look {
  ol_shape shape;
  int64_t stride[OL_MAX_DIMS];
  int64_t offset;
} look;

/* Computes the look of a view op at x from the op's arguments. Backward looks into zeros of x's
 * shape with the same function. */
typedef ol_status look_fn(ol_error *error, const ol_value *arg, const ol_tensor *x, look *out);

static look look_of(const ol_tensor *x) {
  look l = { .shape = x->shape, .offset = x->offset };
  for (int d = 0; d < x->shape.ndim; d++) l.stride[d] = x->stride[d];
  return l;
}

static ol_status view(ol_error *error, const ol_tensor *x, const look *l, ol_tensor **out) {
  return ol_tensor_view(error, x, &l->shape, l->stride, l->offset, out);
}

static ol_status look_forward(ol_error *error, ol_call *call, look_fn *fn) {
  look l;
  OL_TRY(fn(error, call->arg, call->arg[0].tensor, &l));
  return view(error, call->arg[0].tensor, &l, &call->out[0]);
}

/* Zeros of the input's shape, with the gradient where the view looked. */
static ol_status look_back(ol_error *error, ol_back *back, look_fn *fn) {
  ol_tensor *grad = NULL, *seen = NULL, *from = back->grad_out[0];
  look l;
  OL_TRY(ol_tensor_zeros(error, from->dtype, back->shape[0], &grad));
  ol_status status = fn(error, back->arg, grad, &l);
  if (status == OL_OK) status = view(error, grad, &l, &seen);
  if (status == OL_OK) status = ol_tensor_copy(error, seen, from);
  ol_release(seen);
  if (status != OL_OK)
    ol_release(grad);
  else
    back->grad[0] = grad;
  return status;
}

/* Defines forward and backward of a view op from its look. */
#define DEFINE_LOOK(name)                                                                          \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    return look_forward(error, call, name##_look);                                                 \
  }                                                                                                \
  static ol_status name##_back(ol_error *error, ol_back *back) {                                   \
    return look_back(error, back, name##_look);                                                    \
  }

/* ---- parts ---- */

static ol_status narrow_look(ol_error *error, const ol_value *arg, const ol_tensor *x, look *out) {
  int64_t start = arg[2].integer, length = arg[3].integer;
  int dim;
  if (x->shape.ndim == 0)
    return ol_fail(error, OL_SHAPE, "narrow: a 0-dimensional tensor has nothing to cut");
  OL_TRY(ol_shape_dim(error, "narrow", arg[1].integer, x->shape.ndim, &dim));
  int64_t size = x->shape.size[dim], from = start < 0 ? start + size : start;
  if (from < 0 || from > size || length < 0 || length > size - from)
    return ol_fail(
        error, OL_RANGE, "narrow: %lld positions from %lld on are not in dimension %d of size %lld",
        (long long)length, (long long)(start < 0 ? start : start + 1), dim + 1, (long long)size);
  *out = look_of(x);
  out->shape.size[dim] = length;
  out->offset += from * x->stride[dim];
  return OL_OK;
}
DEFINE_LOOK(narrow)

ol_status ol_narrow(ol_error *error, const ol_tensor *x, int dim, int64_t start, int64_t length,
                    ol_tensor **out) {
  look l = look_of(x);
  l.shape.size[dim] = length;
  l.offset += start * x->stride[dim];
  return view(error, x, &l, out);
}

static void drop(look *l, int dim) {
  l->shape.ndim--;
  for (int d = dim; d < l->shape.ndim; d++) {
    l->shape.size[d] = l->shape.size[d + 1];
    l->stride[d] = l->stride[d + 1];
  }
}

static ol_status select_look(ol_error *error, const ol_value *arg, const ol_tensor *x, look *out) {
  int64_t at;
  int dim;
  if (x->shape.ndim == 0)
    return ol_fail(error, OL_SHAPE, "select: a 0-dimensional tensor has no positions");
  OL_TRY(ol_shape_dim(error, "select", arg[1].integer, x->shape.ndim, &dim));
  OL_TRY(ol_shape_index(error, "select", arg[2].integer, x->shape.size[dim], &at));
  *out = look_of(x);
  out->offset += at * x->stride[dim];
  drop(out, dim);
  return OL_OK;
}
DEFINE_LOOK(select)

/* The look at the part of x that begins at `start` and has `length` positions, `step` apart, in
 * each of the first dimensions. A length of -1 is one position, whose dimension is dropped; steps
 * that are left out are 1. */
static ol_status look_at_part(ol_error *error, const char *op, const ol_tensor *x,
                              const ol_shape *start, const ol_shape *length, const ol_shape *step,
                              look *out) {
  look l = { .offset = x->offset };
  if (start->ndim != length->ndim || start->ndim > x->shape.ndim)
    return ol_fail(error, OL_ARGUMENT, "%s: %d positions were given for a tensor of %d dimensions",
                   op, start->ndim, x->shape.ndim);
  for (int d = 0; d < x->shape.ndim; d++) {
    int64_t size = x->shape.size[d], from = d < start->ndim ? start->size[d] : 0;
    int64_t count = d < start->ndim ? length->size[d] : size, needed = count == -1 ? 1 : count;
    int64_t apart = d < step->ndim ? step->size[d] : 1;
    if (from < 0 || from > size || needed < 0 || apart < 1 ||
        (needed > 0 && (from == size || needed - 1 > (size - from - 1) / apart)))
      return ol_fail(error, OL_RANGE,
                     "%s: %lld positions from %lld on are not in dimension %d of "
                     "size %lld",
                     op, (long long)needed, (long long)(from < INT64_MAX ? from + 1 : from), d + 1,
                     (long long)size);
    l.offset += from * x->stride[d];
    if (count == -1) continue;
    l.stride[l.shape.ndim] = count > 1 ? x->stride[d] * apart : x->stride[d];
    l.shape.size[l.shape.ndim++] = count;
  }
  *out = l;
  return OL_OK;
}

ol_status ol_part(ol_error *error, const char *op, const ol_tensor *x, const ol_shape *start,
                  const ol_shape *length, const ol_shape *step, ol_tensor **out) {
  look l;
  OL_TRY(look_at_part(error, op, x, start, length, step, &l));
  return view(error, x, &l, out);
}

static ol_status part_look(ol_error *error, const ol_value *arg, const ol_tensor *x, look *out) {
  return look_at_part(error, "part", x, &arg[1].list, &arg[2].list, &arg[3].list, out);
}
DEFINE_LOOK(part)

static int64_t at_least_0(int64_t x) { return x > 0 ? x : 0; }

static look diagonal(const ol_tensor *x, int64_t shift, int rows, int columns) {
  int64_t down = x->shape.size[rows], across = x->shape.size[columns];
  look l = look_of(x);
  down = shift < 0 ? (shift > -down ? down + shift : 0) : down;
  across = shift > 0 ? at_least_0(across - shift) : across;
  if (down > 0 && across > 0)
    l.offset += shift < 0 ? -shift * x->stride[rows] : shift * x->stride[columns];
  drop(&l, rows > columns ? rows : columns);
  drop(&l, rows > columns ? columns : rows);
  l.shape.size[l.shape.ndim] = down < across ? down : across;
  l.stride[l.shape.ndim++] = x->stride[rows] + x->stride[columns];
  return l;
}

static ol_status diagonal_look(ol_error *error, const ol_value *arg, const ol_tensor *x,
                               look *out) {
  int64_t dim1 = arg[2].given ? arg[2].integer : 0, dim2 = arg[3].given ? arg[3].integer : 1;
  int rows, columns;
  if (x->shape.ndim < 2)
    return ol_fail(error, OL_SHAPE, "diagonal: a tensor of at least 2 dimensions was expected");
  OL_TRY(ol_shape_dim(error, "diagonal", dim1, x->shape.ndim, &rows));
  OL_TRY(ol_shape_dim(error, "diagonal", dim2, x->shape.ndim, &columns));
  if (rows == columns)
    return ol_fail(error, OL_ARGUMENT, "diagonal: dim1 and dim2 are both dimension %d", rows + 1);
  *out = diagonal(x, arg[1].given ? arg[1].integer : 0, rows, columns);
  return OL_OK;
}
DEFINE_LOOK(diagonal)

ol_status ol_diagonal(ol_error *error, const ol_tensor *x, int64_t shift, int rows, int columns,
                      ol_tensor **out) {
  look l = diagonal(x, shift, rows, columns);
  return view(error, x, &l, out);
}

/* ---- orders of dimensions ---- */

static void exchange(look *l, int a, int b) {
  int64_t size = l->shape.size[a], stride = l->stride[a];
  l->shape.size[a] = l->shape.size[b];
  l->stride[a] = l->stride[b];
  l->shape.size[b] = size;
  l->stride[b] = stride;
}

ol_status ol_transpose(ol_error *error, const ol_tensor *x, int a, int b, ol_tensor **out) {
  look l = look_of(x);
  exchange(&l, a, b);
  return view(error, x, &l, out);
}

static ol_status transpose_args(ol_error *error, const ol_value *arg, const ol_tensor *x,
                                ol_tensor **out) {
  int a, b;
  OL_TRY(ol_shape_dim(error, "transpose", arg[1].integer, x->shape.ndim, &a));
  OL_TRY(ol_shape_dim(error, "transpose", arg[2].integer, x->shape.ndim, &b));
  return ol_transpose(error, x, a, b, out);
}

static ol_status transpose_forward(ol_error *error, ol_call *call) {
  return transpose_args(error, call->arg, call->arg[0].tensor, &call->out[0]);
}

static ol_status transpose_back(ol_error *error, ol_back *back) {
  return transpose_args(error, back->arg, back->grad_out[0], &back->grad[0]);
}

static ol_status turn(ol_error *error, const ol_tensor *x, ol_tensor **out) {
  if (x->shape.ndim < 2) return ol_tensor_alias(error, x, out);
  return ol_transpose(error, x, 0, 1, out);
}

static ol_status t_forward(ol_error *error, ol_call *call) {
  const ol_tensor *x = call->arg[0].tensor;
  if (x->shape.ndim > 2)
    return ol_fail(error, OL_SHAPE,
                   "t: a tensor of at most 2 dimensions was expected, not %d; use transpose",
                   x->shape.ndim);
  return turn(error, x, &call->out[0]);
}

static ol_status t_back(ol_error *error, ol_back *back) {
  return turn(error, back->grad_out[0], &back->grad[0]);
}

/* The view of which dimension d is dimension order[d] of x or, inverted, the other way round. */
static ol_status reorder(ol_error *error, const ol_tensor *x, const int *order, bool invert,
                         ol_tensor **out) {
  look l = look_of(x);
  for (int d = 0; d < x->shape.ndim; d++) {
    int to = invert ? order[d] : d, from = invert ? d : order[d];
    l.shape.size[to] = x->shape.size[from];
    l.stride[to] = x->stride[from];
  }
  return view(error, x, &l, out);
}

/* Normalises dims, each at most once; fails unless there are `count` of them. */
static ol_status distinct(ol_error *error, const char *op, const ol_shape *dims, int count,
                          int ndim, int *out) {
  bool mask[OL_MAX_DIMS];
  if (dims->ndim != count)
    return ol_fail(error, OL_ARGUMENT, "%s: %d dimensions were expected, got %d", op, count,
                   dims->ndim);
  OL_TRY(ol_shape_mask(error, op, dims, ndim, mask));
  for (int i = 0; i < count; i++)
    out[i] = (int)(dims->size[i] < 0 ? dims->size[i] + ndim : dims->size[i]);
  return OL_OK;
}

static ol_status permute(ol_error *error, const ol_value *arg, const ol_tensor *x, bool invert,
                         ol_tensor **out) {
  int order[OL_MAX_DIMS];
  OL_TRY(distinct(error, "permute", &arg[1].list, x->shape.ndim, x->shape.ndim, order));
  return reorder(error, x, order, invert, out);
}

static ol_status permute_forward(ol_error *error, ol_call *call) {
  return permute(error, call->arg, call->arg[0].tensor, false, &call->out[0]);
}

static ol_status permute_back(ol_error *error, ol_back *back) {
  return permute(error, back->arg, back->grad_out[0], true, &back->grad[0]);
}

/* The order in which dimensions from[i] come to stand at to[i] and the others keep theirs. */
static void order_moved(int ndim, int count, const int *from, const int *to, int *order) {
  bool moved[OL_MAX_DIMS] = { false };
  for (int d = 0; d < ndim; d++) order[d] = -1;
  for (int i = 0; i < count; i++) {
    order[to[i]] = from[i];
    moved[from[i]] = true;
  }
  for (int d = 0, next = 0; d < ndim; d++) {
    if (order[d] >= 0) continue;
    while (moved[next]) next++;
    order[d] = next++;
  }
}

static ol_status movedim(ol_error *error, const ol_value *arg, const ol_tensor *x, bool invert,
                         ol_tensor **out) {
  int from[OL_MAX_DIMS], to[OL_MAX_DIMS], order[OL_MAX_DIMS];
  int count = arg[1].list.ndim, ndim = x->shape.ndim;
  OL_TRY(distinct(error, "movedim", &arg[1].list, count, ndim, from));
  OL_TRY(distinct(error, "movedim", &arg[2].list, count, ndim, to));
  if (ndim == 0) return ol_tensor_alias(error, x, out);
  order_moved(ndim, count, from, to, order);
  return reorder(error, x, order, invert, out);
}

static ol_status movedim_forward(ol_error *error, ol_call *call) {
  return movedim(error, call->arg, call->arg[0].tensor, false, &call->out[0]);
}

static ol_status movedim_back(ol_error *error, ol_back *back) {
  return movedim(error, back->arg, back->grad_out[0], true, &back->grad[0]);
}

/* ---- broadcasting ---- */

ol_status ol_expand(ol_error *error, const char *op, const ol_tensor *x, const ol_shape *shape,
                    ol_tensor **out) {
  look l = { .shape = *shape, .offset = x->offset };
  int added = shape->ndim - x->shape.ndim;
  char from[OL_SHAPE_TEXT], to[OL_SHAPE_TEXT];
  bool fits = added >= 0;
  for (int d = 0; fits && d < shape->ndim; d++) {
    int64_t size = d < added ? 1 : x->shape.size[d - added];
    bool kept = d >= added && (shape->size[d] == -1 || shape->size[d] == size);
    if (kept) l.shape.size[d] = size;
    l.stride[d] = kept ? x->stride[d - added] : 0;
    fits = kept || (size == 1 && shape->size[d] >= 0);
  }
  if (!fits)
    return ol_fail(error, OL_SHAPE, "%s: shape %s does not expand to %s", op,
                   ol_shape_text(&x->shape, from), ol_shape_text(shape, to));
  if (view(error, x, &l, out) != OL_OK) return ol_fail_in(error, op);
  return OL_OK;
}

static ol_status expand_forward(ol_error *error, ol_call *call) {
  return ol_expand(error, "expand", call->arg[0].tensor, &call->arg[1].list, &call->out[0]);
}

static ol_status expand_as_forward(ol_error *error, ol_call *call) {
  return ol_expand(error, "expand_as", call->arg[0].tensor, &call->arg[1].tensor->shape,
                   &call->out[0]);
}

/* The tape sums over the dimensions that were stretched. */
static ol_status expand_back(ol_error *error, ol_back *back) {
  (void)error;
  back->grad[0] = ol_retain(back->grad_out[0]);
  return OL_OK;
}

const ol_family ol_view_ops = {
  .name = "view",
  .doc = "Views: dimensions exchanged, cut, stretched",
  .ops =
      (const ol_op[]){
          { .name = "narrow",
            .doc = "The view of `length` positions of dimension dim, from position start on.",
            .example = "print(optlua.arange(5):narrow(1, 2, 3)) --> tensor([1, 2, 3])",
            .samples = "{ { t(4, 3), 1, 2, 2 }, { t(4, 3), -1, -2, 1 }, { t(4, 3):t(), 2, 1, 3 }, "
                       "{ t(4, 3), 1, 5, 0 }, { t(0, 3), 2, 1, 2 }, "
                       "{ t(1, 3):expand(4, 3), 1, 2, 2 } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_INDEX, .doc = "the dimension to cut" },
                       { "start", OL_INDEX, .doc = "the first position" },
                       { "length", OL_DATA, .doc = "how many positions" } },
            .flags = OL_OP_VIEW,
            .forward = narrow_forward,
            .backward = narrow_back },
          { .name = "select",
            .doc = "The view of one position of dimension dim, without that dimension.",
            .example = "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):select(2, -1)) "
                       "--> tensor([2., 4.])",
            .samples = "{ { t(4, 3), 1, 2 }, { t(4, 3), -1, -1 }, { t(4, 3):t(), 2, 3 }, "
                       "{ t(3), 1, 1 }, { t(0, 3), 2, 1 }, { t(1, 3):expand(4, 3), 1, 2 } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_INDEX, .doc = "the dimension that goes" },
                       { "index", OL_INDEX, .doc = "the position in it" } },
            .flags = OL_OP_VIEW,
            .forward = select_forward,
            .backward = select_back },
          { .name = "part",
            .doc = "The view of a part of the tensor: what t[{ … }] gives.",
            .samples =
                "{ { t(3, 4), { 0, 1 }, { -1, 2 } }, { t(3, 4), { 1 }, { 2 } }, "
                "{ t(5, 4), { 0, 3 }, { 3, -1 }, { 2, 1 } }, { t(), {}, {} }, "
                "{ t(0, 3), { 0, 1 }, { 0, 1 } }, { t(4, 3):t(), { 1, 0 }, { 1, 2 }, { 1, 3 } } }",
            .param = { { "self", OL_TENSOR },
                       { "starts", OL_SIZES, .doc = "from 0, one a dimension" },
                       { "lengths", OL_SIZES, .doc = "-1: one position; its dimension is dropped" },
                       { "steps", OL_SIZES, true, .doc = "1 where left out" } },
            .flags = OL_OP_VIEW | OL_OP_HIDDEN,
            .forward = part_forward,
            .backward = part_back },
          { .name = "diagonal",
            .doc = "The view of the diagonals over two dimensions, which become the last one.",
            .example = "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):diagonal()) "
                       "--> tensor([1., 4.])",
            .samples = "{ { t(3, 4) }, { t(3, 4), 1 }, { t(3, 4), -2 }, { t(3, 4), 9 }, "
                       "{ t(2, 3, 3), 0, 2, -1 }, { t(4, 3):t() }, { t(0, 3) } }",
            .param = { { "self", OL_TENSOR },
                       { "offset", OL_DATA, true, 0, .doc = "positive: above the main diagonal" },
                       { "dim1", OL_INDEX, true, 1, .doc = "the dimension of the rows" },
                       { "dim2", OL_INDEX, true, 2, .doc = "the dimension of the columns" } },
            .flags = OL_OP_VIEW,
            .forward = diagonal_forward,
            .backward = diagonal_back },
          { .name = "transpose",
            .doc = "The view with two dimensions exchanged.",
            .example = "print(optlua.zeros(2, 3, 4):transpose(1, -1):size(1)) --> 4",
            .samples = "{ { t(2, 3, 2), 1, 3 }, { t(4, 3), -1, -2 }, { t(3), 1, 1 }, "
                       "{ t(), 1, -1 }, { t(0, 3), 1, 2 }, { t(4, 3):t(), 1, 2 } }",
            .param = { { "self", OL_TENSOR }, { "dim0", OL_INDEX }, { "dim1", OL_INDEX } },
            .flags = OL_OP_VIEW,
            .forward = transpose_forward,
            .backward = transpose_back },
          { .name = "t",
            .doc = "The transposed view of a matrix; tensors of fewer dimensions stay as they are.",
            .example = "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):t():select(1, 1)) "
                       "--> tensor([1., 3.])",
            .samples = "{ { t(4, 3) }, { t(3) }, { t() }, { t(0, 3) }, { t(4, 3):t() } }",
            .param = { { "self", OL_TENSOR } },
            .flags = OL_OP_VIEW,
            .forward = t_forward,
            .backward = t_back },
          { .name = "permute",
            .doc = "The view whose dimensions are those of the tensor in the order of dims.",
            .example = "print(optlua.zeros(2, 3, 4):permute(3, 1, 2):size(1)) --> 4",
            .samples = "{ { t(2, 3, 4), { 3, 1, 2 } }, { t(2, 3, 4), { -1, 2, 1 } }, { t(), {} }, "
                       "{ t(0, 3), { 2, 1 } }, { t(4, 3):t(), { 2, 1 } } }",
            .param = { { "self", OL_TENSOR }, { "dims", OL_DIMS, .doc = "every one once" } },
            .flags = OL_OP_VIEW,
            .forward = permute_forward,
            .backward = permute_back },
          { .name = "movedim",
            .doc = "The view in which each dimension of source stands where destination says; the "
                   "others keep their order.",
            .example = "print(optlua.zeros(2, 3, 4):movedim(3, 1):size(3)) --> 3",
            .samples = "{ { t(2, 3, 4), 1, 3 }, { t(2, 3, 4), { 1, 2 }, { -1, 1 } }, "
                       "{ t(), {}, {} }, { t(0, 3), 2, 1 }, { t(4, 3):t(), 1, 2 } }",
            .param = { { "self", OL_TENSOR },
                       { "source", OL_DIMS, .doc = "dimensions to move" },
                       { "destination", OL_DIMS, .doc = "where each of them goes" } },
            .flags = OL_OP_VIEW,
            .forward = movedim_forward,
            .backward = movedim_back },
          { .name = "expand",
            .doc = "The view that repeats dimensions of size 1, and new ones in front, without "
                   "copying; it can be read only.",
            .example = "print(optlua.tensor({ 5 }):expand(3)) --> tensor([5., 5., 5.])",
            .samples = "{ { t(3, 1), { 3, 4 } }, { t(3, 1), { 2, -1, 2 } }, { t(), { 2, 2 } }, "
                       "{ t(1, 3), { 0, 3 } }, { t(0, 1), { 0, 2 } }, { t(1, 3):t(), { 3, 2 } } }",
            .param = { { "self", OL_TENSOR },
                       { "sizes", OL_SIZES, .doc = "the new shape; -1 keeps a size" } },
            .flags = OL_OP_VIEW,
            .forward = expand_forward,
            .backward = expand_back },
          { .name = "expand_as",
            .doc = "As expand, to the shape of another tensor.",
            .example = "print(optlua.tensor({ 5 }):expand_as(optlua.zeros(2))) "
                       "--> tensor([5., 5.])",
            .samples = "{ { t(3, 1), c(3, 4) }, { t(), c(2, 2) }, { t(1, 3), c(0, 3) } }",
            .param = { { "self", OL_TENSOR }, { "other", OL_TENSOR } },
            .flags = OL_OP_VIEW,
            .forward = expand_as_forward,
            .backward = expand_back },
          { 0 } },
};
