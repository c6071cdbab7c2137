/* norm: the norm of all gradients together, and whether they are finite, in one pass. */
#ifndef OL_RULE_NORM_H
#define OL_RULE_NORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/dtype.h"

typedef struct ol_norm_input {
  const void *data; /* contiguous */
  ol_dtype dtype;   /* bfloat16, float32, float64 */
  int64_t count;
} ol_norm_input;

typedef struct ol_norm_result {
  double two;        /* square root of the sum of squares, summed in double; does not overflow */
  double infinity;   /* largest absolute value; 0 for no elements */
  int64_t nonfinite; /* the first input with a NaN or an infinity, or -1; then the norms are
                        NaN or infinite */
} ol_norm_result;

/* Some inputs: those from the end of the part before on. */
typedef struct ol_norm_part {
  int64_t end;
  ol_norm_result result;
} ol_norm_part;

/* Reads every input once. The same bits for any number of threads and any instruction set. Fails
 * only for lack of memory, or (OL_DTYPE) for inputs that are no floats. */
ol_status ol_norm(ol_error *error, const ol_norm_input *inputs, int64_t count, ol_norm_result *out);

/* The same, and the results of parts that follow each other. */
ol_status ol_norm_of_parts(ol_error *error, const ol_norm_input *inputs, int64_t count,
                           ol_norm_part *parts, int64_t part_count, ol_norm_result *out);

#endif
