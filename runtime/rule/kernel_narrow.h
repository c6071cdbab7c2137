/* kernel_narrow: arrays of bfloat16 that round stochastically, and of codes (narrow.h); part of the
 * template kernel_body.h. */

/* Vectors of an instruction set: words, their halves, and the upper halves of two of them. */

typedef uint32_t NAME(words) __attribute__((vector_size(VECTOR)));
typedef uint16_t NAME(halves) __attribute__((vector_size(VECTOR)));
typedef float NAME(floats) __attribute__((vector_size(VECTOR)));

enum { NAME(WORDS) = VECTOR / sizeof(uint32_t), NAME(ROW) = OL_NOISE_ROW / NAME(WORDS) };

#define UPPER_8(i)  (i) + 1, (i) + 3, (i) + 5, (i) + 7, (i) + 9, (i) + 11, (i) + 13, (i) + 15
#define UPPER_16(i) UPPER_8(i), UPPER_8((i) + 16)
#if VECTOR == 16
#define UPPER UPPER_8(0)
#elif VECTOR == 32
#define UPPER UPPER_16(0)
#else
#define UPPER UPPER_16(0), UPPER_16(32)
#endif

/* Adds noise to floats. */
TARGET static inline NAME(words) NAME(shaken)(const float *x, NAME(words) noise) {
  NAME(floats) value;
  memcpy(&value, x, sizeof value);
  const NAME(words) bits = (NAME(words))value, nan = (NAME(words))(value != value);
  return (nan & (bits | 0x400000)) | (~nan & (bits + noise));
}

/* Whole rows of elements that share words of noise; counters: of the first words. */
TARGET static void NAME(store_rows)(int rows, ol_bf16 *to, const float *x, uint32_t counter) {
  NAME(words) counters, bits[NAME(ROW)];
  for (int k = 0; k < NAME(WORDS); k++) counters[k] = counter + (uint32_t)k * OL_WEYL;
  for (; rows > 0; rows--, to += OL_NOISE_ROW, x += OL_NOISE_ROW) {
    _Pragma("GCC unroll 8") for (int i = 0; i < NAME(ROW) / 2; i++) {
      const NAME(words) noise = (counters ^ counters >> 16) * OL_NOISE_FACTOR;
      const float *second = x + OL_NOISE_ROW / 2;
      counters += (uint32_t)NAME(WORDS) * OL_WEYL;
      bits[i] = NAME(shaken)(x + i * NAME(WORDS), noise >> 16);
      bits[i + NAME(ROW) / 2] = NAME(shaken)(second + i * NAME(WORDS), noise & 0xffff);
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < NAME(ROW); i += 2) {
      const NAME(halves) out =
          __builtin_shufflevector((NAME(halves))bits[i], (NAME(halves))bits[i + 1], UPPER);
      memcpy(to + i * NAME(WORDS), &out, sizeof out);
    }
  }
}

#undef UPPER
#undef UPPER_16
#undef UPPER_8

/* A piece of a row: elements place … place+n of a tensor. */
TARGET static void NAME(store_piece)(int n, ol_bf16 *to, const float *x, uint64_t key,
                                     int64_t place) {
  float row[OL_NOISE_ROW] = { 0 };
  ol_bf16 out[OL_NOISE_ROW];
  const int64_t before = place % OL_NOISE_ROW;
  if (n == 0) return;
  memcpy(row + before, x, (size_t)n * sizeof *x);
  NAME(store_rows)(1, out, row, ol_noise_counter(key, ol_noise_word(place - before)));
  memcpy(to, out + before, (size_t)n * sizeof *to);
}

TARGET static void NAME(store_at_random)(int n, ol_bf16 *to, const T *from, uint64_t key,
                                         int64_t place) {
  float line[TILE];
  const float *x = sizeof(T) == sizeof(float) ? (const float *)from : line;
  if (sizeof(T) != sizeof(float)) EACH(n, line[k] = (float)from[k]);
  int first = (int)(-place & (OL_NOISE_ROW - 1));
  if (first > n) first = n;
  int rows = (n - first) / OL_NOISE_ROW, last = first + rows * OL_NOISE_ROW;
  NAME(store_piece)(first, to, x, key, place);
  NAME(store_rows)
  (rows, to + first, x + first, ol_noise_counter(key, ol_noise_word(place + first)));
  NAME(store_piece)(n - last, to + last, x + last, key, place + last);
}

/* Stores n elements from a place in the run on: those of each tensor with its own noise. *at is the
 * part of an earlier place, or NULL; then that of this one. */
TARGET static void NAME(store_parts)(int n, ol_bf16 *to, const T *x, const ol_work *work,
                                     uint64_t salt, int64_t place, const ol_noise_part **at) {
  const ol_noise_part *last = work->noise + work->noise_parts - 1;
  if (!*at) *at = ol_noise_at(work->noise, work->noise_parts, place);
  while (*at < last && (*at)[1].begin <= place) ++*at;
  const ol_noise_part *part = *at;
  for (int done = 0, length; done < n; done += length, part++) {
    int64_t left = part < last ? part[1].begin - (place + done) : n - done;
    length = left < n - done ? (int)left : n - done;
    NAME(store_at_random)
    (length, to + done, x + done, part->key + salt, place + done - part->begin);
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
#define NOISE ol_code_noise(counter + (uint32_t)k * OL_WEYL)
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
  if (*scale != *scale) memset(block, 0, sizeof block); /* NaN as a whole, whatever its codes */
  NAME(encode)(n, codes + place, block, ol_code_factor(*scale, packing & OL_PACK_POSITIVE), packing,
               counter);
}
