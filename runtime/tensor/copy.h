/* copy: the rows that copying between dtypes is made of. */
#ifndef OL_TENSOR_COPY_H
#define OL_TENSOR_COPY_H

#include "tensor/loop.h"

/* The row function that copies operand 1, of dtype `from`, to operand 0, of dtype `to`. Exact rules
 * of conversion: see ol_tensor_convert. It takes no context. */
ol_row_fn *ol_copy_row(ol_dtype to, ol_dtype from);

/* Whether two tensors look at the same elements in the same order. */
bool ol_tensor_same_place(const ol_tensor *a, const ol_tensor *b);

#endif
