/* loop: broadcasting, merging of dimensions, cutting into rows. */
#include "tensor/loop.h"

#include "base/parallel.h"

/* Whether a dimension continues the last one of the loop in every operand. */
static bool continues(const ol_loop *loop, int last, int64_t size, const int64_t *stride) {
  for (int k = 0; k < loop->operands; k++)
    if (loop->stride[k][last] != stride[k] * size) return false;
  return true;
}

/* Appends a dimension, or merges it into the last one. */
static void append(ol_loop *loop, int64_t size, const int64_t *stride) {
  int last = loop->ndim > 0 ? loop->ndim - 1 : 0;
  if (loop->ndim > 0 && continues(loop, last, size, stride)) {
    loop->size[last] *= size;
  } else {
    last = loop->ndim++;
    loop->size[last] = size;
  }
  for (int k = 0; k < loop->operands; k++) loop->stride[k][last] = stride[k];
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

/* Where a walk over the loop stands: coordinates, and the address of the element in each operand.
 */
typedef struct place {
  int64_t at[OL_MAX_DIMS];
  char *data[OL_LOOP_OPERANDS];
} place;

static place find(const ol_loop *loop, int64_t position) {
  place p = { 0 };
  for (int k = 0; k < loop->operands; k++) p.data[k] = loop->data[k];
  for (int d = loop->ndim - 1; d >= 0; d--) {
    p.at[d] = position % loop->size[d];
    position /= loop->size[d];
    for (int k = 0; k < loop->operands; k++) p.data[k] += p.at[d] * loop->stride[k][d];
  }
  return p;
}

/* Moves on by count elements, at most to the end of the row, which is the begin of the next. */
static void move(const ol_loop *loop, place *p, int64_t count) {
  int d = loop->ndim - 1;
  p->at[d] += count;
  for (int k = 0; k < loop->operands; k++) p->data[k] += count * loop->stride[k][d];
  for (; d > 0 && p->at[d] == loop->size[d]; d--) {
    p->at[d] = 0;
    p->at[d - 1]++;
    for (int k = 0; k < loop->operands; k++)
      p->data[k] += loop->stride[k][d - 1] - loop->size[d] * loop->stride[k][d];
  }
}

static void rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const ol_loop *loop = j->loop;
  int last = loop->ndim - 1;
  int64_t stride[OL_LOOP_OPERANDS];
  place p = find(loop, begin);
  for (int k = 0; k < loop->operands; k++) stride[k] = loop->stride[k][last];
  while (begin < end) {
    int64_t count = loop->size[last] - p.at[last];
    if (count > end - begin) count = end - begin;
    j->fn(count, p.data, stride, j->context);
    move(loop, &p, count);
    begin += count;
  }
}

void ol_loop_run(const ol_loop *loop, int64_t grain, ol_row_fn *fn, const void *context) {
  job j = { .loop = loop, .fn = fn, .context = context };
  ol_parallel_for(loop->numel, grain, rows, &j);
}
