/* matmul: matrix products and the affine layer. */
#include "ops/matmul.h"

#include <string.h>

#include "autograd/tape.h"
#include "base/parallel.h"
#include "ops/arithmetic.h"
#include "ops/families.h"
#include "ops/reduce.h"
#include "ops/stack.h"

static ol_status check_dtype(ol_error *error, const char *op, const ol_tensor *x,
                             const ol_tensor *y) {
  const ol_tensor *wrong = ol_dtype_computes(x->dtype) ? y : x;
  if (!ol_dtype_computes(wrong->dtype))
    return ol_fail(error, OL_DTYPE,
                   "%s: wants float32 or float64, got %s; convert with :to(\"float32\")", op,
                   ol_dtype_name(wrong->dtype));
  if (x->dtype != y->dtype)
    return ol_fail(error, OL_DTYPE, "%s: dtypes %s and %s differ", op, ol_dtype_name(x->dtype),
                   ol_dtype_name(y->dtype));
  return OL_OK;
}

static ol_status misfit(ol_error *error, const char *op, const ol_tensor *x, const ol_tensor *y) {
  char left[OL_SHAPE_TEXT], right[OL_SHAPE_TEXT];
  return ol_fail(error, OL_SHAPE, "%s: shapes %s and %s do not fit", op,
                 ol_shape_text(&x->shape, left), ol_shape_text(&y->shape, right));
}

static ol_status check_ndim(ol_error *error, const char *op, const ol_value *arg,
                            const ol_param *param, int ndim) {
  char text[OL_SHAPE_TEXT];
  if (arg->tensor->shape.ndim == ndim) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: %s has shape %s, wants %d dimensions", op, param->name,
                 ol_shape_text(&arg->tensor->shape, text), ndim);
}

/* As the left and right operand of a product: vectors are a row and a column. */
static ol_stack left(ol_tensor *x) {
  return x->shape.ndim == 1 ? ol_stack_rows(x) : ol_stack_matrices(x);
}

static ol_stack right(ol_tensor *y) {
  return y->shape.ndim == 1 ? ol_stack_columns(y) : ol_stack_matrices(y);
}

/* alpha times the product of two stacks, in a new tensor of batch and the last dimensions that are
 * wanted. Releases both stacks. */
static ol_status multiply(ol_error *error, double alpha, ol_stack a, ol_stack b, ol_shape batch,
                          bool rows, bool cols, ol_tensor **out) {
  ol_tensor *c = NULL;
  ol_shape shape = batch;
  if (rows) shape.size[shape.ndim++] = a.rows;
  if (cols) shape.size[shape.ndim++] = b.cols;
  ol_status status = ol_tensor_new(error, a.tensor->dtype, &shape, &c);
  if (status == OL_OK && b.batch.ndim == 0 && batch.ndim > 0) { /* one large product */
    status = ol_stack_fold(error, &a);
    batch.ndim = 0;
  }
  if (status == OL_OK) status = ol_stack_multiply(error, alpha, &a, &b, 0, &batch, c);
  ol_stack_release(&a);
  ol_stack_release(&b);
  if (status == OL_OK)
    *out = c;
  else
    ol_release(c);
  return status;
}

ol_status ol_matmul(ol_error *error, const char *op, ol_tensor *x, ol_tensor *y, ol_tensor **out) {
  ol_shape batch;
  OL_TRY(check_dtype(error, op, x, y));
  if (x->shape.ndim == 0 || y->shape.ndim == 0) return misfit(error, op, x, y);
  ol_stack a = left(x), b = right(y);
  if (a.cols != b.rows || ol_shape_broadcast(error, op, &a.batch, &b.batch, &batch) != OL_OK)
    return misfit(error, op, x, y);
  return multiply(error, 1, a, b, batch, x->shape.ndim > 1, y->shape.ndim > 1, out);
}

/* The gradient of a product as matrices, one for each position of its batch. */
static ol_stack gradient(ol_tensor *g, bool rows, bool cols) {
  if (rows && cols) return ol_stack_matrices(g);
  if (rows) return ol_stack_columns(g);
  if (cols) return ol_stack_rows(g);
  return (ol_stack){ .tensor = g, .rows = 1, .cols = 1, .row = 1, .col = 1 };
}

