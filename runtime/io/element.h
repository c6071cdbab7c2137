/* element: the types of elements that files hold, which are more than tensors have. */
#ifndef OL_IO_ELEMENT_H
#define OL_IO_ELEMENT_H

#include "tensor/tensor.h"

typedef enum ol_element_kind {
  OL_ELEMENT_OPAQUE, /* known by name and size only */
  OL_ELEMENT_UNSIGNED,
  OL_ELEMENT_SIGNED,
  OL_ELEMENT_FLOAT,
} ol_element_kind;

/* What the largest exponent of a float means. */
typedef enum ol_element_top {
  OL_TOP_IEEE, /* infinity where the mantissa is 0, else NaN */
  OL_TOP_NAN,  /* a number, but NaN where the mantissa is all ones (no infinity) */
  OL_TOP_FNUZ, /* a number; NaN is what would be -0 */
} ol_element_top;

/* A type of elements, by the name that safetensors gives it. */
typedef struct ol_element {
  const char *name;
  int bits; /* of one element */
  ol_element_kind kind;
  bool held;                    /* tensors hold it as it is */
  ol_dtype dtype;               /* which one they are */
  int exponent, mantissa, bias; /* of a float: bits; no sign where they fill it */
  ol_element_top top;
} ol_element;

/* All of them, in the order in which safetensors sorts: what comes later is written first. */
extern const ol_element ol_elements[];
extern const int ol_element_count;

/* The element of a name, or NULL. */
const ol_element *ol_element_find(const char *name);

/* The element that a dtype is stored as. */
const ol_element *ol_element_of(ol_dtype dtype);

/* Whether values of the type can become a dtype: floats a float, integers int64 or a float. */
bool ol_element_converts(const ol_element *element, ol_dtype dtype);

/* Widens `count` packed elements to int64 (integers) or double (floats), exactly. The packed ones
 * may lie at the end of `out`. Unsigned integers of 64 bits above the largest int64 fail. */
ol_status ol_element_widen(ol_error *error, const ol_element *element, const void *packed,
                           int64_t count, void *out);

#endif
