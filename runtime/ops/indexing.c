/* indexing: the check of indices, and the loops that follow them. */
#include "ops/indexing.h"

#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"
#include "tensor/loop.h"

/* ---- checking ---- */

typedef struct scan {
  const int64_t *value;
  uint64_t size;
  _Atomic int64_t bad; /* the first position that does not fit; INT64_MAX: none */
} scan;

OL_KERNEL static bool all_fit(const int64_t *value, int64_t count, uint64_t size) {
  uint64_t fit = 1;
  for (int64_t i = 0; i < count; i++) fit &= (uint64_t)value[i] < size;
  return fit;
}

static void scan_range(int64_t begin, int64_t end, void *context) {
  scan *s = context;
  if (all_fit(s->value + begin, end - begin, s->size)) return;
  while ((uint64_t)s->value[begin] < s->size) begin++;
  int64_t bad = atomic_load(&s->bad);
  while (begin < bad && !atomic_compare_exchange_weak(&s->bad, &bad, begin)) continue;
}

/* The coordinates of a linear position, as typed. */
static char *position_text(const ol_shape *shape, int64_t position, char *text) {
  ol_shape at = { .ndim = shape->ndim };
  for (int d = shape->ndim - 1; d >= 0; d--) {
    at.size[d] = position % shape->size[d] + 1;
    position /= shape->size[d];
  }
  return ol_shape_text(&at, text);
}

ol_status ol_index_check(ol_error *error, const char *op, ol_tensor *index, int64_t size) {
  ol_tensor *dense;
  if (index->dtype != OL_I64)
    return ol_fail(error, OL_DTYPE, "%s: indices are int64, not %s", op,
                   ol_dtype_name(index->dtype));
  OL_TRY(ol_tensor_contiguous(error, index, &dense));
  scan s = { .value = ol_tensor_data(dense), .size = (uint64_t)size, .bad = INT64_MAX };
  ol_parallel_for(dense->numel, OL_GRAIN, scan_range, &s);
  int64_t bad = s.bad, value = bad < INT64_MAX ? s.value[bad] : 0;
  ol_release(dense);
  if (bad == INT64_MAX) return OL_OK;
  char text[OL_SHAPE_TEXT];
  return ol_fail(error, OL_RANGE,
                 "%s: index %lld at position %s is out of range for a size of %lld; indices count "
                 "from 0",
                 op, (long long)value, position_text(&index->shape, bad, text), (long long)size);
}

ol_status ol_index_writable(ol_error *error, const char *op, const ol_tensor *target,
                            const ol_tensor *index) {
  if (ol_tensor_overlaps_itself(target))
    return ol_fail(error, OL_STATE, "%s: the tensor is expanded: its elements share memory", op);
  if (target->storage == index->storage)
    return ol_fail(error, OL_STATE, "%s: the index shares its memory with the tensor", op);
  return OL_OK;
}

/* ---- loans ---- */

static ol_tensor lend(const ol_tensor *x, const ol_shape *shape) {
  return (ol_tensor){ .storage = x->storage,
                      .offset = x->offset,
                      .dtype = x->dtype,
                      .shape = *shape,
                      .numel = ol_shape_numel(shape) };
}

ol_tensor ol_index_spread(const ol_tensor *x, int dim, const ol_shape *shape) {
  ol_tensor loan = lend(x, shape);
  if (dim >= 0 && x->shape.ndim > 0) loan.stride[dim] = x->stride[0];
  return loan;
}

ol_tensor ol_index_lines(const ol_tensor *x, int dim, const ol_shape *shape) {
  ol_tensor loan = lend(x, shape);
  for (int d = 0; d < shape->ndim && d < x->shape.ndim; d++)
    loan.stride[d] = d == dim ? 0 : x->stride[d];
  return loan;
}

/* ---- loops ---- */

/* Operands of all rows: what is written, the index, what is read. The context is the step in
 * bytes. A row along which the index stands still is dense in memory where its strides say so; one
 * along which only the index moves looks up a table. */
#define INDEX(i) (*(const int64_t *)(data[1] + (i) * stride[1]) * step)