/* Of x: alpha g yᵀ, (batch, m, k). */
static ol_status left_gradient(ol_error *error, double alpha, ol_tensor *g, ol_tensor *y,
                               bool x_rows, ol_tensor **out) {
  ol_stack a = gradient(g, x_rows, y->shape.ndim > 1);
  return multiply(error, alpha, a, ol_stack_transposed(right(y)), a.batch, x_rows, true, out);
}

/* Of y: alpha xᵀ g, (batch, k, n); summed over the batch on the way where y has none. */
static ol_status right_gradient(ol_error *error, double alpha, ol_tensor *x, ol_tensor *g,
                                int y_ndim, ol_tensor **out) {
  ol_stack a = left(x), b = gradient(g, x->shape.ndim > 1, y_ndim > 1);
  ol_status status = OL_OK;
  if (y_ndim <= 2 && b.batch.ndim > 0) {
    status = ol_stack_fold(error, &a);
    if (status == OL_OK) status = ol_stack_fold(error, &b);
  }
  if (status == OL_OK)
    return multiply(error, alpha, ol_stack_transposed(a), b, b.batch, true, y_ndim > 1, out);
  ol_stack_release(&a);
  ol_stack_release(&b);
  return status;
}

/* Fills the gradients of inputs `first` and `first + 1`, whose product times alpha has gradient
 * grad_out[0]. */
static ol_status product_gradients(ol_error *error, ol_back *back, int first, double alpha) {
  ol_tensor *x = back->arg[first].tensor, *y = back->arg[first + 1].tensor;
  ol_tensor *g = back->grad_out[0];
  int x_ndim = back->shape[first]->ndim, y_ndim = back->shape[first + 1]->ndim;
  if (back->needs[first]) OL_TRY(left_gradient(error, alpha, g, y, x_ndim > 1, &back->grad[first]));
  if (back->needs[first + 1])
    OL_TRY(right_gradient(error, alpha, x, g, y_ndim, &back->grad[first + 1]));
  return OL_OK;
}

static ol_status matmul_forward(ol_error *error, ol_call *call) {
  return ol_matmul(error, call->op->name, call->arg[0].tensor, call->arg[1].tensor, &call->out[0]);
}

static ol_status matmul_backward(ol_error *error, ol_back *back) {
  return product_gradients(error, back, 0, 1);
}

/* A product of operands with these numbers of dimensions; stacks must be equally long. */
static ol_status strict(ol_error *error, ol_call *call, int left_ndim, int right_ndim) {
  const ol_value *arg = call->arg;
  OL_TRY(check_ndim(error, call->op->name, &arg[0], &call->op->param[0], left_ndim));
  OL_TRY(check_ndim(error, call->op->name, &arg[1], &call->op->param[1], right_ndim));
  if (left_ndim == 3 && arg[0].tensor->shape.size[0] != arg[1].tensor->shape.size[0])
    return misfit(error, call->op->name, arg[0].tensor, arg[1].tensor);
  return matmul_forward(error, call);
}

static ol_status mm_forward(ol_error *error, ol_call *call) { return strict(error, call, 2, 2); }
static ol_status bmm_forward(ol_error *error, ol_call *call) { return strict(error, call, 3, 3); }
static ol_status mv_forward(ol_error *error, ol_call *call) { return strict(error, call, 2, 1); }
static ol_status dot_forward(ol_error *error, ol_call *call) { return strict(error, call, 1, 1); }

static ol_status outer_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *y = call->arg[1].tensor, *column;
  OL_TRY(check_ndim(error, "outer", &call->arg[0], &call->op->param[0], 1));
  OL_TRY(check_ndim(error, "outer", &call->arg[1], &call->op->param[1], 1));
  OL_TRY(check_dtype(error, "outer", x, y));
  const ol_shape shape = { .ndim = 2, .size = { x->numel, 1 } };
  const int64_t stride[OL_MAX_DIMS] = { x->stride[0], 0 };
  OL_TRY(ol_tensor_view(error, x, &shape, stride, x->offset, &column));
  ol_status status = ol_mul(error, column, y, &call->out[0]);
  ol_release(column);
  return status;
}

