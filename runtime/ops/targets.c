/* targets: arranges inputs and targets of losses, and reduces losses. */
#include "ops/targets.h"

#include "ops/lastdim.h"
#include "ops/reduce.h"

/* The shape of one label for each row of the input. */
static ol_shape label_shape(const ol_shape *input, int dim) {
  ol_shape shape = { .ndim = 0 };
  for (int d = 0; d < input->ndim; d++)
    if (d != dim) shape.size[shape.ndim++] = input->size[d];
  return shape;
}

/* Targets of a float dtype are probabilities, or labels that were read as numbers. */
static ol_status check_fractions(ol_error *error, const char *op, const ol_tensor *input,
                                 const ol_tensor *target, const ol_shape *labels) {
  char in[OL_SHAPE_TEXT], own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  if (!ol_shape_equal(&target->shape, &input->shape))
    return ol_fail(error, OL_SHAPE,
                   "%s: target is %s of shape %s; class labels are int64 (target:to(\"int64\")) of "
                   "shape %s, probabilities have the input's shape %s",
                   op, ol_dtype_name(target->dtype), ol_shape_text(&target->shape, own),
                   ol_shape_text(labels, wanted), ol_shape_text(&input->shape, in));
  if (target->dtype == input->dtype) return OL_OK;
  return ol_fail(error, OL_DTYPE, "%s: probabilities of dtype %s for an input of dtype %s", op,
                 ol_dtype_name(target->dtype), ol_dtype_name(input->dtype));
}

static ol_status check_target(ol_error *error, const char *op, const ol_tensor *input,
                              const ol_tensor *target, const ol_shape *labels, bool probabilities) {
  char in[OL_SHAPE_TEXT], own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  bool fractions = ol_dtype_is_float(target->dtype);
  if (fractions && probabilities) return check_fractions(error, op, input, target, labels);
  if (fractions)
    return ol_fail(error, OL_DTYPE, "%s: target is %s; labels are int64 (target:to(\"int64\"))", op,
                   ol_dtype_name(target->dtype));
  if (ol_shape_equal(&target->shape, labels)) return OL_OK;
  return ol_fail(error, OL_SHAPE,
                 "%s: target has shape %s; labels for an input of shape %s have %s", op,
                 ol_shape_text(&target->shape, own), ol_shape_text(&input->shape, in),
                 ol_shape_text(labels, wanted));
}

static ol_status check_weights(ol_error *error, const char *op, const ol_tensor *input,
                               const ol_tensor *weights, int64_t classes) {
  char text[OL_SHAPE_TEXT];
  if (!weights) return OL_OK;
  if (weights->shape.ndim != 1 || weights->shape.size[0] != classes)
    return ol_fail(error, OL_SHAPE, "%s: weight has shape %s, wants (%lld): one for each class", op,
                   ol_shape_text(&weights->shape, text), (long long)classes);
  if (weights->dtype != input->dtype)
    return ol_fail(error, OL_DTYPE, "%s: weight is %s, input %s", op, ol_dtype_name(weights->dtype),
                   ol_dtype_name(input->dtype));
  return OL_OK;
}

/* Position i of shape as users write it: (2, 1). */
static char *position_text(const ol_shape *shape, int64_t i, char *text) {
  ol_shape position = { .ndim = shape->ndim };
  for (int d = shape->ndim - 1; d >= 0; d--) {
    position.size[d] = i % shape->size[d] + 1;
    i /= shape->size[d];
  }
  return ol_shape_text(&position, text);
}

double ol_class_weight(const ol_targets *targets, int64_t class) {
  if (!targets->weights) return 1;
  const void *data = ol_tensor_data(targets->weights);
  return targets->weights->dtype == OL_F32 ? ((const float *)data)[class]
                                           : ((const double *)data)[class];
}

