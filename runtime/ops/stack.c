/* stack: folds, packs and multiplies stacks of matrices. */
#include "ops/stack.h"

#include <string.h>

#include "base/parallel.h"

/* A stack whose batch is the first `batch` dimensions; rows and cols are to be set. */
static ol_stack over(ol_tensor *tensor, int batch) {
  ol_stack stack = { .tensor = tensor, .rows = 1, .cols = 1, .batch.ndim = batch };
  for (int d = 0; d < batch; d++) {
    stack.batch.size[d] = tensor->shape.size[d];
    stack.step[d] = tensor->stride[d];
  }
  return stack;
}

ol_stack ol_stack_matrices(ol_tensor *tensor) {
  int batch = tensor->shape.ndim - 2;
  ol_stack stack = over(tensor, batch);
  stack.rows = tensor->shape.size[batch];
  stack.row = tensor->stride[batch];
  stack.cols = tensor->shape.size[batch + 1];
  stack.col = tensor->stride[batch + 1];
  return stack;
}

ol_stack ol_stack_rows(ol_tensor *tensor) {
  int last = tensor->shape.ndim - 1;
  ol_stack stack = over(tensor, last);
  stack.cols = tensor->shape.size[last];
  stack.col = tensor->stride[last];
  stack.row = stack.cols * stack.col;
  return stack;
}

ol_stack ol_stack_columns(ol_tensor *tensor) { return ol_stack_transposed(ol_stack_rows(tensor)); }

ol_stack ol_stack_transposed(ol_stack stack) {
  int64_t rows = stack.rows, row = stack.row;
  stack.rows = stack.cols;
  stack.row = stack.col;
  stack.cols = rows;
  stack.col = row;
  return stack;
}

void ol_stack_release(ol_stack *stack) {
  ol_release(stack->copy);
  stack->copy = NULL;
}

/* Replaces the tensor by a contiguous copy in the order batch, rows, cols. */
static ol_status pack(ol_error *error, ol_stack *stack) {
  ol_tensor *view, *copy;
  ol_shape shape = stack->batch;
  int64_t stride[OL_MAX_DIMS + 2];
  memcpy(stride, stack->step, sizeof stack->step);
  stride[shape.ndim] = stack->row;
  shape.size[shape.ndim++] = stack->rows;
  stride[shape.ndim] = stack->col;
  shape.size[shape.ndim++] = stack->cols;
  OL_TRY(ol_tensor_view(error, stack->tensor, &shape, stride, stack->tensor->offset, &view));
  ol_status status = ol_tensor_clone(error, view, &copy);
  ol_release(view);
  if (status != OL_OK) return status;
  ol_stack_release(stack);
  *stack = ol_stack_matrices(copy);
  stack->copy = copy;
  return OL_OK;
}

/* Finds the stride of batch and rows taken as one dimension; false when there is none. */
static bool one_stride(const ol_stack *stack, int64_t *count, int64_t *stride) {
  *count = stack->rows;
  *stride = stack->row;
  for (int d = stack->batch.ndim - 1; d >= 0; d--) {
    int64_t size = stack->batch.size[d];
    if (size == 1) continue;
    if (*count == 1)
      *stride = stack->step[d];
    else if (size != 0 && *count != 0 && stack->step[d] != *count * *stride)
      return false;
    *count *= size;
  }
  return true;
}

ol_status ol_stack_fold(ol_error *error, ol_stack *stack) {
  int64_t count, stride;
  if (!one_stride(stack, &count, &stride)) {
    OL_TRY(pack(error, stack));
    one_stride(stack, &count, &stride);
  }
  stack->rows = count;
  stack->row = stride;
  stack->batch.ndim = 0;
  return OL_OK;
}

ol_matrix ol_stack_at(const ol_stack *stack, const ol_shape *batch, int64_t position) {
  int64_t offset = 0, size = (int64_t)ol_dtype_size(stack->tensor->dtype);
  const int added = batch->ndim - stack->batch.ndim;
  for (int d = batch->ndim - 1; d >= added; d--) {
    if (stack->batch.size[d - added] != 1)
      offset += position % batch->size[d] * stack->step[d - added];
    position /= batch->size[d];
  }
  return (ol_matrix){ (char *)ol_tensor_data(stack->tensor) + offset * size, stack->row,
                      stack->col };
}

typedef struct job {
  const ol_stack *a, *b;
  const ol_shape *batch;
  double alpha, beta;
  ol_tensor *c;
} job;

/* The products of positions begin … end-1 of the batch. */
static void multiply(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  int64_t m = j->a->rows, n = j->b->cols, size = (int64_t)ol_dtype_size(j->c->dtype);
  for (int64_t i = begin; i < end; i++) {
    ol_matrix a = ol_stack_at(j->a, j->batch, i), b = ol_stack_at(j->b, j->batch, i);
    ol_matrix c = { (char *)ol_tensor_data(j->c) + i * m * n * size, n, 1 };
    ol_blas_gemm(j->c->dtype, m, n, j->a->cols, j->alpha, a, b, j->beta, c);
  }
}

#define SMALL (1 << 21) /* multiplications of a product too small to be shared among threads */

static void run(job *j) {
  int64_t count = ol_shape_numel(j->batch);
  double work = (double)j->a->rows * (double)j->b->cols * (double)j->a->cols;
  if (count == 1 || work > SMALL)
    multiply(0, count, j);
  else
    ol_parallel_for(count, ol_grain(work), multiply, j);
}

ol_status ol_stack_ready(ol_error *error, ol_stack *stack) {
  if (ol_blas_accepts(stack->rows, stack->cols, stack->row, stack->col)) return OL_OK;
  return pack(error, stack);
}

ol_status ol_stack_multiply(ol_error *error, double alpha, ol_stack *a, ol_stack *b, double beta,
                            const ol_shape *batch, ol_tensor *c) {
  if (c->numel == 0) return OL_OK;
  OL_TRY(ol_stack_ready(error, a));
  OL_TRY(ol_stack_ready(error, b));
  job j = { .a = a, .b = b, .batch = batch, .alpha = alpha, .beta = beta, .c = c };
  run(&j);
  return OL_OK;
}