static ol_status outer_backward(ol_error *error, ol_back *back) {
  ol_stack g = ol_stack_matrices(back->grad_out[0]);
  ol_tensor *x = back->arg[0].tensor, *y = back->arg[1].tensor;
  if (back->needs[0])
    OL_TRY(multiply(error, 1, g, ol_stack_columns(y), g.batch, true, false, &back->grad[0]));
  if (back->needs[1])
    OL_TRY(multiply(error, 1, ol_stack_rows(x), g, g.batch, false, true, &back->grad[1]));
  return OL_OK;
}

/* addmm, baddbmm: beta * self + alpha * x y. */
static ol_status add_product(ol_error *error, const ol_value *arg, ol_tensor *c) {
  ol_stack a = ol_stack_matrices(arg[1].tensor), b = ol_stack_matrices(arg[2].tensor);
  double beta = arg[3].number, alpha = arg[4].number;
  ol_status status = OL_OK;
  if (beta != 0) status = ol_tensor_copy(error, c, arg[0].tensor);
  if (status == OL_OK) status = ol_stack_multiply(error, alpha, &a, &b, beta, &a.batch, c);
  ol_stack_release(&a);
  ol_stack_release(&b);
  return status;
}

static ol_status check_addition(ol_error *error, const ol_call *call, int ndim, ol_shape *out) {
  const ol_value *arg = call->arg;
  const char *op = call->op->name;
  ol_shape wide;
  for (int i = 1; i <= 2; i++) OL_TRY(check_ndim(error, op, &arg[i], &call->op->param[i], ndim));
  OL_TRY(check_dtype(error, op, arg[1].tensor, arg[2].tensor));
  OL_TRY(check_dtype(error, op, arg[0].tensor, arg[1].tensor));
  const ol_shape *x = &arg[1].tensor->shape, *y = &arg[2].tensor->shape;
  if (x->size[ndim - 1] != y->size[ndim - 2] || (ndim == 3 && x->size[0] != y->size[0]))
    return misfit(error, op, arg[1].tensor, arg[2].tensor);
  *out = *x;
  out->size[ndim - 1] = y->size[ndim - 1];
  OL_TRY(ol_shape_broadcast(error, op, &arg[0].tensor->shape, out, &wide));
  if (ol_shape_equal(&wide, out)) return OL_OK;
  char self[OL_SHAPE_TEXT], product[OL_SHAPE_TEXT];
  return ol_fail(error, OL_SHAPE, "%s: self of shape %s does not fit into the product's %s", op,
                 ol_shape_text(&arg[0].tensor->shape, self), ol_shape_text(out, product));
}

static ol_status add_forward(ol_error *error, ol_call *call, int ndim) {
  ol_shape shape;
  ol_tensor *c;
  OL_TRY(check_addition(error, call, ndim, &shape));
  OL_TRY(ol_tensor_new(error, call->arg[1].tensor->dtype, &shape, &c));
  ol_status status = add_product(error, call->arg, c);
  if (status == OL_OK)
    call->out[0] = c;
  else
    ol_release(c);
  return status;
}

static ol_status addmm_forward(ol_error *error, ol_call *call) {
  return add_forward(error, call, 2);
}
static ol_status baddbmm_forward(ol_error *error, ol_call *call) {
  return add_forward(error, call, 3);
}

static ol_status add_backward(ol_error *error, ol_back *back) {
  double beta = back->arg[3].number;
  if (back->needs[0] && beta == 1)
    back->grad[0] = ol_retain(back->grad_out[0]);
  else if (back->needs[0])
    OL_TRY(ol_scale(error, back->grad_out[0], beta, &back->grad[0]));
  return product_gradients(error, back, 1, back->arg[4].number);
}

/* linear: input (…, in), weight (out, in), bias (out) -> (…, out). */
static ol_status check_linear(ol_error *error, const ol_value *arg) {
  ol_tensor *x = arg[0].tensor, *weight = arg[1].tensor, *bias = arg[2].tensor;
  char text[OL_SHAPE_TEXT];
  OL_TRY(check_dtype(error, "linear", x, weight));
  OL_TRY(check_ndim(error, "linear", &arg[1], &(ol_param){ .name = "weight" }, 2));
  if (x->shape.ndim == 0 || x->shape.size[x->shape.ndim - 1] != weight->shape.size[1]) {
    return ol_fail(error, OL_SHAPE,
                   "linear: input of shape %s does not end in the %lld features that weight wants",
                   ol_shape_text(&x->shape, text), (long long)weight->shape.size[1]);
  }
  if (!bias) return OL_OK;
  OL_TRY(check_dtype(error, "linear", weight, bias));
  if (bias->shape.ndim != 1 || bias->shape.size[0] != weight->shape.size[0])
    return ol_fail(error, OL_SHAPE, "linear: bias has shape %s, wants (%lld)",
                   ol_shape_text(&bias->shape, text), (long long)weight->shape.size[0]);
  return OL_OK;
}

