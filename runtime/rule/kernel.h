/* kernel: the inner loops of the machine, one copy for each instruction set and type. */
#ifndef OL_RULE_KERNEL_H
#define OL_RULE_KERNEL_H

#include "rule/code.h"
#include "rule/machine.h"
#include "rule/reduce.h"

/* A piece of a pass: elements begin … end of the parameter (an elementwise pass; never across a
 * multiple of OL_MACHINE_CHUNK if it reduces), or units begin … end (a reduction over a dimension,
 * see ol_kernel_units). */
typedef struct ol_work {
  const ol_code *code;
  const ol_pass *pass;
  const double *numbers;         /* of the run */
  void *const *arrays;           /* operands, then buffers */
  const double *gradient_factor; /* or NULL */
  bool far;                      /* arrays come from memory and not from a cache */
  int64_t count;                 /* elements of the parameter */
  const ol_noise_part *noise;    /* as in ol_run */
  int64_t noise_parts;
  const uint64_t *salt;
  int64_t begin, end;
  int threads;     /* that units are made for */
  double *partial; /* takes a double for each accumulator */
  void *scratch;   /* of ol_kernel_scratch bytes, aligned to OL_ALIGNMENT */
} ol_work;

/* Where a pass keeps what in its scratch memory: offsets in bytes; tiles are at 0. */
typedef struct ol_scratch {
  size_t lanes, ops, frame, streams, band, band_row, row_at, total, size;
} ol_scratch;

/* An array that a pass goes through element by element. */
typedef struct ol_stream {
  const char *base;
  int width; /* bytes of an element */
} ol_stream;

/* width: bytes of an element of the arithmetic. */
ol_scratch ol_kernel_layout(const ol_code *code, const ol_pass *pass, size_t width);

/* Bytes of scratch memory that passes of this code need on each thread. */
size_t ol_kernel_scratch(const ol_code *code, ol_dtype dtype);

/* The part that a place in a run belongs to. */
static inline const ol_noise_part *ol_noise_at(const ol_noise_part *parts, int64_t count,
                                               int64_t place) {
  int64_t low = 0, high = count; /* it is one of low … high-1 */
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    if (parts[middle].begin <= place)
      low = middle;
    else
      high = middle;
  }
  return &parts[low];
}

/* Where a gathered array has the element for a position in the pass's shape; and that position as
 * an index. */
static inline int64_t ol_kernel_place(const ol_access *access, const ol_shape *shape,
                                      int64_t position, int64_t index[OL_MAX_DIMS]) {
  int64_t place = 0;
  for (int d = shape->ndim - 1; d >= 0; d--) {
    index[d] = position % shape->size[d];
    position /= shape->size[d];
    place += index[d] * access->stride[d];
  }
  return place;
}

/* Whether machine code is used where there is some. */
bool ol_kernel_goes_native(void);

/* Does the work with the instruction set in use. dtype: of the arithmetic. */
void ol_kernel_run(ol_dtype dtype, const ol_work *work);

/* A stretch of a gradient, for its norm. */
typedef struct ol_measure {
  const void *data;
  ol_dtype dtype;
  int64_t count;
  double scale; /* a power of two that elements are multiplied with; 1 unless float64 overflows */
} ol_measure;

/* Adds the squares of elements to lanes, by index; gives the largest magnitude, NaN if one is. */
void ol_kernel_measure(const ol_measure *measure, double squares[OL_LANES], double *largest);

/* A reduction over a dimension sees its tensor as (outer, size, inner), and its result (outer,
 * inner) as units that are computed each by one thread: (outer) of `inner` results, or, where inner
 * exceeds a tile, (outer, blocks) of `width` of them, wide enough to go through memory in order. */
typedef struct ol_units {
  int64_t outer, size, inner, blocks, width, count;
  int64_t elements; /* of the tensor, in a unit */
} ol_units;

/* Enough units for so many threads, where there are columns enough. */
ol_units ol_kernel_units(const ol_shape *shape, int dim, int threads);

#endif
