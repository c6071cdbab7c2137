/* targets: what losses of classes share: inputs as rows, their targets checked, the reduction. */
#ifndef OL_OPS_TARGETS_H
#define OL_OPS_TARGETS_H

#include "autograd/op.h"

/* The choices of a loss's `reduction`, in the order of OL_REDUCTIONS.
 *
 * The mean of nothing: losses of elements (pair.h) have NaN, 0 / 0, as PyTorch. Losses of classes
 * have 0 with a gradient of zeros where no target counts, so that a batch whose targets are all
 * ignored does nothing, while PyTorch has NaN. */
typedef enum ol_reduction { OL_MEAN, OL_SUM, OL_NONE } ol_reduction;
#define OL_REDUCTIONS "mean|sum|none"

/* An input (N, C, …), (C) or (N, C), and its targets: labels (N, …), or probabilities of the
 * input's shape. */
typedef struct ol_targets {
  ol_tensor *rows;    /* the input with its classes last: (N, …, C), contiguous */
  ol_tensor *labels;  /* int64 (N, …), contiguous; or NULL: */
  ol_tensor *shares;  /* the probabilities, as rows */
  ol_tensor *weights; /* (C), contiguous, of the input's dtype; or NULL: ones */
  int dim;            /* of the classes in the input */
  int ndim;           /* of the input */
  int64_t ignored;    /* the label that does not count */
  ol_shape shape;     /* of one loss for each row */
  double total;       /* what the mean divides by: rows, or the weights of rows that count */
} ol_targets;

/* Arranges and checks. Errors name op; a label that is neither a class nor `ignored` is named with
 * its position. Probabilities are refused unless allowed. */
ol_status ol_targets_init(ol_error *error, const char *op, ol_tensor *input, ol_tensor *target,
                          ol_tensor *weights, int64_t ignored, bool probabilities, ol_targets *out);

void ol_targets_release(ol_targets *targets);

/* The weight of a class. */
double ol_class_weight(const ol_targets *targets, int64_t class);

/* Reduces the losses of `count` rows, in order, into a new tensor: of shape (none) or 0-d. */
ol_status ol_reduce_losses(ol_error *error, const double *loss, int64_t count,
                           const ol_shape *shape, ol_reduction reduction, double total,
                           ol_dtype dtype, ol_tensor **out);

/* The gradient of each row's loss, read from that of the reduced one. */
typedef struct ol_loss_seed {
  ol_tensor *g; /* contiguous; one reference */
  int64_t step; /* 0 where all rows share it */
  double factor;
} ol_loss_seed;

ol_status ol_loss_seed_init(ol_error *error, ol_tensor *g, ol_reduction reduction, double total,
                            ol_loss_seed *out);

static inline double ol_loss_seed_at(const ol_loss_seed *seed, int64_t row) {
  const void *data = ol_tensor_data(seed->g);
  int64_t i = row * seed->step;
  return seed->factor *
         (seed->g->dtype == OL_F32 ? ((const float *)data)[i] : ((const double *)data)[i]);
}

#endif