#define DEFINE_READ(type)                                                                          \
  OL_KERNEL static void read_##type(int64_t count, char *const *data, const int64_t *stride,       \
                                    const void *context) {                                         \
    const int64_t step = *(const int64_t *)context;                                                \
    if (stride[1] == 0 && stride[0] == sizeof(type) && stride[2] == sizeof(type)) {                \
      memcpy(data[0], data[2] + INDEX(0), (size_t)count * sizeof(type));                           \
      return;                                                                                      \
    }                                                                                              \
    if (stride[0] == sizeof(type) && stride[1] == 8 && stride[2] == 0 && step == sizeof(type)) {   \
      type *y = (type *)data[0];                                                                   \
      const int64_t *index = (const int64_t *)data[1];                                             \
      const type *x = (const type *)data[2];                                                       \
      OL_APART for (int64_t i = 0; i < count; i++) y[i] = x[index[i]];                             \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      *(type *)(data[0] + i * stride[0]) = *(const type *)(data[2] + i * stride[2] + INDEX(i));    \
  }
DEFINE_READ(uint8_t)
DEFINE_READ(uint16_t)
DEFINE_READ(uint32_t)
DEFINE_READ(uint64_t)

#define DEFINE_WRITE(type)                                                                         \
  static void write_##type(int64_t count, char *const *data, const int64_t *stride,                \
                           const void *context) {                                                  \
    const int64_t step = *(const int64_t *)context;                                                \
    if (stride[1] == 0 && stride[0] == sizeof(type) && stride[2] == sizeof(type)) {                \
      memcpy(data[0] + INDEX(0), data[2], (size_t)count * sizeof(type));                           \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      *(type *)(data[0] + i * stride[0] + INDEX(i)) = *(const type *)(data[2] + i * stride[2]);    \
  }
DEFINE_WRITE(uint8_t)
DEFINE_WRITE(uint16_t)
DEFINE_WRITE(uint32_t)
DEFINE_WRITE(uint64_t)

#define DEFINE_ADD(type)                                                                           \
  OL_KERNEL static void add_##type(int64_t count, char *const *data, const int64_t *stride,        \
                                   const void *context) {                                          \
    const int64_t step = *(const int64_t *)context;                                                \
    if (stride[1] == 0 && stride[0] == sizeof(type) && stride[2] == sizeof(type)) {                \
      type *y = (type *)(data[0] + INDEX(0));                                                      \
      const type *x = (const type *)data[2];                                                       \
      OL_APART for (int64_t i = 0; i < count; i++) y[i] += x[i];                                   \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
      *(type *)(data[0] + i * stride[0] + INDEX(i)) += *(const type *)(data[2] + i * stride[2]);   \
  }
DEFINE_ADD(uint8_t)
DEFINE_ADD(uint64_t) /* two's complement: int64 */
DEFINE_ADD(float)
DEFINE_ADD(double)

static ol_row_fn *const reads[OL_DTYPES] = OL_BY_SIZE(read);
static ol_row_fn *const writes[OL_DTYPES] = OL_BY_SIZE(write);
static ol_row_fn *const adds[OL_DTYPES] = {
  [OL_U8] = add_uint8_t, [OL_I64] = add_uint64_t, [OL_F32] = add_float, [OL_F64] = add_double
};

void ol_index_read(ol_tensor *out, const ol_tensor *index, const ol_tensor *lines, int64_t step) {
  ol_loop loop;
  ol_tensor *operands[] = { out, (ol_tensor *)index, (ol_tensor *)lines };
  int64_t bytes = step * (int64_t)ol_dtype_size(out->dtype);
  ol_loop_init(&loop, &out->shape, 3, operands);
  ol_loop_run(&loop, OL_GRAIN, reads[out->dtype], &bytes);
}

/* A write, cut between threads along one dimension in which lines share no memory, so that each
 * element has one writer, which visits its sources in order. */
typedef struct job {
  const ol_tensor *operand[3];
  int cut;
  ol_row_fn *fn;
  int64_t bytes;
} job;

static void write_part(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  ol_tensor part[3];
  ol_loop loop;
  for (int k = 0; k < 3; k++) {
    part[k] = *j->operand[k];
    part[k].shape.size[j->cut] = end - begin;
    part[k].offset += begin * part[k].stride[j->cut];
  }
  ol_tensor *operands[] = { &part[0], &part[1], &part[2] };
  ol_loop_init(&loop, &part[0].shape, 3, operands);
  ol_loop_run(&loop, INT64_MAX, j->fn, &j->bytes);
}

/* The largest dimension but dim, or -1 when there is no other. */
static int widest(const ol_shape *shape, int dim) {
  int best = -1;
  for (int d = 0; d < shape->ndim; d++)
    if (d != dim && (best < 0 || shape->size[d] > shape->size[best])) best = d;
  return best;
}

static void write_lines(const ol_tensor *lines, const ol_tensor *index, const ol_tensor *source,
                        int64_t step, int dim, ol_row_fn *fn) {
  job j = { .operand = { lines, index, source }, .fn = fn };
  j.bytes = step * (int64_t)ol_dtype_size(lines->dtype);
  j.cut = dim < 0 || lines->numel <= OL_GRAIN ? -1 : widest(&lines->shape, dim);
  if (j.cut >= 0) {
    int64_t size = lines->shape.size[j.cut], threads = ol_threads();
    ol_parallel_for(size, (size + threads - 1) / threads, write_part, &j);
    return;
  }
  ol_loop loop;
  ol_tensor *operands[] = { (ol_tensor *)lines, (ol_tensor *)index, (ol_tensor *)source };
  ol_loop_init(&loop, &lines->shape, 3, operands);
  ol_loop_run(&loop, INT64_MAX, fn, &j.bytes);
}

void ol_index_write(const ol_tensor *lines, const ol_tensor *index, const ol_tensor *source,
                    int64_t step, int dim) {
  write_lines(lines, index, source, step, dim, writes[lines->dtype]);
}

void ol_index_add(const ol_tensor *lines, const ol_tensor *index, const ol_tensor *source,
                  int64_t step, int dim) {
  write_lines(lines, index, source, step, dim, adds[lines->dtype]);
}

ol_status ol_index_adds(ol_error *error, const char *op, ol_dtype dtype) {
  if (adds[dtype]) return OL_OK;
  return ol_fail(error, OL_DTYPE, "%s: bfloat16 stores; convert with :to(\"float32\")", op);
}
