/* narrow: how states are stored in fewer bits than they are computed with.
 *
 * Stochastic rounding. Noise is added below the bits that stay, and what is below them is cut: the
 * result is right on average, where rounding to nearest would keep a second moment where it is
 * because it shrinks by less than half a step. The noise of an element depends on a key and on the
 * element's place in its tensor alone: a counter that steps by the golden ratio (Weyl), mixed by
 * one xor-shift and one product.
 *
 * Codes of 8 bits (cf. Dettmers et al., 2022, "8-bit optimizers via block-wise quantization", with
 * a code that needs no table). An array is cut into blocks of 256 elements. With the block's
 * largest magnitude scaled to `top`, the code of x is the top bits of float(|x| + 1) - float(1): a
 * step of 1/8 from 0 to 1, eight steps for each octave above. Codes have a sign and 7 bits, which
 * span 16 octaves; those of states that are never negative have 8 bits, which span 32. There the
 * code 0 is for 0 alone: what is smaller than a step is stored as one, because a divisor must not
 * vanish.
 *
 * In memory the codes stand first, in order; then, from ol_codes_scales on, the largest magnitude
 * of each block as float. An infinity is stored as the largest scale, so that it does not spoil its
 * neighbours; a block with a NaN is NaN as a whole. */
#ifndef OL_RULE_NARROW_H
#define OL_RULE_NARROW_H

#include <math.h>
#include <stdbool.h>

#include "base/memory.h"
#include "tensor/dtype.h"

/* How an array is packed beside its dtype: flags. */
enum {
  OL_PACK_CODES = 1,    /* the dtype is uint8: codes, then scales */
  OL_PACK_POSITIVE = 2, /* codes without a sign */
  OL_PACK_RANDOM = 4,   /* bfloat16 and codes round stochastically */
};

#define OL_CODES_BLOCK 256

enum { OL_CODE_SHIFT = 20, OL_BITS_OF_ONE = 0x3f800000 };

/* Layout. */

static inline int64_t ol_codes_blocks(int64_t count) {
  return (count + OL_CODES_BLOCK - 1) / OL_CODES_BLOCK;
}

/* Where the scales of an array of codes begin, in bytes. */
static inline size_t ol_codes_scales(int64_t count) {
  return ((size_t)count + OL_ALIGNMENT - 1) / OL_ALIGNMENT * OL_ALIGNMENT;
}

/* Bytes of an array of codes with its scales. */
static inline size_t ol_codes_size(int64_t count) {
  return ol_codes_scales(count) + sizeof(float) * (size_t)ol_codes_blocks(count);
}

/* Noise. */

/* Mixes 64 bits (the finalizer of SplitMix64; Steele et al., 2014). */
static inline uint64_t ol_mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* A number for a name, to be mixed into keys (FNV-1a; Fowler, Noll & Vo). */
static inline uint64_t ol_name_key(const char *name) {
  uint64_t key = 0xcbf29ce484222325u;
  for (; *name; name++) key = (key ^ (unsigned char)*name) * 0x100000001b3u;
  return key;
}

#define OL_WEYL 0x9e3779b9u /* 2^32 over the golden ratio */

/* The counter of a place; the next ones, up to a multiple of 2^32, are OL_WEYL apart. */
static inline uint32_t ol_noise_counter(uint64_t key, int64_t place) {
  return (uint32_t)ol_mix(key + ((uint64_t)place >> 32)) + (uint32_t)place * OL_WEYL;
}

#define OL_NOISE_FACTOR 0x7feb352du

/* 32 random bits; the upper ones are the better ones. */
static inline uint32_t ol_noise(uint32_t counter) {
  return (counter ^ counter >> 16) * OL_NOISE_FACTOR;
}

static inline uint32_t ol_bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float ol_float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* bfloat16 takes 16 random bits: two elements share a word of noise. Of 32 elements in a row, the
 * first 16 have the upper halves of 16 words, the others the lower halves. */
enum { OL_NOISE_ROW = 32 };

