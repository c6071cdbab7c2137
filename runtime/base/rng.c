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

/* A fill in progress: elements begin … end of `out` are made from blocks of `rng`. */
typedef struct fill {
  ol_rng rng;
  void *out;
  int64_t low;
  uint64_t range;
} fill;

static inline float unit_f32(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }

static inline double unit_f64(uint32_t high, uint32_t low) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

static inline void block_of(const fill *f, int64_t block, uint32_t bits[4]) {
  ol_rng_block(f->rng.seed, f->rng.stream, f->rng.position + (uint64_t)block, bits);
}

/* Four floats a block. */
static void uniform_f32(int64_t begin, int64_t end, void *context) {
  fill *f = context;
  float *out = f->out;
  for (int64_t i = begin; i < end; i += 4) {
    uint32_t bits[4];
    block_of(f, i / 4, bits);
    for (int64_t k = i; k < end && k < i + 4; k++) out[k] = unit_f32(bits[k - i]);
  }
}

/* Two doubles a block. */
static void uniform_f64(int64_t begin, int64_t end, void *context) {
  fill *f = context;
  double *out = f->out;
  for (int64_t i = begin; i < end; i += 2) {
    uint32_t bits[4];
    block_of(f, i / 2, bits);
    out[i] = unit_f64(bits[0], bits[1]);
    if (i + 1 < end) out[i + 1] = unit_f64(bits[2], bits[3]);
  }
}

/* Two integers a block: 64 random bits scaled to the range by the high half of a product. */
static void integers(int64_t begin, int64_t end, void *context) {
  fill *f = context;
  int64_t *out = f->out;
  for (int64_t i = begin; i < end; i++) {
    uint32_t bits[4];
    block_of(f, i / 2, bits);
    uint64_t random = (uint64_t)bits[i % 2 * 2] << 32 | bits[i % 2 * 2 + 1];
    uint64_t scaled = (uint64_t)((unsigned __int128)random * f->range >> 64);
    out[i] = (int64_t)((uint64_t)f->low + scaled);
  }
}

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
enum { TILE = 256 };

static void normal_tile(const fill *f, int64_t pair, int64_t pairs, double *cosines,
                        double *sines) {
  double radius[TILE], angle[TILE];
  for (int64_t i = 0; i < pairs; i++) {
    uint32_t bits[4];
    block_of(f, pair + i, bits);
    radius[i] = 1.0 - unit_f64(bits[0], bits[1]);
    angle[i] = 6.283185307179586 * unit_f64(bits[2], bits[3]);
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

void ol_rng_shuffle(ol_rng *rng, int64_t *items, int64_t count) {
  for (int64_t i = count - 1; i > 0; i--) {
    int64_t k, item = items[i];
    ol_rng_integers(rng, 0, i + 1, &k, 1);
    items[i] = items[k];
    items[k] = item;
  }
}
