/* accumulate: adding, and summing over broadcast dimensions. */
#include "tensor/accumulate.h"

#include "base/lanes.h"
#include "base/parallel.h"
#include "tensor/loop.h"

/* Adds rows of the second operand to the first. */
#define DEFINE_ADD(suffix, type)                                                                   \
  OL_KERNEL static void add_##suffix(int64_t count, char *const *data, const int64_t *stride,      \
                                     const void *context) {                                        \
    (void)context;                                                                                 \
    if (stride[0] == sizeof(type) && stride[1] == sizeof(type)) {                                  \
      type *y = (type *)data[0];                                                                   \
      const type *x = (const type *)data[1];                                                       \
      for (int64_t i = 0; i < count; i++) y[i] += x[i];                                            \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      *(type *)(data[0] + i * stride[0]) += *(const type *)(data[1] + i * stride[1]);              \
  }
DEFINE_ADD(f32, float)
DEFINE_ADD(f64, double)

/* Adds a row to sums in double: element by element, or all into one sum (stride 0), by lanes. */
#define DEFINE_SUM(suffix, type)                                                                   \
  OL_KERNEL static void sum_##suffix(int64_t count, char *const *data, const int64_t *stride,      \
                                     const void *context) {                                        \
    (void)context;                                                                                 \
    double *sum = (double *)data[0];                                                               \
    const type *x = (const type *)data[1];                                                         \
    if (stride[0] == sizeof(double) && stride[1] == sizeof(type)) {                                \
      for (int64_t i = 0; i < count; i++) sum[i] += x[i];                                          \
    } else if (stride[0] == 0 && stride[1] == sizeof(type)) {                                      \
      double lane[OL_SUM_LANES] = { 0 };                                                           \
      OL_EACH_LANE(count, lane[k] += x[i]);                                                        \
      *sum += ol_merge_lanes(lane);                                                                \
    } else {                                                                                       \
      for (int64_t i = 0; i < count; i++)                                                          \
        *(double *)(data[0] + i * stride[0]) += *(const type *)(data[1] + i * stride[1]);          \
    }                                                                                              \
  }
DEFINE_SUM(f32, float)
DEFINE_SUM(f64, double)

void ol_tensor_accumulate(ol_tensor *target, const ol_tensor *source) {
  ol_loop loop;
  ol_tensor *operands[] = { target, (ol_tensor *)source };
  ol_loop_init(&loop, &target->shape, 2, operands);
  ol_loop_run(&loop, OL_GRAIN, target->dtype == OL_F32 ? add_f32 : add_f64, NULL);
}

/* Zeros of `shape`, seen with stride 0 where source is summed. */
static ol_status zero_sums(ol_error *error, const ol_tensor *source, const ol_shape *shape,
                           ol_tensor **sums, ol_tensor **spread) {
  int added = source->shape.ndim - shape->ndim;
  int64_t stride[OL_MAX_DIMS] = { 0 };
  OL_TRY(ol_tensor_zeros(error, OL_F64, shape, sums));
  for (int d = 0; d < shape->ndim; d++)
    if (shape->size[d] != 1) stride[d + added] = (*sums)->stride[d];
  ol_status status = ol_tensor_view(error, *sums, &source->shape, stride, 0, spread);
  if (status != OL_OK) ol_release(*sums);
  return status;
}

ol_status ol_tensor_sum_to(ol_error *error, ol_tensor *source, const ol_shape *shape,
                           ol_dtype dtype, ol_tensor **out) {
  if (ol_shape_equal(&source->shape, shape)) {
    if (source->dtype != dtype) return ol_tensor_convert(error, source, dtype, out);
    *out = ol_retain(source);
    return OL_OK;
  }
  ol_tensor *sums, *spread;
  OL_TRY(zero_sums(error, source, shape, &sums, &spread));
  ol_loop loop;
  ol_tensor *operands[] = { spread, source };
  ol_loop_init(&loop, &source->shape, 2, operands);
  ol_loop_run(&loop, INT64_MAX, source->dtype == OL_F32 ? sum_f32 : sum_f64, NULL);
  ol_status status = ol_tensor_convert(error, sums, dtype, out);
  ol_release(spread);
  ol_release(sums);
  return status;
}
