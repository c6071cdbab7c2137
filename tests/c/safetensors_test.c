/* safetensors: files that were damaged are read or refused, and nothing else: run it under the
 * sanitizers. And the elements of every type, against formulas of their own. */
#define _GNU_SOURCE /* memfd_create */
#include "io/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/rng.h"
#include "check.h"
#include "io/safetensors_header.h"

enum { ROUNDS = 4000, LARGEST = 16384 };

static int memory; /* a file without a place on a disk, which would be slow */
static char path[32];
static ol_rng rng = { .seed = 5, .stream = 1 };

static int64_t random_below(int64_t limit) {
  int64_t value;
  ol_rng_integers(&rng, 0, limit, &value, 1);
  return value;
}

static size_t slurp(const char *name, uint8_t *bytes) {
  FILE *stream = fopen(name, "rb");
  size_t size = stream ? fread(bytes, 1, LARGEST, stream) : 0;
  if (stream) fclose(stream);
  return size;
}

static void put(const uint8_t *bytes, size_t size) {
  CHECK(ftruncate(memory, 0) == 0 && pwrite(memory, bytes, size, 0) == (ssize_t)size);
}

/* Reads all tensors of a file, as every dtype that they can become. Whether it could be opened. */
static bool read_all(ol_error *error) {
  ol_safetensors file;
  if (ol_safetensors_open(error, path, &file) != OL_OK) return false;
  for (int64_t i = 0; i < file.count; i++)
    for (int dtype = 0; dtype < OL_DTYPES; dtype++) {
      ol_tensor *tensor = NULL;
      if (ol_safetensors_read(error, &file, &file.tensor[i], (ol_dtype)dtype, &tensor) == OL_OK)
        ol_release(tensor);
    }
  ol_safetensors_close(&file);
  return true;
}

/* Bytes that matter in a header. */
static uint8_t damage(void) {
  static const uint8_t likely[] = "{}[]\",:0123456789-.eFIU\\ \0\xff";
  return random_below(2) ? likely[random_below(sizeof likely)] : (uint8_t)random_below(256);
}

/* Flips, moves or cuts something; more often in the header than behind it. */
static size_t spoil(uint8_t *bytes, size_t size) {
  for (int64_t times = 1 + random_below(3); times > 0; times--) {
    int64_t limit = random_below(4) && size > 200 ? 200 : (int64_t)size, at = random_below(limit);
    switch (random_below(4)) {
    case 0: bytes[at] ^= (uint8_t)(1 << random_below(8)); break;
    case 1: bytes[at] = damage(); break;
    case 2:
      memmove(bytes + at, bytes + random_below(limit), (size_t)random_below(limit - at) / 2);
      break;
    default:
      if (random_below(8) == 0) return (size_t)random_below((int64_t)size);
    }
  }
  return size;
}

static void survives_damage(const char *name) {
  static uint8_t whole[LARGEST], spoilt[LARGEST];
  ol_error error;
  size_t size = slurp(name, whole);
  int64_t opened = 0, before = ol_memory_read().live_blocks;
  CHECK(size > 0 && size < LARGEST);
  put(whole, size);
  CHECK(read_all(&error));
  for (int round = 0; round < ROUNDS; round++) {
    memcpy(spoilt, whole, size);
    put(spoilt, spoil(spoilt, size));
    opened += read_all(&error);
  }
  CHECK(opened < ROUNDS / 2); /* most damage to a header is seen */
  CHECK_EQUAL(ol_memory_read().live_blocks, before);
}

/* ---- elements ---- */

static double widened(const char *name, uint64_t bits) {
  ol_error error;
  double value = 0;
  CHECK(ol_element_widen(&error, ol_element_find(name), &bits, 1, &value) == OL_OK);
  return value;
}

/* Every value of a type of few bits: sign, 1.fraction * 2^exponent, or 0.fraction below. */
static void small_float(const char *name, int exponent, int mantissa, int bias, int first_special) {
  int half = 1 << (exponent + mantissa), wrong = 0;
  for (int bits = 0; bits < first_special; bits++) {
    int top = bits >> mantissa, fraction = bits & ((1 << mantissa) - 1);
    double want = top ? ldexp((1 << mantissa) + fraction, top - bias - mantissa)
                      : ldexp(fraction, 1 - bias - mantissa);
    wrong += widened(name, (uint64_t)bits) != want;
    if (bits || strstr(name, "FNUZ") == NULL)
      wrong += widened(name, (uint64_t)(half + bits)) != -want;
  }
  CHECK_EQUAL(wrong, 0);
}

static void floats(void) {
  small_float("F8_E5M2", 5, 2, 15, 0x7c);
  small_float("F8_E4M3", 4, 3, 7, 0x7f);
  small_float("F8_E5M2FNUZ", 5, 2, 16, 0x80);
  small_float("F8_E4M3FNUZ", 4, 3, 8, 0x80);
  small_float("F16", 5, 10, 15, 0x7c00);
  small_float("BF16", 8, 7, 127, 0x7f80);
  CHECK(isnan(widened("F8_E4M3", 0x7f)) && isnan(widened("F8_E4M3", 0xff)));
  CHECK(isnan(widened("F8_E5M2FNUZ", 0x80)) && isnan(widened("F8_E4M3FNUZ", 0x80)));
  CHECK(widened("F8_E5M2", 0xfc) == -INFINITY && isnan(widened("F8_E5M2", 0x7d)));
  CHECK(widened("F16", 0x7c00) == INFINITY && isnan(widened("F16", 0x7e00)));
  CHECK(widened("F8_E8M0", 0) == ldexp(1, -127) && widened("F8_E8M0", 254) == ldexp(1, 127));
  CHECK(isnan(widened("F8_E8M0", 255)));
  CHECK(widened("F32", 1) == ldexp(1, -149) && widened("F64", 1) == ldexp(1, -1074));
}

/* An object keeps the last of several values: a tensor would be lost. */
static void names_are_apart(void) {
  ol_error error;
  char *text = NULL;
  size_t size;
  const ol_stored twice[] = {
    { .name = "a", .element = ol_element_find("U8"), .shape = { .ndim = 0 }, .end = 1 },
    { .name = "a", .element = ol_element_find("U8"), .shape = { .ndim = 0 }, .begin = 1, .end = 2 },
  };
  CHECK_EQUAL(ol_safetensors_format(&error, twice, 2, NULL, 0, &text, &size), OL_ARGUMENT);
  CHECK(strstr(error.message, "the same name") != NULL);
  const ol_note notes[] = { { "x", "1" }, { "x", "2" } };
  CHECK_EQUAL(ol_safetensors_format(&error, twice, 1, notes, 2, &text, &size), OL_ARGUMENT);
  CHECK_EQUAL(ol_safetensors_format(&error, twice, 1, notes, 1, &text, &size), OL_OK);
  free(text);
}

int main(void) {
  memory = memfd_create("safetensors", 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  floats();
  names_are_apart();
  survives_damage("tests/golden/safetensors/held.safetensors");
  survives_damage("tests/golden/safetensors/others.safetensors");
  survives_damage("tests/golden/safetensors/rare.safetensors");
  survives_damage("tests/golden/safetensors/tied.safetensors");
  return check_summary();
}
