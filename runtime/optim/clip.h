/* clip: the norm of gradients, and scaling them down to one. */
#ifndef OL_OPTIM_CLIP_H
#define OL_OPTIM_CLIP_H

#include "tensor/tensor.h"

/* The norm of the gradients of tensors together, those that are absent left out: the square root of
 * the sum of squares, or the largest absolute value; 0 where there is none. *culprit is the first
 * tensor whose gradient is not finite (then the norm is not either), or -1. */
ol_status ol_gradient_norm(ol_error *error, ol_tensor *const *tensors, int64_t count, bool infinity,
                           double *out, int64_t *culprit);

/* Multiplies the gradients that are present; the factor is rounded once to their dtype. */
void ol_gradient_scale(ol_tensor *const *tensors, int64_t count, double factor);

/* The factor for gradients of this norm: max_norm / (norm + 1e-6) as in PyTorch, at most 1. */
double ol_clip_factor(double norm, double max_norm);

#endif
