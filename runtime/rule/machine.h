/* machine: runs programs over arrays, tile by tile.
 *
 * A step hands over a list of runs. Preparing it may fail and writes nothing; committing it cannot
 * fail. Each level of the programs is one parallel region over chunks of up to 64 K elements (small
 * runs many to a chunk; on one thread when there are no more than 64 K in all). Results are the
 * same bits for any number of threads and any instruction set; only matmul follows BLAS. */
#ifndef OL_RULE_MACHINE_H
#define OL_RULE_MACHINE_H

#include "rule/program.h"

#define OL_MACHINE_CHUNK                                                                           \
  65536 /* elements; reductions are cut here, so it is part of the results                         \
         */
#define OL_MACHINE_TILE 256

/* Noise of stochastic rounding: the tensor that begins at an element of a run has this key. */
typedef struct ol_noise_part {
  int64_t begin;
  uint64_t key;
} ol_noise_part;

/* One program over one parameter, or over several that follow each other in memory in the same way
 * for every operand (only if program->coalesces). */
typedef struct ol_run {
  const ol_program *program;
  const double *numbers; /* graph->number of the call, by slot */
  void *const *arrays;   /* by operand, contiguous; NULL where the program does not touch it.
                            Operands are disjoint. */
  int64_t count;         /* elements of the parameter's shape */
  const double *gradient_factor; /* what each gradient is multiplied with as it is read, rounded
                                    once; read at commit; NULL: nothing is multiplied */
  double *totals; /* group_add: each value is added to totals[slot], runs in order; may be NULL
                     if program->total_count is 0 */
  const ol_noise_part *noise; /* if program->random: by their beginnings, from 0 on; each tensor
                                 that has its own key is counted in noise_parts */
  int64_t noise_parts;
  const uint64_t *salt; /* operand i has the noise of key + salt[i]; NULL: all are 0 */
} ol_run;

typedef struct ol_machine ol_machine;

/* Makes a machine; it keeps its scratch memory from step to step. */
ol_status ol_machine_new(ol_error *error, ol_machine **out);

/* NULL is allowed. */
void ol_machine_free(ol_machine *machine);

/* Allocates what the runs need. The runs, and all they point to, must stay until commit. */
ol_status ol_machine_prepare(ol_error *error, ol_machine *machine, const ol_run *runs,
                             int64_t count);

/* Executes what was prepared, once. Does nothing if nothing is prepared. */
void ol_machine_commit(ol_machine *machine);

/* How passes are executed: "native" by machine code that is made for them (native.h), where that
 * can be; else by kernels for an instruction set: "avx512f", "avx", "sse2" on x86-64 ("avx" stands
 * for AVX2), else "default". The environment variable OPTLUA_ISA chooses another way, as for
 * base/vecmath. */
const char *ol_machine_isa(void);

/* For tests: switches to another; false if this processor lacks it. */
bool ol_machine_set_isa(const char *name);

/* For tests: as if the largest cache had so many bytes; 0: as many as it has. Batches that move
 * more fetch their arrays ahead. */
void ol_machine_set_cache(double bytes);

/* The names that ol_machine_set_isa accepts here, ending in NULL. */
const char *const *ol_machine_isas(void);

#endif