typedef struct bias_job {
  char *target;
  const char *bias;
  size_t bytes; /* of a row */
} bias_job;

static void bias_rows(int64_t begin, int64_t end, void *context) {
  const bias_job *job = context;
  for (int64_t r = begin; r < end; r++)
    memcpy(job->target + r * (int64_t)job->bytes, job->bias, job->bytes);
}

/* Fills each row of c (rows, n) with bias (n). */
static ol_status spread_bias(ol_error *error, ol_tensor *bias, int64_t rows, ol_tensor *c) {
  ol_tensor *dense;
  OL_TRY(ol_tensor_contiguous(error, bias, &dense));
  size_t bytes = (size_t)bias->numel * ol_dtype_size(bias->dtype);
  bias_job job = { ol_tensor_data(c), ol_tensor_data(dense), bytes };
  ol_parallel_for(rows, ol_grain((double)bias->numel), bias_rows, &job);
  ol_release(dense);
  return OL_OK;
}

static ol_status affine(ol_error *error, const ol_value *arg, ol_tensor *c) {
  ol_stack a = left(arg[0].tensor);
  ol_stack b = ol_stack_transposed(ol_stack_matrices(arg[1].tensor));
  ol_tensor *bias = arg[2].tensor;
  ol_status status = ol_stack_fold(error, &a);
  if (status == OL_OK && bias) status = spread_bias(error, bias, a.rows, c);
  if (status == OL_OK) status = ol_stack_multiply(error, 1, &a, &b, bias ? 1 : 0, &a.batch, c);
  ol_stack_release(&a);
  ol_stack_release(&b);
  return status;
}

static ol_status linear_forward(ol_error *error, ol_call *call) {
  const ol_value *arg = call->arg;
  ol_tensor *c;
  OL_TRY(check_linear(error, arg));
  ol_shape shape = arg[0].tensor->shape;
  shape.size[shape.ndim - 1] = arg[1].tensor->shape.size[0];
  OL_TRY(ol_tensor_new(error, arg[0].tensor->dtype, &shape, &c));
  ol_status status = affine(error, arg, c);
  if (status == OL_OK)
    call->out[0] = c;
  else
    ol_release(c);
  return status;
}

/* gᵀ input: (out, in). */
static ol_status weight_gradient(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0];
  ol_stack a = left(g), b = left(back->arg[0].tensor);
  ol_status status = ol_back_new(error, back, 1, &back->grad[1]);
  if (status == OL_OK) status = ol_stack_fold(error, &a);
  if (status == OL_OK) status = ol_stack_fold(error, &b);
  a = ol_stack_transposed(a);
  if (status == OL_OK) status = ol_stack_multiply(error, 1, &a, &b, 0, &a.batch, back->grad[1]);
  ol_stack_release(&a);
  ol_stack_release(&b);
  return status;
}

/* The sum of g (…, out) over all dimensions but the last. */
static ol_status bias_gradient(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0];
  ol_shape dims = { .ndim = g->shape.ndim - 1 };
  for (int d = 0; d < dims.ndim; d++) dims.size[d] = d;
  if (dims.ndim > 0) {
    OL_TRY(ol_back_new(error, back, 2, &back->grad[2]));
    return ol_sum_into(error, g, &dims, back->grad[2]);
  }
  back->grad[2] = ol_retain(g);
  return OL_OK;
}

static ol_status linear_backward(ol_error *error, ol_back *back) {
  ol_tensor *weight = back->arg[1].tensor, *g = back->grad_out[0];
  if (back->needs[0]) { /* g weight: (…, in) */
    ol_stack a = left(g), b = ol_stack_matrices(weight);
    OL_TRY(multiply(error, 1, a, b, a.batch, g->shape.ndim > 1, true, &back->grad[0]));
  }
  if (back->needs[1]) OL_TRY(weight_gradient(error, back));
  if (back->needs[2]) OL_TRY(bias_gradient(error, back));
  return OL_OK;
}

