/* matmul: matrix products, for the backward functions of other families. Nothing here records. */
#ifndef OL_OPS_MATMUL_H
#define OL_OPS_MATMUL_H

#include "tensor/tensor.h"

/* The product of x and y as PyTorch's matmul: vectors, matrices, stacks of matrices whose leading
 * dimensions broadcast. Both are float32, or both float64. */
ol_status ol_matmul(ol_error *error, const char *op, ol_tensor *x, ol_tensor *y, ol_tensor **out);

#endif
