/* clip: reads gradients, and writes them. */
#include "optim/clip.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "rule/norm.h"
#include "tensor/loop.h"

double ol_clip_factor(double norm, double max_norm) {
  double factor = max_norm / (norm + 1e-6);
  return factor < 1 ? factor : 1;
}

/* Dense gradients of the tensors that have one: one reference each. */
static ol_status gather(ol_error *error, ol_tensor *const *tensors, int64_t count, ol_tensor **grad,
                        ol_norm_input *input, int64_t *owner, int64_t *found) {
  *found = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!tensors[i]->has_grad) continue;
    OL_TRY(ol_tensor_contiguous(error, tensors[i]->grad, &grad[*found]));
    input[*found] = (ol_norm_input){ ol_tensor_data(grad[*found]), tensors[i]->grad->dtype,
                                     tensors[i]->grad->numel };
    owner[(*found)++] = i;
  }
  return OL_OK;
}

ol_status ol_gradient_norm(ol_error *error, ol_tensor *const *tensors, int64_t count, bool infinity,
                           double *out, int64_t *culprit) {
  void *block;
  int64_t found = 0;
  ol_norm_result result = { .nonfinite = -1 };
  size_t n = (size_t)count;
  OL_TRY(ol_alloc_for(error, n * (sizeof(ol_norm_input) + sizeof(ol_tensor *) + sizeof(int64_t)),
                      "a norm", &block));
  ol_norm_input *input = block;
  ol_tensor **grad = (ol_tensor **)(input + n);
  int64_t *owner = (int64_t *)(grad + n);
  ol_status status = gather(error, tensors, count, grad, input, owner, &found);
  if (status == OL_OK) status = ol_norm(error, input, found, &result);
  if (status == OL_OK) {
    *out = infinity ? result.infinity : result.two;
    *culprit = result.nonfinite < 0 ? -1 : owner[result.nonfinite];
  }
  for (int64_t i = 0; i < found; i++) ol_release(grad[i]);
  ol_free(block);
  return status;
}

#define DEFINE_SCALE(name, type)                                                                   \
  OL_KERNEL static void name(int64_t count, char *const *data, const int64_t *stride,              \
                             const void *context) {                                                \
    type factor = (type) * (const double *)context;                                                \
    if (stride[0] == sizeof(type)) {                                                               \
      type *x = (type *)data[0];                                                                   \
      for (int64_t i = 0; i < count; i++) x[i] *= factor;                                          \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++) *(type *)(data[0] + i * stride[0]) *= factor;              \
  }

DEFINE_SCALE(scale_f32, float)
DEFINE_SCALE(scale_f64, double)

void ol_gradient_scale(ol_tensor *const *tensors, int64_t count, double factor) {
  for (int64_t i = 0; i < count; i++) {
    if (!tensors[i]->has_grad) continue;
    ol_loop loop;
    ol_tensor *grad = tensors[i]->grad;
    ol_loop_init(&loop, &grad->shape, 1, &grad);
    ol_loop_run(&loop, OL_GRAIN, grad->dtype == OL_F64 ? scale_f64 : scale_f32, &factor);
    ol_tensor_touch(grad);
  }
}
