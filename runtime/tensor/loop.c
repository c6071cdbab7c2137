/* loop: broadcasting, merging of dimensions, cutting into rows. */
#include "tensor/loop.h"

#include "base/parallel.h"

/* Appends a dimension, or merges it into the last one when it continues it in every operand. */
static void append(ol_loop *loop, int64_t size, const int64_t *stride) {
  int last = loop->ndim - 1;
  bool merge = last >= 0;
  for (int k = 0; merge && k < loop->operands; k++)
    merge = loop->stride[k][last] == stride[k] * size;
  if (merge)
    loop->size[last] *= size;
  else
    loop->size[loop->ndim++] = size;
  for (int k = 0; k < loop->operands; k++) loop->stride[k][loop->ndim - 1] = stride[k];
}

/* The stride in bytes of dimension d (of ndim) of a tensor that broadcasts to it. */
static int64_t stride_in(const ol_tensor *tensor, int d, int ndim) {
  int own = d - (ndim - tensor->shape.ndim);
  if (own < 0 || tensor->shape.size[own] == 1) return 0;
  return tensor->stride[own] * (int64_t)ol_dtype_size(tensor->dtype);
}

void ol_loop_init(ol_loop *loop, const ol_shape *shape, int operands, ol_tensor *const *tensors) {
  *loop = (ol_loop){ .operands = operands, .numel = ol_shape_numel(shape) };
  for (int k = 0; k < operands; k++) loop->data[k] = ol_tensor_data(tensors[k]);
  for (int d = 0; d < shape->ndim; d++) {
    int64_t stride[OL_LOOP_OPERANDS];
    if (shape->size[d] == 1) continue;
    for (int k = 0; k < operands; k++) stride[k] = stride_in(tensors[k], d, shape->ndim);
    append(loop, shape->size[d], stride);
  }
  if (loop->ndim == 0) { /* one element */
    int64_t stride[OL_LOOP_OPERANDS];
    for (int k = 0; k < operands; k++) stride[k] = (int64_t)ol_dtype_size(tensors[k]->dtype);
    append(loop, 1, stride);
  }
}

typedef struct job {
  const ol_loop *loop;
  ol_row_fn *fn;
  const void *context;
} job;

/* Calls the kernel for elements `begin` … of one row, at most to its end; returns how many. */
static int64_t row(const job *j, int64_t begin, int64_t end) {
  const ol_loop *loop = j->loop;
  int last = loop->ndim - 1;
  int64_t stride[OL_LOOP_OPERANDS], at = begin % loop->size[last];
  int64_t count = loop->size[last] - at;
  char *data[OL_LOOP_OPERANDS];
  if (count > end - begin) count = end - begin;
  for (int k = 0; k < loop->operands; k++) {
    stride[k] = loop->stride[k][last];
    data[k] = loop->data[k] + at * stride[k];
    int64_t rest = begin / loop->size[last];
    for (int d = last - 1; d >= 0; d--) {
      data[k] += rest % loop->size[d] * loop->stride[k][d];
      rest /= loop->size[d];
    }
  }
  j->fn(count, data, stride, j->context);
  return count;
}

static void rows(int64_t begin, int64_t end, void *context) {
  while (begin < end) begin += row(context, begin, end);
}

void ol_loop_run(const ol_loop *loop, int64_t grain, ol_row_fn *fn, const void *context) {
  job j = { .loop = loop, .fn = fn, .context = context };
  ol_parallel_for(loop->numel, grain, rows, &j);
}
