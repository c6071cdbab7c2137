/* gather: looking up and scattering along a dimension, for other families; none of these records.
 */
#ifndef OL_OPS_GATHER_H
#define OL_OPS_GATHER_H

#include "tensor/tensor.h"

/* out[i][j][k] = x[i][index[i][j][k]][k], here for dim 1 (0 … ndim-1) of 3. index has as many
 * dimensions as x and, but for dim, at most its sizes. Errors name op. */
ol_status ol_gather(ol_error *error, const char *op, ol_tensor *x, int dim, ol_tensor *index,
                    ol_tensor **out);

/* The gradient of ol_gather: zeros of shape and of grad's dtype, with grad (of index's shape)
 * added where index points, in row-major order. */
ol_status ol_gather_back(ol_error *error, const char *op, ol_tensor *grad, const ol_shape *shape,
                         int dim, ol_tensor *index, ol_tensor **out);

/* The positions of dimension dim that index, one-dimensional, names. */
ol_status ol_index_select(ol_error *error, const char *op, ol_tensor *x, int dim, ol_tensor *index,
                          ol_tensor **out);

/* target[…, index[i], …] += source[…, i, …] along dim. source has the shape that ol_index_select
 * gives, and target's dtype. */
ol_status ol_index_select_add(ol_error *error, const char *op, ol_tensor *target, int dim,
                              ol_tensor *index, ol_tensor *source);

#endif
