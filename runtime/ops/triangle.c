/* triangle: parts of matrices: tril, triu, diag. */
#include <string.h>

#include "base/parallel.h"
#include "ops/families.h"
#include "ops/view.h"

/* What is kept of each row: columns before `first + row` (below), or from there on. */
typedef struct job {
  const char *x;
  char *y;
  int64_t rows, columns, first;
  size_t size; /* bytes of an element */
  bool below;
} job;

static void copy_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  size_t width = (size_t)j->columns * j->size;
  for (int64_t i = begin; i < end; i++) {
    int64_t edge = i % j->rows + j->first;
    edge = edge < 0 ? 0 : edge > j->columns ? j->columns : edge;
    size_t cut = (size_t)edge * j->size;
    const char *x = j->x + (size_t)i * width;
    char *y = j->y + (size_t)i * width;
    if (j->below) {
      memcpy(y, x, cut);
      memset(y + cut, 0, width - cut);
    } else {
      memset(y, 0, cut);
      memcpy(y + cut, x + cut, width - cut);
    }
  }
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/* The lower (below) or upper triangle of the matrices in the last two dimensions. */
static ol_status triangle(ol_error *error, const ol_value *arg, ol_tensor *x, bool below,
                          ol_tensor **out) {
  int ndim = x->shape.ndim;
  ol_tensor *dense, *y = NULL;
  if (ndim < 2)
    return ol_fail(error, OL_SHAPE, "%s: a tensor of at least 2 dimensions was expected",
                   below ? "tril" : "triu");
  OL_TRY(ol_tensor_contiguous(error, x, &dense));
  ol_status status = ol_tensor_new(error, x->dtype, &x->shape, &y);
  if (status == OL_OK && x->numel > 0) {
    job j = { .x = ol_tensor_data(dense), .y = ol_tensor_data(y), .below = below };
    j.size = ol_dtype_size(x->dtype);
    j.rows = x->shape.size[ndim - 2];
    j.columns = x->shape.size[ndim - 1];
    j.first = clamp(arg[1].given ? arg[1].integer : 0, -j.rows, j.columns) + below;
    ol_parallel_for(x->numel / j.columns, ol_grain((double)j.columns), copy_rows, &j);
  }
  ol_release(dense);
  if (status == OL_OK) *out = y;
  return status;
}

static ol_status tril_forward(ol_error *error, ol_call *call) {
  return triangle(error, call->arg, call->arg[0].tensor, true, &call->out[0]);
}

static ol_status tril_back(ol_error *error, ol_back *back) {
  return triangle(error, back->arg, back->grad_out[0], true, &back->grad[0]);
}

static ol_status triu_forward(ol_error *error, ol_call *call) {
  return triangle(error, call->arg, call->arg[0].tensor, false, &call->out[0]);
}

static ol_status triu_back(ol_error *error, ol_back *back) {
  return triangle(error, back->arg, back->grad_out[0], false, &back->grad[0]);
}

/* Zeros of shape, two-dimensional, with x on a diagonal. */
static ol_status spread(ol_error *error, const ol_tensor *x, const ol_shape *shape, int64_t shift,
                        ol_tensor **out) {
  ol_tensor *y, *line = NULL;
  OL_TRY(ol_tensor_zeros(error, x->dtype, shape, &y));
  ol_status status = ol_diagonal(error, y, shift, 0, 1, &line);
  if (status == OL_OK) status = ol_tensor_copy(error, line, x);
  ol_release(line);
  if (status != OL_OK)
    ol_release(y);
  else
    *out = y;
  return status;
}

static int64_t shift_of(const ol_value *arg) { return arg[1].given ? arg[1].integer : 0; }

static ol_status diag_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *line;
  int64_t shift = shift_of(call->arg), side;
  if (x->shape.ndim == 1) {
    if (shift == INT64_MIN || __builtin_add_overflow(x->numel, shift < 0 ? -shift : shift, &side))
      return ol_fail(error, OL_SHAPE, "diag: diagonal %lld is too far out", (long long)shift);
    ol_shape square = { .ndim = 2, .size = { side, side } };
    return spread(error, x, &square, shift, &call->out[0]);
  }
  if (x->shape.ndim != 2)
    return ol_fail(error, OL_SHAPE, "diag: a tensor of 1 or 2 dimensions was expected, not %d",
                   x->shape.ndim);
  OL_TRY(ol_diagonal(error, x, shift, 0, 1, &line));
  ol_status status = ol_tensor_clone(error, line, &call->out[0]);
  ol_release(line);
  return status;
}

static ol_status diag_back(ol_error *error, ol_back *back) {
  ol_tensor *grad = back->grad_out[0];
  int64_t shift = shift_of(back->arg);
  if (back->shape[0]->ndim == 1) return ol_diagonal(error, grad, shift, 0, 1, &back->grad[0]);
  return spread(error, grad, back->shape[0], shift, &back->grad[0]);
}

#define TRIANGLE_SAMPLES                                                                           \
  "{ { t(3, 4) }, { t(4, 3), 1 }, { t(2, 3, 3), -1 }, { t(4, 3):t(), 9 }, { t(3, 3), -9 }, "       \
  "{ t(0, 3) }, { t(3, 0) }, { t(1, 3):expand(3, 3) } }"

const ol_family ol_triangle_ops = {
  .name = "triangle",
  .doc = "Parts of matrices",
  .ops =
      (const ol_op[]){
          { .name = "tril",
            .doc = "The lower triangles of the matrices in the last two dimensions, zeros "
                   "elsewhere.",
            .example = "print(optlua.ones(2, 2):tril():select(1, 1)) --> tensor([1., 0.])",
            .samples = TRIANGLE_SAMPLES,
            .param = { { "self", OL_TENSOR },
                       { "diagonal", OL_DATA, true, 0, .doc = "the last that is kept" } },
            .forward = tril_forward,
            .backward = tril_back },
          { .name = "triu",
            .doc = "The upper triangles of the matrices in the last two dimensions, zeros "
                   "elsewhere.",
            .example = "print(optlua.ones(2, 2):triu():select(1, 2)) --> tensor([0., 1.])",
            .samples = TRIANGLE_SAMPLES,
            .param = { { "self", OL_TENSOR },
                       { "diagonal", OL_DATA, true, 0, .doc = "the first that is kept" } },
            .forward = triu_forward,
            .backward = triu_back },
          { .name = "diag",
            .doc = "A copy of a diagonal of a matrix, or a matrix with the elements of a "
                   "one-dimensional tensor on its diagonal.",
            .example = "print(optlua.tensor({ 1, 2 }):diag():select(1, 2)) --> tensor([0., 2.])",
            .samples = "{ { t(3) }, { t(3), 1 }, { t(2), -2 }, { t(3, 4) }, { t(3, 4), -1 }, "
                       "{ t(4, 3):t(), 2 }, { t(0) }, { t(0, 3) } }",
            .param = { { "self", OL_TENSOR },
                       { "diagonal", OL_DATA, true, 0, .doc = "positive: above the main one" } },
            .forward = diag_forward,
            .backward = diag_back },
          { 0 } },
};