#define PRODUCT(NAME, OTHER, FORWARD, BACKWARD, DOC, EXAMPLE, SAMPLES)                             \
  { .name = NAME,                                                                                  \
    .doc = DOC,                                                                                    \
    .example = EXAMPLE,                                                                            \
    .samples = SAMPLES,                                                                            \
    .param = { { "self", OL_TENSOR }, { OTHER, OL_TENSOR } },                                      \
    .saves = OL_SAVE_FOR_OTHERS(0) | OL_SAVE_FOR_OTHERS(1),                                        \
    .forward = FORWARD,                                                                            \
    .backward = BACKWARD }

#define ADDITION(NAME, LEFT, RIGHT, FORWARD, DOC, EXAMPLE, SAMPLES)                                \
  { .name = NAME,                                                                                  \
    .doc = DOC,                                                                                    \
    .example = EXAMPLE,                                                                            \
    .samples = SAMPLES,                                                                            \
    .param = { { "self", OL_TENSOR, .doc = "broadcasts to the product" },                          \
               { LEFT, OL_TENSOR },                                                                \
               { RIGHT, OL_TENSOR },                                                               \
               { "beta", OL_NUMBER, true, 1, .doc = "factor of self; 0 ignores even its NaN" },    \
               { "alpha", OL_NUMBER, true, 1, .doc = "factor of the product" } },                  \
    .saves = OL_SAVE_FOR_OTHERS(1) | OL_SAVE_FOR_OTHERS(2),                                        \
    .forward = FORWARD,                                                                            \
    .backward = add_backward }

