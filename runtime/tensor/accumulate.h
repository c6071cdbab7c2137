/* accumulate: what gradients need of arithmetic: sums of two, and sums back to a smaller shape. */
#ifndef OL_TENSOR_ACCUMULATE_H
#define OL_TENSOR_ACCUMULATE_H

#include "tensor/tensor.h"

/* target += source, element by element; same shape, same computing dtype. Bumps no version: used
 * on memory that nobody else sees yet. */
void ol_tensor_accumulate(ol_tensor *target, const ol_tensor *source);

/* Sums source over the dimensions that broadcasting from `shape` added or stretched, and converts
 * to dtype; source itself, with a reference more, when nothing is to be done. Sums in double, in
 * row-major order of source. */
ol_status ol_tensor_sum_to(ol_error *error, ol_tensor *source, const ol_shape *shape,
                           ol_dtype dtype, ol_tensor **out);

#endif
