/* narrow: arrays of codes, element by element. */
#include "rule/narrow.h"

static uint32_t largest_of(const float *x, int n) {
  uint32_t largest = 0;
  for (int k = 0; k < n; k++) {
    uint32_t bits = ol_bits_of(x[k]) & 0x7fffffff;
    if (bits > largest) largest = bits;
  }
  return largest;
}

static uint8_t code_of(float x, float factor, int packing, uint64_t key, int64_t place) {
  uint32_t noise = UINT32_C(1) << (OL_CODE_SHIFT - 1);
  if (packing & OL_PACK_RANDOM) noise = ol_code_noise(ol_noise_counter(key, place));
  return packing & OL_PACK_POSITIVE ? ol_code_positive(x, factor, noise)
                                    : ol_code_signed(x, factor, noise);
}

void ol_codes_store(const float *x, int n, void *to, int64_t count, int64_t place, int packing,
                    uint64_t key) {
  uint8_t *codes = to;
  float *scale = (float *)(codes + ol_codes_scales(count)) + place / OL_CODES_BLOCK;
  *scale = ol_code_scale(largest_of(x, n));
  float factor = ol_code_factor(*scale, packing & OL_PACK_POSITIVE);
  const bool nan = *scale != *scale; /* as a whole, whatever its codes */
  for (int k = 0; k < n; k++)
    codes[place + k] = code_of(nan ? 0 : x[k], factor, packing, key, place + k);
}

float ol_codes_load(const void *from, int64_t count, int packing, int64_t place) {
  const uint8_t *codes = from;
  const float *scales = (const float *)(codes + ol_codes_scales(count));
  bool positive = packing & OL_PACK_POSITIVE;
  float unit = ol_code_unit(scales[place / OL_CODES_BLOCK], positive);
  return positive ? ol_code_value_positive(codes[place], unit)
                  : ol_code_value_signed(codes[place], unit);
}
