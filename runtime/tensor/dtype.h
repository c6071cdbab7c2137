/* dtype: the element types.
 *
 * float32 and float64 compute. int64 and uint8 are data: labels, token ids, masks. bfloat16 only
 * stores: it is copied, viewed and converted. */
#ifndef OL_TENSOR_DTYPE_H
#define OL_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum ol_dtype { OL_U8, OL_I64, OL_BF16, OL_F32, OL_F64, OL_DTYPES } ol_dtype;

typedef uint16_t ol_bf16; /* the upper half of a float */

/* Bytes of an element. */
static inline size_t ol_dtype_size(ol_dtype dtype) {
  static const unsigned char size[] = {
    [OL_U8] = 1, [OL_I64] = 8, [OL_BF16] = 2, [OL_F32] = 4, [OL_F64] = 8
  };
  return size[dtype];
}

/* "float32", "int64" … */
const char *ol_dtype_name(ol_dtype dtype);

/* Finds a dtype by name; false when there is none. */
bool ol_dtype_parse(const char *name, ol_dtype *out);

/* Whether elements are fractions: bfloat16, float32, float64. */
static inline bool ol_dtype_is_float(ol_dtype dtype) { return dtype >= OL_BF16; }

/* Whether arithmetic on fractions is defined: float32, float64. */
static inline bool ol_dtype_computes(ol_dtype dtype) { return dtype >= OL_F32; }

/* The dtype of a result of operands a and b: the wider float, else the wider integer. */
static inline ol_dtype ol_dtype_promote(ol_dtype a, ol_dtype b) { return a > b ? a : b; }

static inline float ol_bf16_to_f32(ol_bf16 x) {
  uint32_t bits = (uint32_t)x << 16;
  float y;
  memcpy(&y, &bits, sizeof y);
  return y;
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline ol_bf16 ol_bf16_from_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = x != x ? bits | 0x400000 : bits + (0x7fff + (bits >> 16 & 1));
  return (ol_bf16)(bits >> 16);
}

#endif
