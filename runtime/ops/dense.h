/* dense: what the kernels of a layer read, made contiguous together and released together. */
#ifndef OL_OPS_DENSE_H
#define OL_OPS_DENSE_H

#include "tensor/tensor.h"

/* The input, the gradient of the result, weight and bias; any may be NULL. One reference each. */
typedef struct ol_dense {
  ol_tensor *x, *g, *weight, *bias;
} ol_dense;

/* Makes them of tensors of any strides, or of NULL. */
ol_status ol_dense_make(ol_error *error, ol_tensor *x, ol_tensor *g, ol_tensor *weight,
                        ol_tensor *bias, ol_dense *out);

void ol_dense_release(ol_dense *dense);

/* The elements of a contiguous tensor; NULL of NULL. */
static inline void *ol_data_of(const ol_tensor *tensor) {
  return tensor ? ol_tensor_data(tensor) : NULL;
}

#endif
