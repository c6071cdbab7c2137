/* stack: tensors seen as stacks of matrices, and their products through BLAS. */
#ifndef OL_OPS_STACK_H
#define OL_OPS_STACK_H

#include "tensor/blas.h"
#include "tensor/tensor.h"

/* A tensor seen as matrices (rows, cols), one for each position of batch. It borrows the tensor
 * until ol_stack_ready or ol_stack_fold; ol_stack_release drops what they made. */
typedef struct ol_stack {
  ol_tensor *tensor;
  ol_tensor *copy; /* a contiguous copy that tensor points to, or NULL */
  int64_t rows, cols;
  int64_t row, col; /* strides, in elements */
  ol_shape batch;
  int64_t step[OL_MAX_DIMS]; /* strides of batch, in elements */
} ol_stack;

/* The last two dimensions are the matrix. Requires ndim >= 2. */
ol_stack ol_stack_matrices(ol_tensor *tensor);

/* The last dimension is a matrix of one row (1, n), or of one column (n, 1). Requires ndim 1 … 7.
 */
ol_stack ol_stack_rows(ol_tensor *tensor);
ol_stack ol_stack_columns(ol_tensor *tensor);

/* The same with each matrix transposed. */
ol_stack ol_stack_transposed(ol_stack stack);

/* Makes one matrix of (batch * rows, cols); copies where the strides do not allow it. */
ol_status ol_stack_fold(ol_error *error, ol_stack *stack);

/* Copies the matrices where BLAS cannot read them as they lie. */
ol_status ol_stack_ready(ol_error *error, ol_stack *stack);

void ol_stack_release(ol_stack *stack);

/* The matrix at a row-major position of batch, to which the stack's own batch broadcasts. */
ol_matrix ol_stack_at(const ol_stack *stack, const ol_shape *batch, int64_t position);

/* c = alpha * a * b + beta * c for each position of batch, to which those of a and b broadcast. c
 * is contiguous, (batch, a.rows, b.cols). Requires a.cols == b.rows and one computing dtype.
 * Copies operands that BLAS cannot read; c is untouched on failure. Small matrices run in parallel,
 * large ones one after another, each on all threads. */
ol_status ol_stack_multiply(ol_error *error, double alpha, ol_stack *a, ol_stack *b, double beta,
                            const ol_shape *batch, ol_tensor *c);

#endif
