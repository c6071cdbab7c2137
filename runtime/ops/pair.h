/* pair: losses of an input and a target of one shape, element by element, then reduced. */
#ifndef OL_OPS_PAIR_H
#define OL_OPS_PAIR_H

#include "ops/pointwise.h"
#include "ops/targets.h"

/* The parameters that every such loss begins with, by place. */
enum { OL_PAIR_INPUT, OL_PAIR_TARGET };
#define OL_PAIR_PARAMS                                                                             \
  { "input", OL_TENSOR }, { "target", OL_TENSOR, .doc = "of the input's shape" }
#define OL_REDUCTION_PARAM                                                                         \
  { "reduction", OL_CHOICE,     true,                                                              \
    OL_MEAN,     OL_REDUCTIONS, .doc = "the mean of nothing is NaN, as in PyTorch" }

#define OL_ALL_LOSSES (-1.0) /* as a total: the number of losses */

/* Fails, naming op, unless both are float32 or float64 and of one shape. */
ol_status ol_pair_check(ol_error *error, const char *op, const ol_tensor *input,
                        const ol_tensor *target);

/* Fails where weights (NULL: none) require a gradient, are not floats, or do not broadcast to
 * shape; name is their parameter's. */
ol_status ol_pair_check_weights(ol_error *error, const ol_call *call, const char *name,
                                const ol_tensor *weights, const ol_shape *shape);

/* Multiplies the losses by weights (NULL: ones), reduces them, and releases them. The mean divides
 * by `total`. */
ol_status ol_pair_reduce(ol_error *error, ol_tensor *each, ol_tensor *weights,
                         ol_reduction reduction, double total, ol_tensor **out);

/* The gradient of each loss from that of the reduced one, g: of the losses' shape, or one that
 * broadcasts to it. numel: the number of losses. */
ol_status ol_pair_seed(ol_error *error, ol_tensor *g, ol_tensor *weights, ol_reduction reduction,
                       double total, int64_t numel, ol_tensor **out);

#endif
