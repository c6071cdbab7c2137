/* tensor: making tensors and views; single elements. */
#include "tensor/tensor.h"

#include <string.h>

#include "base/memory.h"

static void destroy(ol_object *object) {
  ol_tensor *self = (ol_tensor *)object;
  ol_release(self->storage);
  ol_release(self->grad);
  ol_object_release(self->node);
  ol_object_release(self->hook);
  ol_free(self);
}

/* Takes over the reference to storage, also on failure. Strides of NULL are row-major. */
static ol_status make(ol_error *error, ol_storage *storage, ol_dtype dtype, const ol_shape *shape,
                      const int64_t *stride, int64_t offset, ol_tensor **out) {
  ol_tensor *self = ol_alloc(sizeof *self);
  if (!self) {
    ol_release(storage);
    return ol_fail(error, OL_MEMORY, "out of memory: %zu bytes for a tensor", sizeof *self);
  }
  *self = (ol_tensor){ .storage = storage, .dtype = dtype, .shape = *shape, .offset = offset };
  if (stride)
    memcpy(self->stride, stride, sizeof self->stride[0] * (size_t)shape->ndim);
  else
    ol_shape_strides(shape, self->stride);
  self->numel = ol_shape_numel(shape);
  ol_object_init(&self->object, destroy);
  *out = self;
  return OL_OK;
}

static ol_status make_own(ol_error *error, ol_dtype dtype, const ol_shape *shape, bool zero,
                          ol_tensor **out) {
  int64_t numel;
  ol_storage *storage;
  size_t size = ol_dtype_size(dtype);
  OL_TRY(ol_shape_count(error, shape, size, &numel));
  OL_TRY(ol_storage_new(error, (size_t)numel * size, zero, &storage));
  return make(error, storage, dtype, shape, NULL, 0, out);
}

ol_status ol_tensor_new(ol_error *error, ol_dtype dtype, const ol_shape *shape, ol_tensor **out) {
  return make_own(error, dtype, shape, false, out);
}

ol_status ol_tensor_zeros(ol_error *error, ol_dtype dtype, const ol_shape *shape, ol_tensor **out) {
  return make_own(error, dtype, shape, true, out);
}

/* Whether all elements lie inside `bytes`. */
static bool fits(const ol_shape *shape, const int64_t *stride, int64_t offset, size_t element,
                 size_t bytes) {
  int64_t last = offset, step;
  if (offset < 0) return false;
  for (int d = 0; d < shape->ndim; d++) {
    if (shape->size[d] == 0) return true;
    if (stride[d] < 0 || __builtin_mul_overflow(stride[d], shape->size[d] - 1, &step) ||
        __builtin_add_overflow(last, step, &last))
      return false;
  }
  return (uint64_t)last < bytes / element;
}

ol_status ol_tensor_view(ol_error *error, const ol_tensor *base, const ol_shape *shape,
                         const int64_t *stride, int64_t offset, ol_tensor **out) {
  int64_t numel;
  size_t element = ol_dtype_size(base->dtype);
  OL_TRY(ol_shape_count(error, shape, element, &numel));
  if (!fits(shape, stride, offset, element, base->storage->size))
    return ol_fail(error, OL_RANGE, "a view reaches outside its storage of %zu elements",
                   base->storage->size / element);
  return make(error, ol_retain(base->storage), base->dtype, shape, stride, offset, out);
}

ol_status ol_tensor_alias(ol_error *error, const ol_tensor *base, ol_tensor **out) {
  return make(error, ol_retain(base->storage), base->dtype, &base->shape, base->stride,
              base->offset, out);
}

bool ol_tensor_is_contiguous(const ol_tensor *tensor) {
  int64_t stride = 1;
  if (tensor->numel == 0) return true;
  for (int d = tensor->shape.ndim - 1; d >= 0; d--) {
    if (tensor->shape.size[d] != 1 && tensor->stride[d] != stride) return false;
    stride *= tensor->shape.size[d];
  }
  return true;
}

ol_status ol_tensor_contiguous(ol_error *error, ol_tensor *tensor, ol_tensor **out) {
  if (!ol_tensor_is_contiguous(tensor)) return ol_tensor_clone(error, tensor, out);
  *out = ol_retain(tensor);
  return OL_OK;
}

ol_status ol_tensor_clone(ol_error *error, const ol_tensor *tensor, ol_tensor **out) {
  return ol_tensor_convert(error, tensor, tensor->dtype, out);
}

ol_status ol_tensor_convert(ol_error *error, const ol_tensor *tensor, ol_dtype dtype,
                            ol_tensor **out) {
  ol_tensor *copy;
  OL_TRY(ol_tensor_new(error, dtype, &tensor->shape, &copy));
  ol_status status = ol_tensor_copy(error, copy, tensor);
  if (status != OL_OK)
    ol_release(copy);
  else
    *out = copy;
  return status;
}

bool ol_tensor_overlaps_itself(const ol_tensor *tensor) {
  for (int d = 0; d < tensor->shape.ndim; d++)
    if (tensor->shape.size[d] > 1 && tensor->stride[d] == 0) return true;
  return false;
}

static void *element(const ol_tensor *tensor, int64_t position) {
  int64_t offset = tensor->offset;
  for (int d = tensor->shape.ndim - 1; d >= 0; d--) {
    offset += position % tensor->shape.size[d] * tensor->stride[d];
    position /= tensor->shape.size[d];
  }
  return (char *)tensor->storage->data + offset * (int64_t)ol_dtype_size(tensor->dtype);
}

double ol_tensor_get(const ol_tensor *tensor, int64_t position) {
  const void *at = element(tensor, position);
  switch (tensor->dtype) {
  case OL_U8: return *(const uint8_t *)at;
  case OL_I64: return (double)*(const int64_t *)at;
  case OL_BF16: return ol_bf16_to_f32(*(const ol_bf16 *)at);
  case OL_F32: return *(const float *)at;
  default: return *(const double *)at;
  }
}

int64_t ol_tensor_get_integer(const ol_tensor *tensor, int64_t position) {
  const void *at = element(tensor, position);
  if (tensor->dtype == OL_I64) return *(const int64_t *)at;
  if (tensor->dtype == OL_U8) return *(const uint8_t *)at;
  return (int64_t)ol_tensor_get(tensor, position);
}

void ol_tensor_set(ol_tensor *tensor, int64_t position, double value) {
  void *at = element(tensor, position);
  switch (tensor->dtype) {
  case OL_U8: *(uint8_t *)at = (uint8_t)(int64_t)value; break;
  case OL_I64: *(int64_t *)at = (int64_t)value; break;
  case OL_BF16: *(ol_bf16 *)at = ol_bf16_from_f32((float)value); break;
  case OL_F32: *(float *)at = (float)value; break;
  default: *(double *)at = value; break;
  }
}

void ol_tensor_set_integer(ol_tensor *tensor, int64_t position, int64_t value) {
  if (tensor->dtype == OL_I64)
    *(int64_t *)element(tensor, position) = value;
  else
    ol_tensor_set(tensor, position, (double)value);
}
