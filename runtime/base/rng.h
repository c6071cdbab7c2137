/* rng: counter-based random numbers (Philox 4x32-10; Salmon et al., 2011, "Parallel random numbers:
 * as easy as 1, 2, 3").
 *
 * Element i of a draw depends on (seed, stream, position + i) alone, so that any number of threads
 * fills the same values. The state is these three numbers. */
#ifndef OL_BASE_RNG_H
#define OL_BASE_RNG_H

#include <stdint.h>

typedef struct ol_rng {
  uint64_t seed;
  uint32_t stream;   /* what the numbers are for: streams of one seed are independent */
  uint64_t position; /* draws made so far, in blocks of four 32-bit numbers */
} ol_rng;

/* A number in [0, 1) of 53 of 64 random bits. */
static inline double ol_rng_unit(uint32_t high, uint32_t low) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

/* Four 32-bit random numbers of block `block` of a stream. */
void ol_rng_block(uint64_t seed, uint32_t stream, uint64_t block, uint32_t out[4]);

/* The same of `count` blocks from `block` on, one after the other: 4 * count numbers. Much faster
 * than as many calls of ol_rng_block. */
void ol_rng_blocks(uint64_t seed, uint32_t stream, uint64_t block, int64_t count, uint32_t *out);

/* Fills with uniform numbers in [0, 1): 24 bits each (float) or 53 bits each (double). Advances. */
void ol_rng_uniform_f32(ol_rng *rng, float *out, int64_t count);
void ol_rng_uniform_f64(ol_rng *rng, double *out, int64_t count);

/* Fills with standard normal numbers (Box and Muller, 1958). Advances. */
void ol_rng_normal_f32(ol_rng *rng, float *out, int64_t count);
void ol_rng_normal_f64(ol_rng *rng, double *out, int64_t count);

/* Fills with integers uniform in low … high-1, without modulo bias beyond 2^-32 of the range.
 * Requires low < high. Advances. */
void ol_rng_integers(ol_rng *rng, int64_t low, int64_t high, int64_t *out, int64_t count);

/* Puts items into random order (Durstenfeld, 1964). Advances. */
void ol_rng_shuffle(ol_rng *rng, int64_t *items, int64_t count);

#endif
