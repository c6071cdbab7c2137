/* compare: comparisons as C functions; they never record. */
#ifndef OL_OPS_COMPARE_H
#define OL_OPS_COMPARE_H

#include "tensor/tensor.h"

/* Whether x and y have the same shape and equal elements, of whatever dtypes; NaN equals nothing.
 */
ol_status ol_equal(ol_error *error, ol_tensor *x, ol_tensor *y, bool *out);

/* Whether |x - y| <= atol + rtol * |y| for all elements, broadcast. Infinities are close to
 * themselves, and NaN to NaN when equal_nan. */
ol_status ol_allclose(ol_error *error, ol_tensor *x, ol_tensor *y, double rtol, double atol,
                      bool equal_nan, bool *out);

#endif
