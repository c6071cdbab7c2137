/* indexing: reads and writes at positions that a tensor of indices holds.
 *
 * Indices are int64, count from 0, and are checked before anything is written. All ops that look
 * up or scatter go through the two loops here.
 *
 * A loan is an ol_tensor on the stack that looks at the memory of another tensor; it holds no
 * reference and must not be retained. */
#ifndef OL_OPS_INDEXING_H
#define OL_OPS_INDEXING_H

#include "tensor/tensor.h"

/* Fails unless index is int64 and its values lie in 0 … size-1; the message names op, the first
 * value that does not, and its position. */
ol_status ol_index_check(ol_error *error, const char *op, ol_tensor *index, int64_t size);

/* Fails where target cannot be written in place at index: expanded, or the index's own memory. */
ol_status ol_index_writable(ol_error *error, const char *op, const ol_tensor *target,
                            const ol_tensor *index);

/* A loan: a one- or zero-dimensional tensor that runs along dimension dim of shape and stands
 * still along the others. dim -1: it stands still along all (one element). */
ol_tensor ol_index_spread(const ol_tensor *x, int dim, const ol_shape *shape);

/* A loan: x as seen from an index of that shape: it stands still along dim, from where the index
 * leads on. Sizes of x along other dimensions are at least those of shape. */
ol_tensor ol_index_lines(const ol_tensor *x, int dim, const ol_shape *shape);

/* out[e] = lines[e] moved on by index[e] * step elements. The three have one shape; out and lines
 * one dtype. In parallel. */
void ol_index_read(ol_tensor *out, const ol_tensor *index, const ol_tensor *lines, int64_t step);

/* The two loops that write. */
typedef void ol_index_fn(const ol_tensor *lines, const ol_tensor *index, const ol_tensor *source,
                         int64_t step, int dim);

/* lines[e], moved on by index[e] * step elements, = source[e]. The three have one shape; lines and
 * source one dtype. Where indices repeat the last one counts. Lines along dimensions other than
 * dim must not share memory; dim -1 if all may. Bumps no version. */
ol_index_fn ol_index_write;

/* As ol_index_write, adding: in row-major order of index, whatever the number of threads. Not for
 * bfloat16: see ol_index_adds. */
ol_index_fn ol_index_add;

/* Fails where ol_index_add is not defined for a dtype. */
ol_status ol_index_adds(ol_error *error, const char *op, ol_dtype dtype);

/* A table by dtype of functions that move elements: name_uint8_t … for the sizes there are. */
#define OL_BY_SIZE(name)                                                                           \
  { [OL_U8] = name##_uint8_t,                                                                      \
    [OL_BF16] = name##_uint16_t,                                                                   \
    [OL_F32] = name##_uint32_t,                                                                    \
    [OL_I64] = name##_uint64_t,                                                                    \
    [OL_F64] = name##_uint64_t }

#endif
