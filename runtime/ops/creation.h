/* creation: what functions that make tensors share. */
#ifndef OL_OPS_CREATION_H
#define OL_OPS_CREATION_H

#include "autograd/op.h"

/* The value of a dtype parameter, or `otherwise` where it is not given. */
static inline ol_dtype ol_dtype_or(const ol_value *value, ol_dtype otherwise) {
  return value->given ? value->dtype : otherwise;
}

/* A new tensor, not initialised; failures about its shape begin with op. */
ol_status ol_create(ol_error *error, const char *op, ol_dtype dtype, const ol_shape *shape,
                    ol_tensor **out);

/* The parameters that such functions share. */
#define OL_SIZE_PARAM  { "size", OL_SIZES, .doc = "the shape" }
#define OL_DTYPE_PARAM { "dtype", OL_TYPE, .optional = true, .preset = OL_F32 }
#define OL_LIKE_PARAMS                                                                             \
  { "self", OL_TENSOR, .doc = "gives the shape" },                                                 \
      { "dtype", OL_TYPE, .optional = true, .doc = "default: that of self" }

#endif
