/* choose: choosing by a mask, as C functions; they never record. A mask is uint8, and broadcasts.
 */
#ifndef OL_OPS_CHOOSE_H
#define OL_OPS_CHOOSE_H

#include "tensor/tensor.h"

/* x where the mask is not 0, else 0. */
ol_status ol_keep(ol_error *error, ol_tensor *mask, ol_tensor *x, ol_tensor **out);

/* x * factor where the mask is not 0, else 0 (whatever x is there), of floats. */
ol_status ol_keep_scaled(ol_error *error, ol_tensor *mask, ol_tensor *x, double factor,
                         ol_tensor **out);

/* Fails unless value is one number that dtype holds: whole and in range for an integer dtype. */
ol_status ol_check_fill(ol_error *error, const char *op, const ol_tensor *value, ol_dtype dtype);

#endif
