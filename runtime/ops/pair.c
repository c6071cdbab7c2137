/* pair: checks, weights and reduction of losses of two tensors. */
#include "ops/pair.h"

#include "ops/arithmetic.h"
#include "ops/reduce.h"

ol_status ol_pair_check(ol_error *error, const char *op, const ol_tensor *input,
                        const ol_tensor *target) {
  char left[OL_SHAPE_TEXT], right[OL_SHAPE_TEXT];
  OL_TRY(ol_reduce_check(error, op, input->dtype, true));
  OL_TRY(ol_reduce_check(error, op, target->dtype, true));
  if (ol_shape_equal(&input->shape, &target->shape)) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: input of shape %s and target of shape %s differ", op,
                 ol_shape_text(&input->shape, left), ol_shape_text(&target->shape, right));
}

ol_status ol_pair_check_weights(ol_error *error, const ol_call *call, const char *name,
                                const ol_tensor *weights, const ol_shape *shape) {
  const char *op = call->op->name;
  char own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  ol_shape common;
  if (!weights) return OL_OK;
  OL_TRY(ol_reduce_check(error, op, weights->dtype, true));
  if (call->recording && weights->requires_grad)
    return ol_fail(error, OL_STATE, "%s: %s has no gradient; pass %s:detach()", op, name, name);
  if (ol_shape_broadcast(error, op, &weights->shape, shape, &common) == OL_OK &&
      ol_shape_equal(&common, shape))
    return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: %s of shape %s does not broadcast to the input's shape %s",
                 op, name, ol_shape_text(&weights->shape, own), ol_shape_text(shape, wanted));
}

static ol_status reduce(ol_error *error, ol_tensor *each, ol_reduction reduction, double total,
                        ol_tensor **out) {
  const ol_shape all = { .ndim = 0 };
  ol_tensor *sum;
  if (reduction == OL_NONE) {
    *out = ol_retain(each);
    return OL_OK;
  }
  if (reduction == OL_SUM) return ol_sum(error, each, &all, false, out);
  if (total == OL_ALL_LOSSES)
    return ol_reduce(error, "mean", ol_sums, ol_finish_mean, each, &all, false, each->dtype, out);
  OL_TRY(ol_sum(error, each, &all, false, &sum));
  ol_status status = ol_scale(error, sum, 1 / total, out);
  ol_release(sum);
  return status;
}

/* x * y where y is not NULL, else x itself. */
static ol_status product(ol_error *error, ol_tensor *x, ol_tensor *y, ol_tensor **out) {
  if (y) return ol_mul(error, x, y, out);
  *out = ol_retain(x);
  return OL_OK;
}

ol_status ol_pair_reduce(ol_error *error, ol_tensor *each, ol_tensor *weights,
                         ol_reduction reduction, double total, ol_tensor **out) {
  ol_tensor *weighed;
  ol_status status = product(error, each, weights, &weighed);
  ol_release(each);
  OL_TRY(status);
  status = reduce(error, weighed, reduction, total, out);
  ol_release(weighed);
  return status;
}

ol_status ol_pair_seed(ol_error *error, ol_tensor *g, ol_tensor *weights, ol_reduction reduction,
                       double total, int64_t numel, ol_tensor **out) {
  ol_tensor *scaled;
  if (reduction != OL_MEAN) return product(error, g, weights, out);
  OL_TRY(ol_scale(error, g, 1 / (total == OL_ALL_LOSSES ? (double)numel : total), &scaled));
  ol_status status = product(error, scaled, weights, out);
  ol_release(scaled);
  return status;
}
