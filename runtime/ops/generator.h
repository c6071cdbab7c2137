/* generator: the random numbers of the process. */
#ifndef OL_OPS_GENERATOR_H
#define OL_OPS_GENERATOR_H

#include "base/rng.h"

/* The generator that every op draws from. Its three numbers are all its state: a draw depends on
 * seed, stream and position alone. The seed is 0 until it is set. */
ol_rng *ol_generator(void);

/* Starts the generator anew from a seed. */
void ol_manual_seed(uint64_t seed);

#endif