/* The place of the word for an element. */
static inline int64_t ol_noise_word(int64_t place) {
  return place / OL_NOISE_ROW * (OL_NOISE_ROW / 2) + place % (OL_NOISE_ROW / 2);
}

/* Rounds the element at a place stochastically to bfloat16, with its word of noise; what fits is
 * kept, NaN stays NaN. */
static inline ol_bf16 ol_bf16_at_random(float x, uint32_t word, int64_t place) {
  uint32_t bits = ol_bits_of(x), noise = place & OL_NOISE_ROW / 2 ? word & 0xffff : word >> 16;
  bits = x != x ? bits | 0x400000 : bits + noise;
  return (ol_bf16)(bits >> 16);
}

/* Codes. */

static inline uint32_t ol_code_most(bool positive) { return positive ? 255 : 127; }

/* The scaled magnitude of the highest code. */
static inline float ol_code_top(bool positive) {
  return ol_float_of(OL_BITS_OF_ONE + (ol_code_most(positive) << OL_CODE_SHIFT)) - 1.0f;
}

/* What is stored as the scale of a block, from the bits of its largest magnitude. Very small ones
 * are raised, for their factor would not be finite; and what is as good as infinite is lowered, for
 * the highest code would not be. */
static inline float ol_code_scale(uint32_t largest) {
  const float lowest = 0x1p-90f, highest = 0x1.fffff0p127f;
  float x = ol_float_of(largest);
  if (x != x) return NAN;
  if (x > highest) return highest;
  return largest > 0 && x < lowest ? lowest : x;
}

/* What elements are multiplied with before they become codes. */
static inline float ol_code_factor(float scale, bool positive) {
  return scale > 0 ? ol_code_top(positive) / scale : 0.0f;
}

/* What codes are worth: the value of code 0.125 steps … 1. */
static inline float ol_code_unit(float scale, bool positive) {
  return scale * (1.0f / ol_code_top(positive));
}

/* The noise of codes. */
static inline uint32_t ol_code_noise(uint32_t counter) {
  return ol_noise(counter) >> (32 - OL_CODE_SHIFT);
}

/* The magnitude of x as a code. noise: OL_CODE_SHIFT random bits, or half of them. */
static inline uint32_t ol_code_magnitude(float x, float factor, uint32_t noise, bool positive) {
  float scaled = ol_float_of(ol_bits_of(x) & 0x7fffffff) * factor + 1.0f;
  uint32_t steps = (ol_bits_of(scaled) & 0x7fffffff) - OL_BITS_OF_ONE;
  uint32_t code = (steps + noise) >> OL_CODE_SHIFT;
  return code < ol_code_most(positive) ? code : ol_code_most(positive);
}

static inline uint8_t ol_code_signed(float x, float factor, uint32_t noise) {
  return (uint8_t)(ol_bits_of(x) >> 31 << 7 | ol_code_magnitude(x, factor, noise, false));
}

static inline uint8_t ol_code_positive(float x, float factor, uint32_t noise) {
  uint32_t code = ol_code_magnitude(x, factor, noise, true);
  return (uint8_t)(code | (uint32_t)((code == 0) & (x != 0)));
}

static inline float ol_code_value_signed(uint32_t code, float unit) {
  float y = ol_float_of(OL_BITS_OF_ONE + ((code & 127) << OL_CODE_SHIFT)) - 1.0f;
  return ol_float_of(ol_bits_of(y * unit) ^ (code >> 7 << 31));
}

static inline float ol_code_value_positive(uint32_t code, float unit) {
  return (ol_float_of(OL_BITS_OF_ONE + (code << OL_CODE_SHIFT)) - 1.0f) * unit;
}

/* One element after the other; the machine does the same faster. */

/* Stores a block of n elements, the one that begins at `place`, in an array of count elements.
 * packing: flags; key: of the noise. */
void ol_codes_store(const float *x, int n, void *to, int64_t count, int64_t place, int packing,
                    uint64_t key);

/* The element at a place of an array of count elements. */
float ol_codes_load(const void *from, int64_t count, int packing, int64_t place);

#endif
