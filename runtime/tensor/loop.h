/* loop: visits the elements of up to four tensors together, in parallel.
 *
 * Operands are broadcast to one shape, dimensions that lie behind each other in all of them are
 * merged, and the kernel gets rows: a count and, for each operand, an address and a stride. */
#ifndef OL_TENSOR_LOOP_H
#define OL_TENSOR_LOOP_H

#include "tensor/tensor.h"

#define OL_LOOP_OPERANDS 4

/* Works on one row: element i of operand k is at data[k] + i*stride[k] (stride in bytes). Runs on
 * workers: must not allocate or fail. */
typedef void ol_row_fn(int64_t count, char *const *data, const int64_t *stride,
                       const void *context);

typedef struct ol_loop {
  int operands;
  int ndim;                  /* after merging; the last dimension is the row */
  int64_t size[OL_MAX_DIMS]; /* iterations */
  int64_t numel;
  char *data[OL_LOOP_OPERANDS];
  int64_t stride[OL_LOOP_OPERANDS][OL_MAX_DIMS]; /* bytes */
} ol_loop;

/* Prepares a loop over shape; each tensor must broadcast to it (which the caller has checked). */
void ol_loop_init(ol_loop *loop, const ol_shape *shape, int operands, ol_tensor *const *tensors);

/* Calls fn on rows that cover the loop; in parallel when there are more than grain elements. Rows
 * are cut at multiples of grain, so a kernel may keep fixed blocks. */
void ol_loop_run(const ol_loop *loop, int64_t grain, ol_row_fn *fn, const void *context);

#endif
