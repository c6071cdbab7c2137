/* element: the table of types, and the bits of integers and small floats. */
#include "io/element.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define HELD(type) .held = true, .dtype = (type)
#define SIGNED     .kind = OL_ELEMENT_SIGNED
#define UNSIGNED   .kind = OL_ELEMENT_UNSIGNED
#define FLOAT(exponent_bits, mantissa_bits, its_bias)                                              \
  .kind = OL_ELEMENT_FLOAT, .exponent = (exponent_bits), .mantissa = (mantissa_bits),              \
  .bias = (its_bias)

/* The order is that of safetensors' own list. F8_E5M2, F8_E4M3: OCP 8-bit Floating Point
 * Specification 1.0; F8_E8M0: OCP Microscaling Formats 1.0; FNUZ: arXiv:2206.02915. */
const ol_element ol_elements[] = {
  { "BOOL", 8, UNSIGNED, HELD(OL_U8) },
  { "F4", 4 },
  { "F6_E2M3", 6 },
  { "F6_E3M2", 6 },
  { "U8", 8, UNSIGNED, HELD(OL_U8) },
  { "I8", 8, SIGNED },
  { "F8_E5M2", 8, FLOAT(5, 2, 15) },
  { "F8_E4M3", 8, FLOAT(4, 3, 7), .top = OL_TOP_NAN },
  { "F8_E8M0", 8, FLOAT(8, 0, 127), .top = OL_TOP_NAN },
  { "F8_E4M3FNUZ", 8, FLOAT(4, 3, 8), .top = OL_TOP_FNUZ },
  { "F8_E5M2FNUZ", 8, FLOAT(5, 2, 16), .top = OL_TOP_FNUZ },
  { "I16", 16, SIGNED },
  { "U16", 16, UNSIGNED },
  { "F16", 16, FLOAT(5, 10, 15) },
  { "BF16", 16, FLOAT(8, 7, 127), HELD(OL_BF16) },
  { "I32", 32, SIGNED },
  { "U32", 32, UNSIGNED },
  { "F32", 32, FLOAT(8, 23, 127), HELD(OL_F32) },
  { "C64", 64 },
  { "F64", 64, FLOAT(11, 52, 1023), HELD(OL_F64) },
  { "I64", 64, SIGNED, HELD(OL_I64) },
  { "U64", 64, UNSIGNED },
};
const int ol_element_count = sizeof ol_elements / sizeof *ol_elements;

const ol_element *ol_element_find(const char *name) {
  for (int i = 0; i < ol_element_count; i++)
    if (strcmp(ol_elements[i].name, name) == 0) return &ol_elements[i];
  return NULL;
}

const ol_element *ol_element_of(ol_dtype dtype) {
  int i = ol_element_count - 1;
  while (!ol_elements[i].held || ol_elements[i].dtype != dtype) i--;
  return &ol_elements[i];
}

bool ol_element_converts(const ol_element *element, ol_dtype dtype) {
  if (element->held && element->dtype == dtype) return true;
  if (element->kind == OL_ELEMENT_FLOAT) return ol_dtype_is_float(dtype);
  return element->kind != OL_ELEMENT_OPAQUE && dtype != OL_U8;
}

static uint64_t raw_bits(const uint8_t *bytes, size_t size) {
  uint64_t bits = 0;
  for (size_t i = 0; i < size; i++) bits |= (uint64_t)bytes[i] << 8 * i;
  return bits;
}

static int64_t integer_of(uint64_t bits, const ol_element *e) {
  int unused = 64 - e->bits;
  return e->kind == OL_ELEMENT_SIGNED ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

/* 2 ^ exponent, where that is a normal double, with the leading bits of a fraction. */
static double scaled(int exponent, uint64_t fraction) {
  uint64_t bits = (uint64_t)(exponent + 1023) << 52 | fraction;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static bool is_nan(uint64_t bits, uint64_t top, uint64_t fraction, const ol_element *e) {
  if (e->top == OL_TOP_FNUZ) return bits == UINT64_C(1) << (e->bits - 1);
  if (top != (UINT64_C(1) << e->exponent) - 1) return false;
  return e->top == OL_TOP_IEEE ? fraction != 0 : fraction == (UINT64_C(1) << e->mantissa) - 1;
}

/* Of floats of fewer than 64 bits. */
static double float_of(uint64_t bits, const ol_element *e) {
  bool has_sign = e->exponent + e->mantissa < e->bits;
  uint64_t fraction = bits & ((UINT64_C(1) << e->mantissa) - 1);
  uint64_t exponent = bits >> e->mantissa & ((UINT64_C(1) << e->exponent) - 1);
  double value;
  if (is_nan(bits, exponent, fraction, e)) return NAN;
  if (e->top == OL_TOP_IEEE && exponent == (UINT64_C(1) << e->exponent) - 1)
    value = INFINITY;
  else if (exponent == 0 && has_sign) /* zero and subnormal numbers */
    value = (double)fraction * scaled(1 - e->bias - e->mantissa, 0);
  else
    value = scaled((int)exponent - e->bias, fraction << (52 - e->mantissa));
  return has_sign && bits >> (e->bits - 1) ? -value : value;
}

/* What lies at the end of `out` is read before the place of a later one is written. */
ol_status ol_element_widen(ol_error *error, const ol_element *e, const void *packed, int64_t count,
                           void *out) {
  size_t size = (size_t)e->bits / 8;
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = raw_bits((const uint8_t *)packed + (size_t)i * size, size);
    if (e->kind == OL_ELEMENT_UNSIGNED && bits > INT64_MAX)
      return ol_fail(error, OL_RANGE, "%" PRIu64 " is larger than the largest int64", bits);
    if (e->kind != OL_ELEMENT_FLOAT)
      ((int64_t *)out)[i] = integer_of(bits, e);
    else if (e->bits == 64)
      memcpy((double *)out + i, &bits, sizeof bits);
    else
      ((double *)out)[i] = float_of(bits, e);
  }
  return OL_OK;
}
