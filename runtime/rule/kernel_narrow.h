/* kernel_narrow: arrays of bfloat16 that round stochastically, and of codes (narrow.h); part of the
 * template kernel_body.h. */

TARGET static void NAME(store_at_random)(int n, ol_bf16 *to, const T *x, uint32_t counter) {
  EACH(n, to[k] = ol_bf16_at_random((float)x[k], counter + (uint32_t)k * OL_WEYL));
}

/* Stores n elements from a place in the run on: those of each tensor with its own noise. */
TARGET static void NAME(store_parts)(int n, ol_bf16 *to, const T *x, const ol_work *work,
                                     uint64_t salt, int64_t place) {
  const ol_noise_part *part = ol_noise_at(work->noise, work->noise_parts, place);
  const ol_noise_part *last = work->noise + work->noise_parts - 1;
  for (int done = 0, length; done < n; done += length, part++) {
    int64_t left = part < last ? part[1].begin - (place + done) : n - done;
    length = left < n - done ? (int)left : n - done;
    NAME(store_at_random)
    (length, to + done, x + done, ol_noise_counter(part->key + salt, place + done - part->begin));
  }
}

/* Codes of one block. */
TARGET static void NAME(decode)(int n, T *out, const uint8_t *codes, float scale, bool positive) {
  const float unit = ol_code_unit(scale, positive);
  if (positive)
    EACH(n, out[k] = (T)ol_code_value_positive(codes[k], unit));
  else
    EACH(n, out[k] = (T)ol_code_value_signed(codes[k], unit));
}

/* Elements place … place+n of an array of count elements: block after block. */
TARGET static void NAME(load_codes)(int n, T *out, const void *from, int packing, int64_t count,
                                    int64_t place) {
  const uint8_t *codes = from;
  const float *scales = (const float *)(codes + ol_codes_scales(count));
  for (int done = 0, length; done < n; done += length, place += length) {
    int left = OL_CODES_BLOCK - (int)(place % OL_CODES_BLOCK);
    length = left < n - done ? left : n - done;
    NAME(decode)(length, out + done, codes + place, scales[place / OL_CODES_BLOCK],
                 packing & OL_PACK_POSITIVE);
  }
}

/* The bits of the largest magnitude; as signed integers, which all instruction sets compare. */
TARGET static uint32_t NAME(peak)(int n, const float *x) {
  int32_t largest = 0;
  for (int k = 0; k < n; k++) {
    int32_t bits = (int32_t)(ol_bits_of(x[k]) & 0x7fffffff);
    largest = bits > largest ? bits : largest;
  }
  return (uint32_t)largest;
}

TARGET static void NAME(encode)(int n, uint8_t *codes, const float *x, float factor, int packing,
                                uint32_t counter) {
  const uint32_t half = UINT32_C(1) << (OL_CODE_SHIFT - 1);
#define NOISE ol_noise(counter + (uint32_t)k * OL_WEYL, OL_CODE_SHIFT)
  switch (packing & (OL_PACK_POSITIVE | OL_PACK_RANDOM)) {
  case 0: EACH(n, codes[k] = ol_code_signed(x[k], factor, half)); break;
  case OL_PACK_POSITIVE: EACH(n, codes[k] = ol_code_positive(x[k], factor, half)); break;
  case OL_PACK_RANDOM: EACH(n, codes[k] = ol_code_signed(x[k], factor, NOISE)); break;
  default: EACH(n, codes[k] = ol_code_positive(x[k], factor, NOISE));
  }
#undef NOISE
}

/* Stores the block, or the last piece of an array, that begins at a place. */
TARGET static void NAME(store_codes)(int n, void *to, const T *x, int packing, const ol_work *work,
                                     uint64_t salt, int64_t place) {
  uint8_t *codes = to;
  float *scale = (float *)(codes + ol_codes_scales(work->count)) + place / OL_CODES_BLOCK;
  const bool random = packing & OL_PACK_RANDOM;
  const uint32_t counter = random ? ol_noise_counter(work->noise->key + salt, place) : 0;
  float block[TILE];
  EACH(n, block[k] = (float)x[k]);
  *scale = ol_code_scale(NAME(peak)(n, block));
  NAME(encode)(n, codes + place, block, ol_code_factor(*scale, packing & OL_PACK_POSITIVE), packing,
               counter);
}
