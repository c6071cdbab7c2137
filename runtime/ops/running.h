/* running: the running mean and variance of channels, which training moves and evaluation reads. */
#ifndef OL_OPS_RUNNING_H
#define OL_OPS_RUNNING_H

#include "autograd/op.h"

/* Fails unless part, called `name`, is NULL or (C) and of x's dtype, for x of (N, C, ...). */
ol_status ol_channels_check(ol_error *error, const char *op, const char *name,
                            const ol_tensor *part, const ol_tensor *x);

/* Fails unless mean and variance are both there or both NULL, are there where the input is not
 * measured, and can be written where it is. */
ol_status ol_running_check(ol_error *error, const char *op, const ol_tensor *mean,
                           const ol_tensor *variance, bool measured);

/* Reads the mean and 1 / sqrt(variance + eps) of channel c. */
void ol_running_read(const ol_tensor *mean, const ol_tensor *variance, int64_t c, double eps,
                     double *mean_out, double *rstd_out);

/* Moves channel c by the share `momentum` towards a mean and a variance, unless they are not
 * finite. The caller touches both tensors. */
void ol_running_move(const ol_tensor *mean, const ol_tensor *variance, int64_t c, double momentum,
                     double mean_now, double variance_now);

#endif
