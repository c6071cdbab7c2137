/* view: views of tensors for other families; none of these records. */
#ifndef OL_OPS_VIEW_H
#define OL_OPS_VIEW_H

#include "tensor/tensor.h"

/* The elements of x in row-major order with another shape of as many elements (all sizes given):
 * a view where strides allow it, else a copy. */
ol_status ol_reshape(ol_error *error, ol_tensor *x, const ol_shape *shape, ol_tensor **out);

/* The view of x with dimensions a and b (0 … ndim-1) exchanged. */
ol_status ol_transpose(ol_error *error, const ol_tensor *x, int a, int b, ol_tensor **out);

/* The view of positions start … start+length-1 of dimension dim, which must exist. */
ol_status ol_narrow(ol_error *error, const ol_tensor *x, int dim, int64_t start, int64_t length,
                    ol_tensor **out);

/* The view of the diagonal over dimensions rows and columns (different ones), moved `shift` columns
 * up; it becomes the last dimension. */
ol_status ol_diagonal(ol_error *error, const ol_tensor *x, int64_t shift, int rows, int columns,
                      ol_tensor **out);

/* The view of the part of x that begins at `start` (from 0) and has `length` positions, `step`
 * apart, in each of the first dimensions. A length of -1 is one position, whose dimension is
 * dropped; steps that are left out are 1. Errors name op. */
ol_status ol_part(ol_error *error, const char *op, const ol_tensor *x, const ol_shape *start,
                  const ol_shape *length, const ol_shape *step, ol_tensor **out);

/* The view of x broadcast to shape, with strides of 0 where sizes of 1 are stretched. Errors
 * name op. */
ol_status ol_expand(ol_error *error, const char *op, const ol_tensor *x, const ol_shape *shape,
                    ol_tensor **out);

#endif