static const ol_op ops[] = {
  PRODUCT("matmul", "other", matmul_forward, matmul_backward,
          "Matrix product: of vectors, of matrices, or of stacks of matrices whose leading "
          "dimensions broadcast.",
          "local a = optlua.tensor({ { 1, 2 }, { 3, 4 } })\n"
          "print(a:matmul(optlua.tensor({ 1, 1 }))) --> tensor([3., 7.])",
          "{ { t(3, 4), t(4, 2) }, { t(4), t(4) }, { t(4), t(4, 2) }, { t(3, 4), t(4) }, "
          "{ t(2, 3, 4), t(4, 2) }, { t(2, 3, 4), t(4) }, { t(4), t(2, 4, 3) }, "
          "{ t(2, 3, 4), t(2, 4, 5) }, { t(5, 1, 3, 4), t(2, 4, 2) }, { t(3, 4), t(2, 4, 5) }, "
          "{ t(4, 3):t(), t(2, 4):t() }, { t(3, 6):narrow(2, 2, 4), t(8, 2):narrow(1, 3, 4) }, "
          "{ t(1, 4):expand(3, 4), t(4, 1):expand(4, 2) }, { t(3, 0), t(0, 2) }, "
          "{ t(0, 3), t(3, 2) }, { t(0), t(0) }, { t(0, 2, 3), t(3, 2) } }"),
  PRODUCT("mm", "mat2", mm_forward, matmul_backward, "Product of two matrices, (n,k) and (k,m).",
          "local a = optlua.tensor({ { 1, 2 }, { 3, 4 } })\n"
          "print(a:mm(a)[1]) --> tensor([ 7., 10.])",
          "{ { t(3, 4), t(4, 2) }, { t(4, 3):t(), t(2, 4):t() }, { t(3, 0), t(0, 2) }, "
          "{ t(1, 4):expand(3, 4), t(4, 2) } }"),
  PRODUCT(
      "bmm", "mat2", bmm_forward, matmul_backward,
      "Products of matrices pairwise, (b,n,k) and (b,k,m).",
      "print(optlua.ones(2, 1, 3):bmm(optlua.ones(2, 3, 1)):flatten()) --> tensor([3., 3.])",
      "{ { t(2, 3, 4), t(2, 4, 5) }, { t(2, 4, 3):transpose(2, 3), t(4, 2, 5):transpose(1, 2) }, "
      "{ t(0, 3, 4), t(0, 4, 5) }, { t(2, 3, 0), t(2, 0, 5) } }"),
  PRODUCT("mv", "vec", mv_forward, matmul_backward, "Product of a matrix (n,k) and a vector (k).",
          "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):mv(optlua.tensor({ 1, 0 }))) "
          "--> tensor([1., 3.])",
          "{ { t(3, 4), t(4) }, { t(4, 3):t(), t(4, 2):select(2, 1) }, { t(3, 0), t(0) } }"),
  PRODUCT("dot", "tensor", dot_forward, matmul_backward, "Sum of the products of two vectors.",
          "print(optlua.tensor({ 1, 2 }):dot(optlua.tensor({ 3, 4 }))) --> tensor(11.)",
          "{ { t(4), t(4) }, { t(4, 2):select(2, 1), t(1):expand(4) }, { t(0), t(0) } }"),
  PRODUCT("outer", "vec2", outer_forward, outer_backward,
          "All products of an element of a vector (n) with one of another (m): (n,m).",
          "print(optlua.tensor({ 1, 2 }):outer(optlua.tensor({ 3, 4 }))[2]) --> tensor([6., 8.])",
          "{ { t(3), t(4) }, { t(4, 2):select(2, 1), t(1):expand(4) }, { t(0), t(2) } }"),
  ADDITION(
      "addmm", "mat1", "mat2", addmm_forward,
      "Matrix product added to a tensor: beta * self + alpha * mat1 mat2.",
      "local a = optlua.tensor({ { 1, 2 }, { 3, 4 } })\n"
      "print(optlua.tensor({ 1, 1 }):addmm(a, a)[1]) --> tensor([ 8., 11.])",
      "{ { t(3, 2), t(3, 4), t(4, 2) }, { t(2), t(3, 4), t(4, 2), { beta = 0.5, alpha = 2 } }, "
      "{ t(), t(4, 3):t(), t(2, 4):t() }, { t(2), t(3, 0), t(0, 2) }, "
      "{ t(2), t(3, 4), t(4, 2), { beta = 0 } }, { t(2), t(0, 4), t(4, 2) } }"),
  ADDITION("baddbmm", "batch1", "batch2", baddbmm_forward,
           "Products of matrices pairwise added to a tensor: beta * self + alpha * batch1 batch2.",
           "local a = optlua.ones(2, 1, 3)\n"
           "print(optlua.zeros(1):baddbmm(a, a:transpose(2, 3)):flatten()) --> tensor([3., 3.])",
           "{ { t(2, 3, 5), t(2, 3, 4), t(2, 4, 5) }, "
           "{ t(5), t(2, 4, 3):transpose(2, 3), t(2, 4, 5), { beta = 0.5, alpha = 2 } }, "
           "{ t(), t(0, 3, 4), t(0, 4, 5) }, { t(3, 1), t(2, 3, 0), t(2, 0, 5) } }"),
  { .name = "linear",
    .doc = "Affine map of the last dimension: input (…, in), weight (out, in), bias (out) give "
           "(…, out).",
    .example = "local w = optlua.tensor({ { 1, 0 }, { 0, 2 } })\n"
               "print(optlua.linear(optlua.tensor({ 1, 2 }), w, optlua.tensor({ 10, 20 }))) "
               "--> tensor([11., 24.])",
    .samples =
        "{ { t(3, 4), t(2, 4), t(2) }, { t(3, 4), t(2, 4) }, { t(4), t(2, 4), t(2) }, "
        "{ t(2, 3, 4), t(5, 4), t(5) }, { t(4, 3):t(), t(4, 2):t(), t(2, 2):select(2, 1) }, "
        "{ t(2, 4, 3):transpose(2, 3), t(2, 4), t(1):expand(2) }, { t(0, 4), t(2, 4), t(2) }, "
        "{ t(3, 0), t(2, 0), t(2) } }",
    .param = { { "input", OL_TENSOR, .doc = "(…, in)" },
               { "weight", OL_TENSOR, .doc = "(out, in)" },
               { "bias", OL_TENSOR, true, .doc = "(out)" } },
    .saves = OL_SAVE_FOR_OTHERS(0) | OL_SAVE_FOR_OTHERS(1),
    .flags = OL_OP_FUNCTION,
    .forward = linear_forward,
    .backward = linear_backward },
  { 0 }
};

const ol_family ol_matmul_ops = { .name = "matmul", .doc = "Matrix products", .ops = ops };
