/* generator: one state for the process. */
#include "ops/generator.h"

static ol_rng generator;

ol_rng *ol_generator(void) { return &generator; }

void ol_manual_seed(uint64_t seed) { generator = (ol_rng){ .seed = seed }; }
