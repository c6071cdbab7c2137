/* rng: Philox blocks, and the distributions made of them. */
#include "base/rng.h"

#include <Random123/philox.h>

#include "base/parallel.h"
#include "base/vecmath.h"

void ol_rng_block(uint64_t seed, uint32_t stream, uint64_t block, uint32_t out[4]) {
  philox4x32_key_t key = { { (uint32_t)seed, (uint32_t)(seed >> 32) } };
  philox4x32_ctr_t counter = { { (uint32_t)block, (uint32_t)(block >> 32), stream, 0 } };
  philox4x32_ctr_t result = philox4x32(counter, key);
  for (int i = 0; i < 4; i++) out[i] = result.v[i];
}

/* Many blocks at once: word k of counter i is c[k][i], so that a round is a loop that vectorises.
 */
enum { LANES = 64 };

OL_KERNEL static void one_round(uint32_t *restrict c0, uint32_t *restrict c1, uint32_t *restrict c2,
                                uint32_t *restrict c3, uint32_t key0, uint32_t key1) {
  for (int i = 0; i < LANES; i++) {
    uint64_t p0 = (uint64_t)PHILOX_M4x32_0 * c0[i], p1 = (uint64_t)PHILOX_M4x32_1 * c2[i];
    c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ key0;
    c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ key1;
    c1[i] = (uint32_t)p1;
    c3[i] = (uint32_t)p0;
  }
}

static void encrypt(uint64_t seed, uint32_t stream, uint64_t block, uint32_t c[4][LANES]) {
  uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
  for (int i = 0; i < LANES; i++) {
    c[0][i] = (uint32_t)(block + (uint64_t)i);
    c[1][i] = (uint32_t)((block + (uint64_t)i) >> 32);
    c[2][i] = stream;
    c[3][i] = 0;
  }
  for (int round = 0; round < 10; round++) {
    one_round(c[0], c[1], c[2], c[3], key0, key1);
    key0 += PHILOX_W32_0;
    key1 += PHILOX_W32_1;
  }
}

void ol_rng_blocks(uint64_t seed, uint32_t stream, uint64_t block, int64_t count, uint32_t *out) {
  for (int64_t b = 0; b < count; b += LANES) {
    uint32_t c[4][LANES];
    int64_t rest = count - b < LANES ? count - b : LANES;
    if (rest < 4) { /* few: not worth a batch */
      for (int64_t i = b; i < count; i++)
        ol_rng_block(seed, stream, block + (uint64_t)i, out + 4 * i);
      return;
    }
    encrypt(seed, stream, block + (uint64_t)b, c);
    for (int64_t i = 0; i < rest; i++)
      for (int k = 0; k < 4; k++) out[4 * (b + i) + k] = c[k][i];
  }
}

/* A fill in progress: elements begin … end of `out` are made from blocks of `rng`. */
typedef struct fill {
  ol_rng rng;
  void *out;
  int64_t low;
  uint64_t range;
} fill;

static inline float unit_f32(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }

enum { TILE = 256 }; /* elements that are made at once */

/* The numbers of `count` (up to TILE) blocks from `block` of the fill on. */
static void blocks_of(const fill *f, int64_t block, int64_t count, uint32_t *bits) {
  ol_rng_blocks(f->rng.seed, f->rng.stream, f->rng.position + (uint64_t)block, count, bits);
}

/* Defines a function that fills a range in tiles, of which each takes `per_block` elements from a
 * block: element k is made by `make` of the tile's numbers. */
#define DEFINE_RANGE(name, type, per_block, make)                                                  \
  static void name(int64_t begin, int64_t end, void *context) {                                    \
    const fill *f = context;                                                                       \
    type *out = f->out;                                                                            \
    for (int64_t i = begin; i < end; i += TILE) {                                                  \
      uint32_t bits[TILE / per_block * 4];                                                         \
      int64_t count = end - i < TILE ? end - i : TILE;                                             \
      blocks_of(f, i / per_block, (count + per_block - 1) / per_block, bits);                      \
      for (int64_t k = 0; k < count; k++) out[i + k] = make;                                       \
    }                                                                                              \
  }

/* Four floats a block; two doubles; two integers: 64 random bits scaled to the range by the high
 * half of a product. */
DEFINE_RANGE(uniform_f32, float, 4, unit_f32(bits[k]))
DEFINE_RANGE(uniform_f64, double, 2, ol_rng_unit(bits[2 * k], bits[2 * k + 1]))

