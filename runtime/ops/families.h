/* families: every family of ops, in the order of the documentation. To add one, add it here. */
#ifndef OL_OPS_FAMILIES_H
#define OL_OPS_FAMILIES_H

#include "ops/registry.h"

/* clang-format off */
#define OL_FAMILIES(X) \
  X(creation) \
  X(random) \
  X(multinomial) \
  X(arithmetic) \
  X(division) \
  X(power) \
  X(combine) \
  X(unary) \
  X(rounding) \
  X(exponential) \
  X(erfinv) \
  X(trigonometry) \
  X(compare) \
  X(extreme) \
  X(choose) \
  X(dropout) \
  X(activation) \
  X(piecewise) \
  X(gate) \
  X(reduce) \
  X(matmul) \
  X(softmax) \
  X(crossentropy) \
  X(loss) \
  X(likelihood) \
  X(ctc) \
  X(variance) \
  X(vectornorm) \
  X(peak) \
  X(cumulative) \
  X(layernorm) \
  X(batchnorm) \
  X(groupnorm) \
  X(convolution) \
  X(maxpool) \
  X(avgpool) \
  X(attention) \
  X(recurrent) \
  X(pad) \
  X(interpolate) \
  X(reshape) \
  X(view) \
  X(copies) \
  X(join) \
  X(gather) \
  X(index) \
  X(mask) \
  X(triangle) \
  X(sort) \
  /* the end */
/* clang-format on */

#define OL_DECLARE_FAMILY(name) extern const ol_family ol_##name##_ops;
OL_FAMILIES(OL_DECLARE_FAMILY)
#undef OL_DECLARE_FAMILY

#endif
