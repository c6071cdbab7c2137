/* rng: Philox's known answers, values fixed for ever, and the same ones on any number of threads.
 *
 * Golden numbers come from an independent implementation of Philox 4x32-10 in Python that agrees
 * with the known answers of Random123 1.14 (kat_vectors). */
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "check.h"

static void check_block(uint64_t seed, uint32_t stream, uint64_t block, const uint32_t want[4]) {
  uint32_t got[4];
  ol_rng_block(seed, stream, block, got);
  for (int i = 0; i < 4; i++) CHECK_EQUAL(got[i], want[i]);
}

static void known_answers(void) {
  check_block(0, 0, 0, (uint32_t[]){ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 });
  check_block(0x299f31d0a4093822, 0x13198a2e, 0x85a308d3243f6a88,
              (uint32_t[]){ 0xae120e9d, 0xa08a4cab, 0xd28ec6a2, 0x42d73c1f });
  check_block(UINT64_MAX, UINT32_MAX, UINT64_MAX,
              (uint32_t[]){ 0xeec03824, 0xe4c1e0f1, 0x3d16e5ca, 0xa00e8336 });
  check_block(7, 3, 5, (uint32_t[]){ 0xd132512e, 0x6f5a4d4d, 0xd0cc80b2, 0x742f7fd9 });
}

/* Batches of blocks are the single blocks, also across the carry of the counter. */
static void batches(void) {
  static const int64_t counts[] = { 0, 1, 3, 4, 63, 64, 65, 200 };
  const uint64_t first = UINT32_MAX - 40;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    uint32_t got[4 * 200], want[4], wrong = 0;
    ol_rng_blocks(9, 2, first, counts[i], got);
    for (int64_t b = 0; b < counts[i]; b++) {
      ol_rng_block(9, 2, first + (uint64_t)b, want);
      wrong += memcmp(want, got + 4 * b, sizeof want) != 0;
    }
    CHECK_EQUAL(wrong, 0);
  }
}

/* The first numbers of (seed 7, stream 3, position 5): one block of the last known answer. */
static void golden_values(void) {
  const ol_rng start = { .seed = 7, .stream = 3, .position = 5 };
  ol_rng rng = start;
  float f[4];
  ol_rng_uniform_f32(&rng, f, 4);
  CHECK_EQUAL(rng.position, 6);
  CHECK(f[0] == 0.8171740174293518f && f[1] == 0.4349716305732727f);
  CHECK(f[2] == 0.8156204223632812f && f[3] == 0.453849732875824f);
  double d[2];
  rng = start;
  ol_rng_uniform_f64(&rng, d, 2);
  CHECK(d[0] == 0.8171740282408361 && d[1] == 0.8156204639128058);
  int64_t n[2];
  rng = start;
  ol_rng_integers(&rng, -500, 500, n, 2);
  CHECK(n[0] == 317 && n[1] == 315);
  rng = start;
  ol_rng_normal_f64(&rng, d, 2);
  CHECK_NEAR(d[0], 0.73872677671155, 1e-15);
  CHECK_NEAR(d[1], -1.6890008450451894, 1e-15);
  rng = start;
  ol_rng_normal_f32(&rng, f, 2);
  CHECK(f[0] == (float)d[0] && f[1] == (float)d[1]);
}

enum { COUNT = 200003 };

typedef void fill_fn(ol_rng *rng, void *out, int64_t count);

static void f32_uniform(ol_rng *rng, void *out, int64_t n) { ol_rng_uniform_f32(rng, out, n); }
static void f64_uniform(ol_rng *rng, void *out, int64_t n) { ol_rng_uniform_f64(rng, out, n); }
static void f32_normal(ol_rng *rng, void *out, int64_t n) { ol_rng_normal_f32(rng, out, n); }
static void f64_normal(ol_rng *rng, void *out, int64_t n) { ol_rng_normal_f64(rng, out, n); }
static void integers(ol_rng *rng, void *out, int64_t n) { ol_rng_integers(rng, -3, 4, out, n); }

/* The same bits on 1 to 3 threads, and when a fill is cut in two at a block's end. */
static void threads_change_nothing(fill_fn *fill, size_t width) {
  char *want = malloc(COUNT * width), *got = malloc(COUNT * width);
  ol_rng first = { .seed = 11, .stream = 1 };
  ol_set_threads(1);
  fill(&first, want, COUNT);
  for (int threads = 2; threads <= 3; threads++) {
    ol_rng rng = { .seed = 11, .stream = 1 };
    ol_set_threads(threads);
    fill(&rng, got, COUNT);
    CHECK(memcmp(got, want, COUNT * width) == 0);
    CHECK_EQUAL(rng.position, first.position);
  }
  ol_rng rng = { .seed = 11, .stream = 1 };
  fill(&rng, got, 1000);
  fill(&rng, got + 1000 * width, COUNT - 1000);
  CHECK(memcmp(got, want, COUNT * width) == 0);
  free(want);
  free(got);
}

static void moments(const double *x, double *mean, double *variance) {
  double sum = 0, squares = 0;
  for (int i = 0; i < COUNT; i++) sum += x[i];
  for (int i = 0; i < COUNT; i++) squares += (x[i] - sum / COUNT) * (x[i] - sum / COUNT);
  *mean = sum / COUNT;
  *variance = squares / COUNT;
}

/* Five standard errors of the estimates. */
static void distributions(void) {
  static double x[COUNT];
  double mean, variance;
  ol_rng rng = { .seed = 5 };
  ol_rng_uniform_f64(&rng, x, COUNT);
  moments(x, &mean, &variance);
  CHECK_NEAR(mean, 0.5, 5 * sqrt(1.0 / 12 / COUNT));
  CHECK_NEAR(variance, 1.0 / 12, 5 * sqrt(1.0 / 180 / COUNT));
  ol_rng_normal_f64(&rng, x, COUNT);
  moments(x, &mean, &variance);
  CHECK_NEAR(mean, 0, 5 * sqrt(1.0 / COUNT));
  CHECK_NEAR(variance, 1, 5 * sqrt(2.0 / COUNT));
}

static void integers_stay_in_range(void) {
  static int64_t n[COUNT];
  int64_t seen[7] = { 0 };
  ol_rng rng = { .seed = 9 };
  ol_rng_integers(&rng, -3, 4, n, COUNT);
  bool inside = true;
  for (int i = 0; i < COUNT; i++) {
    inside = inside && n[i] >= -3 && n[i] < 4;
    if (inside) seen[n[i] + 3]++;
  }
  CHECK(inside);
  for (int i = 0; i < 7; i++) CHECK_NEAR((double)seen[i], COUNT / 7.0, 5 * sqrt(COUNT * 6.0 / 49));
  ol_rng_integers(&rng, INT64_MIN, INT64_MAX, n, COUNT);
  int64_t negative = 0;
  for (int i = 0; i < COUNT; i++) negative += n[i] < 0;
  CHECK_NEAR((double)negative, COUNT / 2.0, 5 * sqrt(COUNT / 4.0));
}

int main(void) {
  known_answers();
  batches();
  golden_values();
  threads_change_nothing(f32_uniform, sizeof(float));
  threads_change_nothing(f64_uniform, sizeof(double));
  threads_change_nothing(f32_normal, sizeof(float));
  threads_change_nothing(f64_normal, sizeof(double));
  threads_change_nothing(integers, sizeof(int64_t));
  distributions();
  integers_stay_in_range();
  return check_summary();
}
