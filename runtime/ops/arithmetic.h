/* arithmetic: sums, products and their kin as C functions; they never record. Operands broadcast
 * and are promoted as in the ops of the same names. */
#ifndef OL_OPS_ARITHMETIC_H
#define OL_OPS_ARITHMETIC_H

#include "tensor/tensor.h"

/* x + y, x - y, x * y, x / y (integers divide to float32). */
ol_status ol_add(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out);
ol_status ol_sub(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out);
ol_status ol_mul(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out);
ol_status ol_div(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out);

/* x + alpha * y. alpha must be whole for integers. */
ol_status ol_add_scaled(ol_error *error, ol_tensor *x, ol_tensor *y, double alpha, ol_tensor **out);

/* -x, and x * factor of floats. */
ol_status ol_neg(ol_error *error, ol_tensor *x, ol_tensor **out);
ol_status ol_scale(ol_error *error, ol_tensor *x, double factor, ol_tensor **out);

#endif
