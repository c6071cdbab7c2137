/* shape: checked arithmetic on sizes. */
#include "tensor/shape.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

char *ol_shape_text(const ol_shape *shape, char *text) {
  size_t used = 0;
  text[used++] = '(';
  for (int d = 0; d < shape->ndim; d++)
    used += (size_t)snprintf(text + used, OL_SHAPE_TEXT - used, "%s%lld", d ? ", " : "",
                             (long long)shape->size[d]);
  memcpy(text + used, ")", 2);
  return text;
}

/* Sizes of 0 are left out of the bound, so that strides of an empty tensor do not overflow. */
ol_status ol_shape_count(ol_error *error, const ol_shape *shape, size_t element_size,
                         int64_t *out) {
  char text[OL_SHAPE_TEXT];
  int64_t bytes = (int64_t)element_size;
  bool empty = false;
  for (int d = 0; d < shape->ndim; d++) {
    if (shape->size[d] < 0)
      return ol_fail(error, OL_SHAPE, "shape %s has a negative size", ol_shape_text(shape, text));
    if (shape->size[d] == 0)
      empty = true;
    else if (__builtin_mul_overflow(bytes, shape->size[d], &bytes))
      return ol_fail(error, OL_SHAPE, "shape %s is too large: its size in bytes overflows",
                     ol_shape_text(shape, text));
  }
  *out = empty ? 0 : bytes / (int64_t)element_size;
  return OL_OK;
}

int64_t ol_shape_numel(const ol_shape *shape) {
  int64_t numel = 1;
  for (int d = 0; d < shape->ndim; d++) numel *= shape->size[d];
  return numel;
}

ol_status ol_shape_broadcast(ol_error *error, const char *op, const ol_shape *a, const ol_shape *b,
                             ol_shape *out) {
  ol_shape result = { .ndim = a->ndim > b->ndim ? a->ndim : b->ndim };
  for (int d = 1; d <= result.ndim; d++) { /* from the end */
    int64_t x = d <= a->ndim ? a->size[a->ndim - d] : 1;
    int64_t y = d <= b->ndim ? b->size[b->ndim - d] : 1;
    if (x != y && x != 1 && y != 1) {
      char left[OL_SHAPE_TEXT], right[OL_SHAPE_TEXT];
      return ol_fail(error, OL_SHAPE, "%s: shapes %s and %s do not broadcast", op,
                     ol_shape_text(a, left), ol_shape_text(b, right));
    }
    result.size[result.ndim - d] = x == 1 ? y : x;
  }
  *out = result;
  return OL_OK;
}

/* As typed: 1-based, negative from the end. */
static long long as_typed(int64_t index) { return (long long)(index < 0 ? index : index + 1); }

ol_status ol_shape_dim(ol_error *error, const char *op, int64_t dim, int ndim, int *out) {
  int64_t dims = ndim ? ndim : 1;
  if (dim < -dims || dim >= dims)
    return ol_fail(error, OL_RANGE,
                   "%s: dimension %lld is out of range for a tensor of %d dimensions", op,
                   as_typed(dim), ndim);
  *out = (int)(dim < 0 ? dim + dims : dim);
  return OL_OK;
}

ol_status ol_shape_index(ol_error *error, const char *op, int64_t index, int64_t size,
                         int64_t *out) {
  if (index < -size || index >= size)
    return ol_fail(error, OL_RANGE, "%s: position %lld is out of range for a size of %lld", op,
                   as_typed(index), (long long)size);
  *out = index < 0 ? index + size : index;
  return OL_OK;
}

ol_status ol_shape_mask(ol_error *error, const char *op, const ol_shape *dims, int ndim,
                        bool mask[OL_MAX_DIMS]) {
  bool marked[OL_MAX_DIMS] = { false };
  for (int i = 0; i < dims->ndim; i++) {
    int dim = 0;
    OL_TRY(ol_shape_dim(error, op, dims->size[i], ndim, &dim));
    if (marked[dim])
      return ol_fail(error, OL_ARGUMENT, "%s: dimension %d is given twice", op, dim + 1);
    marked[dim] = true;
  }
  for (int d = 0; d < OL_MAX_DIMS; d++) mask[d] = dims->ndim == 0 || marked[d];
  return OL_OK;
}

ol_shape ol_shape_reduce(const ol_shape *shape, const bool mask[OL_MAX_DIMS], bool keep) {
  ol_shape result = { .ndim = 0 };
  for (int d = 0; d < shape->ndim; d++) {
    if (!mask[d])
      result.size[result.ndim++] = shape->size[d];
    else if (keep)
      result.size[result.ndim++] = 1;
  }
  return result;
}

void ol_shape_strides(const ol_shape *shape, int64_t *stride) {
  int64_t step = 1;
  for (int d = shape->ndim - 1; d >= 0; d--) {
    stride[d] = step;
    step *= shape->size[d] ? shape->size[d] : 1;
  }
}
