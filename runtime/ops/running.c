/* running: running statistics, checked, read and moved. */
#include "ops/running.h"

#include <math.h>

#include "ops/plane.h"

ol_status ol_channels_check(ol_error *error, const char *op, const char *name,
                            const ol_tensor *part, const ol_tensor *x) {
  char own[OL_SHAPE_TEXT];
  if (!part) return OL_OK;
  if (part->dtype != x->dtype)
    return ol_fail(error, OL_DTYPE, "%s: %s is %s, input %s", op, name, ol_dtype_name(part->dtype),
                   ol_dtype_name(x->dtype));
  if (part->shape.ndim == 1 && part->shape.size[0] == x->shape.size[1]) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: %s has shape %s, the input has %lld channels", op, name,
                 ol_shape_text(&part->shape, own), (long long)x->shape.size[1]);
}

ol_status ol_running_check(ol_error *error, const char *op, const ol_tensor *mean,
                           const ol_tensor *variance, bool measured) {
  if (!mean != !variance)
    return ol_fail(error, OL_ARGUMENT, "%s: running_mean and running_var come together", op);
  if (!mean && !measured)
    return ol_fail(error, OL_ARGUMENT,
                   "%s: running_mean and running_var are needed unless the input's own statistics "
                   "are used",
                   op);
  if (measured && mean && (ol_tensor_overlaps_itself(mean) || ol_tensor_overlaps_itself(variance)))
    return ol_fail(error, OL_STATE,
                   "%s: running statistics are expanded: their elements share memory", op);
  return OL_OK;
}

static void *address(const ol_tensor *running, int64_t c) {
  return (char *)ol_tensor_data(running) +
         c * running->stride[0] * (int64_t)ol_dtype_size(running->dtype);
}

static double at(const ol_tensor *running, int64_t c) {
  return ol_float_at(running->dtype, address(running, c), 0, 0);
}

void ol_running_read(const ol_tensor *mean, const ol_tensor *variance, int64_t c, double eps,
                     double *mean_out, double *rstd_out) {
  *mean_out = at(mean, c);
  *rstd_out = 1 / sqrt(at(variance, c) + eps);
}

static void move(const ol_tensor *running, int64_t c, double momentum, double now) {
  ol_set_float_at(running->dtype, address(running, c), 0,
                  (1 - momentum) * at(running, c) + momentum * now);
}

void ol_running_move(const ol_tensor *mean, const ol_tensor *variance, int64_t c, double momentum,
                     double mean_now, double variance_now) {
  if (!isfinite(mean_now) || !isfinite(variance_now)) return;
  move(mean, c, momentum, mean_now);
  move(variance, c, momentum, variance_now);
}
