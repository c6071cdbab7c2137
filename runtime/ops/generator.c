/* generator: one state for the process. */
#include "ops/generator.h"

enum { STREAM = 0x72616e64 }; /* "rand": streams of small numbers are orders of data */

static ol_rng generator = { .stream = STREAM };

ol_rng *ol_generator(void) { return &generator; }

void ol_manual_seed(uint64_t seed) { generator = (ol_rng){ .seed = seed, .stream = STREAM }; }