/* Checks the labels and adds up the weights of those that count. */
static ol_status weigh(ol_error *error, const char *op, ol_targets *t) {
  const int64_t *label = ol_tensor_data(t->labels);
  int64_t classes = ol_row_length(t->rows);
  char text[OL_SHAPE_TEXT];
  for (int64_t i = 0; i < t->labels->numel; i++) {
    if (label[i] == t->ignored) continue;
    if (label[i] < 0 || label[i] >= classes)
      return ol_fail(error, OL_RANGE,
                     "%s: target %lld at position %s is neither a class (0 to %lld) nor "
                     "ignore_index (%lld)",
                     op, (long long)label[i], position_text(&t->shape, i, text),
                     (long long)classes - 1, (long long)t->ignored);
    t->total += ol_class_weight(t, label[i]);
  }
  return OL_OK;
}

static ol_status arrange_labels(ol_error *error, const char *op, ol_tensor *target, ol_targets *t) {
  if (target->dtype == OL_I64)
    OL_TRY(ol_tensor_contiguous(error, target, &t->labels));
  else
    OL_TRY(ol_tensor_convert(error, target, OL_I64, &t->labels));
  return weigh(error, op, t);
}

static ol_status arrange(ol_error *error, const char *op, ol_tensor *input, ol_tensor *target,
                         ol_tensor *weights, ol_targets *t) {
  OL_TRY(ol_move_last(error, input, t->dim, &t->rows));
  if (weights) OL_TRY(ol_tensor_contiguous(error, weights, &t->weights));
  if (!ol_dtype_is_float(target->dtype)) return arrange_labels(error, op, target, t);
  t->total = (double)ol_row_count(t->rows);
  return ol_move_last(error, target, t->dim, &t->shares);
}

ol_status ol_targets_init(ol_error *error, const char *op, ol_tensor *input, ol_tensor *target,
                          ol_tensor *weights, int64_t ignored, bool probabilities,
                          ol_targets *out) {
  ol_targets t = { .ignored = ignored, .ndim = input->shape.ndim };
  t.dim = t.ndim > 1 ? 1 : 0;
  OL_TRY(ol_reduce_check(error, op, input->dtype, true));
  if (t.ndim == 0 || input->shape.size[t.dim] == 0)
    return ol_fail(error, OL_SHAPE, "%s: input has no classes", op);
  t.shape = label_shape(&input->shape, t.dim);
  OL_TRY(check_target(error, op, input, target, &t.shape, probabilities));
  OL_TRY(check_weights(error, op, input, weights, input->shape.size[t.dim]));
  ol_status status = arrange(error, op, input, target, weights, &t);
  if (status == OL_OK)
    *out = t;
  else
    ol_targets_release(&t);
  return status;
}

void ol_targets_release(ol_targets *targets) {
  ol_release(targets->rows);
  ol_release(targets->labels);
  ol_release(targets->shares);
  ol_release(targets->weights);
}

static void store(ol_tensor *target, int64_t i, double value) {
  if (target->dtype == OL_F32)
    ((float *)ol_tensor_data(target))[i] = (float)value;
  else
    ((double *)ol_tensor_data(target))[i] = value;
}

ol_status ol_reduce_losses(ol_error *error, const double *loss, int64_t count,
                           const ol_shape *shape, ol_reduction reduction, double total,
                           ol_dtype dtype, ol_tensor **out) {
  const ol_shape scalar = { .ndim = 0 };
  double sum = 0;
  OL_TRY(ol_tensor_new(error, dtype, reduction == OL_NONE ? shape : &scalar, out));
  for (int64_t i = 0; i < count; i++) {
    if (reduction == OL_NONE)
      store(*out, i, loss[i]);
    else
      sum += loss[i];
  }
  if (reduction == OL_MEAN) sum = total == 0 ? 0 : sum / total;
  if (reduction != OL_NONE) store(*out, 0, sum);
  return OL_OK;
}

ol_status ol_loss_seed_init(ol_error *error, ol_tensor *g, ol_reduction reduction, double total,
                            ol_loss_seed *out) {
  *out = (ol_loss_seed){ .step = reduction == OL_NONE, .factor = 1 };
  if (reduction == OL_MEAN) out->factor = total == 0 ? 0 : 1 / total;
  return ol_tensor_contiguous(error, g, &out->g);
}
