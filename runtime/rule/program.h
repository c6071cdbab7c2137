/* program: what a graph compiles to: levels of passes, each a short list of fused instructions.
 *
 * An elementwise rule is one pass. A reduction ends a level: what depends on its result is computed
 * in a later one. A state is stored at the first level after which nobody reads its old value;
 * later levels compute again, from the arrays, what they need. */
#ifndef OL_RULE_PROGRAM_H
#define OL_RULE_PROGRAM_H

#include "base/object.h"
#include "rule/graph.h"

/* Immutable and shared: ol_retain, ol_release. */
typedef struct ol_program {
  ol_object object;
  ol_dtype dtype;       /* of the arithmetic */
  int operands;         /* as the graph declared */
  int numbers;          /* arguments, by slot */
  int total_count;      /* 1 + the highest slot of group_add; 0: it is not used */
  bool shape_bound;     /* fits parameters of the graph's shape only */
  bool reduces;         /* uses a reduction over the whole tensor */
  bool multiplies;      /* uses matmul */
  bool random;          /* rounds stochastically */
  bool coalesces;       /* works element by element (and totals): neighbours can be one run */
  uint32_t reads;       /* operands that are read, a bit each */
  uint32_t writes;      /* operands that are written */
  double bytes;         /* moved for an element of the parameter */
  int instructions;     /* fused, over all passes */
  int levels;           /* parallel regions */
  struct ol_code *code; /* code.h */
} ol_program;

/* Compiles a finished graph. */
ol_status ol_program_compile(ol_error *error, const ol_graph *graph, ol_program **out);

/* The program as text, for people; released with ol_free. names: of the operands. numbers: the
 * arguments of one call, shown as values; NULL: shown as c0, c1, …
 *
 *   float32, 1 pass, 3 instructions, 28 bytes an element
 *   reads p g exp_avg exp_avg_sq, writes p exp_avg exp_avg_sq
 *   pass 1
 *     exp_avg = 0.9*exp_avg + 0.1*g
 *     …
 *
 * Arrays keep their names; t1 … are tiles, n0 … numbers that were reduced, buffer1 … whole arrays
 * of scratch memory. */
ol_status ol_program_text(ol_error *error, const ol_program *program, const char *const *names,
                          const double *numbers, char **out);

#endif