static inline uint64_t below(uint64_t range, uint32_t high, uint32_t low) {
  uint64_t random = (uint64_t)high << 32 | low;
  return (uint64_t)((unsigned __int128)random * range >> 64);
}

static inline int64_t scaled(const fill *f, uint32_t high, uint32_t low) {
  return (int64_t)((uint64_t)f->low + below(f->range, high, low));
}
DEFINE_RANGE(integers, int64_t, 2, scaled(f, bits[2 * k], bits[2 * k + 1]))

static void run(ol_rng *rng, fill f, int64_t count, int64_t per_block, ol_range_fn *fn) {
  f.rng = *rng;
  ol_parallel_for(count, OL_GRAIN, fn, &f);
  rng->position += (uint64_t)((count + per_block - 1) / per_block);
}

void ol_rng_uniform_f32(ol_rng *rng, float *out, int64_t count) {
  run(rng, (fill){ .out = out }, count, 4, uniform_f32);
}

void ol_rng_uniform_f64(ol_rng *rng, double *out, int64_t count) {
  run(rng, (fill){ .out = out }, count, 2, uniform_f64);
}

void ol_rng_integers(ol_rng *rng, int64_t low, int64_t high, int64_t *out, int64_t count) {
  uint64_t range = (uint64_t)high - (uint64_t)low;
  run(rng, (fill){ .out = out, .low = low, .range = range }, count, 2, integers);
}

/* Normals come in pairs from pairs of uniforms: radius sqrt(-2 log(1-u)), angle 2 pi v. They are
 * computed in double tiles, for both widths, so that float and double agree to rounding. */
static void normal_tile(const fill *f, int64_t pair, int64_t pairs, double *cosines,
                        double *sines) {
  double radius[TILE], angle[TILE];
  uint32_t bits[4 * TILE];
  blocks_of(f, pair, pairs, bits);
  for (int64_t i = 0; i < pairs; i++) {
    radius[i] = 1.0 - ol_rng_unit(bits[4 * i], bits[4 * i + 1]);
    angle[i] = 6.283185307179586 * ol_rng_unit(bits[4 * i + 2], bits[4 * i + 3]);
  }
  ol_vlog_f64(pairs, radius, radius);
  ol_vcos_f64(pairs, angle, cosines);
  ol_vsin_f64(pairs, angle, sines);
  for (int64_t i = 0; i < pairs; i++) {
    double r = __builtin_sqrt(-2.0 * radius[i]);
    cosines[i] *= r;
    sines[i] *= r;
  }
}

#define NORMAL_RANGE(suffix, type)                                                                 \
  static void normal_##suffix(int64_t begin, int64_t end, void *context) {                         \
    fill *f = context;                                                                             \
    type *out = f->out;                                                                            \
    double pair[2][TILE];                                                                          \
    for (int64_t i = begin; i < end; i += 2 * TILE) {                                              \
      int64_t count = end - i < 2 * TILE ? end - i : 2 * TILE;                                     \
      normal_tile(f, i / 2, (count + 1) / 2, pair[0], pair[1]);                                    \
      for (int64_t k = 0; k < count; k++) out[i + k] = (type)pair[k % 2][k / 2];                   \
    }                                                                                              \
  }
NORMAL_RANGE(f32, float)
NORMAL_RANGE(f64, double)

void ol_rng_normal_f32(ol_rng *rng, float *out, int64_t count) {
  run(rng, (fill){ .out = out }, count, 2, normal_f32);
}

void ol_rng_normal_f64(ol_rng *rng, double *out, int64_t count) {
  run(rng, (fill){ .out = out }, count, 2, normal_f64);
}

/* A block for each exchange. */
void ol_rng_shuffle(ol_rng *rng, int64_t *items, int64_t count) {
  uint32_t bits[4 * TILE];
  for (int64_t i = count - 1; i > 0;) {
    int64_t draws = i < TILE ? i : TILE;
    ol_rng_blocks(rng->seed, rng->stream, rng->position, draws, bits);
    rng->position += (uint64_t)draws;
    for (int64_t d = 0; d < draws; d++, i--) {
      uint64_t k = below((uint64_t)i + 1, bits[4 * d], bits[4 * d + 1]);
      int64_t item = items[i];
      items[i] = items[k];
      items[k] = item;
    }
  }
}
