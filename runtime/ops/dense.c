/* dense: makes and releases. */
#include "ops/dense.h"

static ol_status make(ol_error *error, ol_tensor *tensor, ol_tensor **out) {
  return tensor ? ol_tensor_contiguous(error, tensor, out) : OL_OK;
}

ol_status ol_dense_make(ol_error *error, ol_tensor *x, ol_tensor *g, ol_tensor *weight,
                        ol_tensor *bias, ol_dense *out) {
  ol_dense dense = { 0 };
  ol_status status = make(error, x, &dense.x);
  if (status == OL_OK) status = make(error, g, &dense.g);
  if (status == OL_OK) status = make(error, weight, &dense.weight);
  if (status == OL_OK) status = make(error, bias, &dense.bias);
  if (status == OL_OK)
    *out = dense;
  else
    ol_dense_release(&dense);
  return status;
}

void ol_dense_release(ol_dense *dense) {
  ol_release(dense->x);
  ol_release(dense->g);
  ol_release(dense->weight);
  ol_release(dense->bias);
}
