/* tensor: a shape and strides over a storage. */
#ifndef OL_TENSOR_TENSOR_H
#define OL_TENSOR_TENSOR_H

#include "base/object.h"
#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

typedef struct ol_tensor ol_tensor;

/* What a step of an optimizer reads of each of thousands of parameters stands first. */
struct ol_tensor {
  ol_object object;
  ol_storage *storage;
  int64_t offset; /* of the first element, in elements */
  int64_t numel;
  ol_tensor *grad; /* gradients; the tape (autograd/) keeps these, and what follows output */
  ol_dtype dtype;
  bool requires_grad; /* a leaf that wants a gradient, or the output of a recorded op */
  bool has_grad;      /* whether grad holds a gradient, or is only kept memory */

  ol_shape shape;
  int64_t stride[OL_MAX_DIMS]; /* in elements; 0 where expanded; never negative */
  int output;                  /* which output of node this is */
  ol_object *node;             /* the recorded op that made this tensor, or NULL: a leaf */
  ol_tensor *pending;          /* of a leaf, during backward: the sum of its contributions so far */
  int64_t awaited;  /* of a leaf, during backward: contributions that are still to come */
  uint64_t visit;   /* of a leaf, during backward: the number of the walk; else 0 */
  ol_object *hook;  /* of a leaf: an ol_hook */
  ol_object *taker; /* of a leaf: an ol_taker, which has its gradients; borrowed */
  int64_t seat;     /* of a leaf: what its taker notes of it, and nobody else reads */
};

/* Makes a contiguous tensor; its elements are not initialised. */
ol_status ol_tensor_new(ol_error *error, ol_dtype dtype, const ol_shape *shape, ol_tensor **out);

/* As ol_tensor_new, filled with zeros. */
ol_status ol_tensor_zeros(ol_error *error, ol_dtype dtype, const ol_shape *shape, ol_tensor **out);

/* Makes a view: another shape, strides and offset over the storage of base. Checks that it stays
 * inside the storage. The view has no history. */
ol_status ol_tensor_view(ol_error *error, const ol_tensor *base, const ol_shape *shape,
                         const int64_t *stride, int64_t offset, ol_tensor **out);

/* Makes a tensor that looks at the same elements without history. */
ol_status ol_tensor_alias(ol_error *error, const ol_tensor *base, ol_tensor **out);

/* Whether elements follow each other in row-major order without gaps. */
bool ol_tensor_is_contiguous(const ol_tensor *tensor);

/* A contiguous tensor with the same elements: itself, with a reference more, or a copy. */
ol_status ol_tensor_contiguous(ol_error *error, ol_tensor *tensor, ol_tensor **out);

/* A contiguous copy. */
ol_status ol_tensor_clone(ol_error *error, const ol_tensor *tensor, ol_tensor **out);

/* A copy converted to dtype, contiguous. Floats become integers by truncation; bfloat16 rounds to
 * nearest. */
ol_status ol_tensor_convert(ol_error *error, const ol_tensor *tensor, ol_dtype dtype,
                            ol_tensor **out);

/* Copies source's elements into target, converting and broadcasting; overlapping memory is
 * handled as if source had been copied first. Bumps target's version. */
ol_status ol_tensor_copy(ol_error *error, ol_tensor *target, const ol_tensor *source);

/* Sets every element (converted as a C cast does). Bumps the version. */
ol_status ol_tensor_fill(ol_error *error, ol_tensor *tensor, double value);

/* The address of the first element. */
static inline void *ol_tensor_data(const ol_tensor *tensor) {
  return (char *)tensor->storage->data + tensor->offset * (int64_t)ol_dtype_size(tensor->dtype);
}

/* The storage changed in place. */
static inline void ol_tensor_touch(ol_tensor *tensor) { tensor->storage->version++; }

/* Whether two elements of different positions may share memory (an expanded tensor). */
bool ol_tensor_overlaps_itself(const ol_tensor *tensor);

/* One element by linear row-major position, as double or integer; slow, for printing and tests. */
double ol_tensor_get(const ol_tensor *tensor, int64_t position);
int64_t ol_tensor_get_integer(const ol_tensor *tensor, int64_t position);
void ol_tensor_set(ol_tensor *tensor, int64_t position, double value);
void ol_tensor_set_integer(ol_tensor *tensor, int64_t position, int64_t value);

#endif
