/* kernel_move: arrays of other types and layouts; part of the template kernel_body.h. */

TARGET static void NAME(scale)(int n, T *out, const T *x, T factor) {
  EACH(n, out[k] = factor * x[k]);
}

TARGET static void NAME(load)(int n, T *out, const void *from, ol_dtype dtype) {
  const ol_bf16 *narrow = from;
  const float *single = from;
  if (dtype == OL_BF16)
    EACH(n, out[k] = (T)ol_bf16_to_f32(narrow[k]));
  else if (dtype == OL_F32)
    EACH(n, out[k] = (T)single[k]);
  else
    memcpy(out, from, (size_t)n * sizeof(T));
}

TARGET static void NAME(store)(int n, void *to, const T *x, ol_dtype dtype) {
  ol_bf16 *narrow = to;
  float *single = to;
  if (dtype == OL_BF16)
    EACH(n, narrow[k] = ol_bf16_from_f32((float)x[k]));
  else
    EACH(n, single[k] = (float)x[k]);
}

/* A stretch of n elements, `step` apart. */
TARGET static void NAME(stretch)(int n, T *out, const char *from, ol_dtype dtype, int64_t step) {
  size_t size = ol_dtype_size(dtype);
  if (step == 1) {
    NAME(load)(n, out, from, dtype);
  } else if (step == 0) {
    NAME(load)(1, out, from, dtype);
    const T value = *out;
    EACH(n, out[k] = value);
  } else {
    for (int k = 0; k < n; k++) NAME(load)(1, out + k, from + k * step * (int64_t)size, dtype);
  }
}

/* Elements position … position+n of the pass's shape, from an array with other strides: a stretch
 * along the last dimension after the other. */
TARGET static void NAME(gather)(int n, T *out, const char *from, const ol_access *access,
                                const ol_shape *shape, int64_t position) {
  int64_t index[OL_MAX_DIMS], at = 0, size = (int64_t)ol_dtype_size((ol_dtype)access->dtype);
  int last = shape->ndim - 1;
  for (int d = last; d >= 0; d--) {
    index[d] = position % shape->size[d];
    position /= shape->size[d];
    at += index[d] * access->stride[d];
  }
  for (int done = 0; done < n;) {
    int64_t step = last >= 0 ? access->stride[last] : 0;
    int64_t left = last >= 0 ? shape->size[last] - index[last] : 1;
    int length = left < n - done ? (int)left : n - done;
    NAME(stretch)(length, out + done, from + at * size, (ol_dtype)access->dtype, step);
    done += length;
    if (done == n) break;
    at -= index[last] * step;
    index[last] = 0;
    for (int d = last - 1; d >= 0; d--) {
      at += access->stride[d];
      if (++index[d] < shape->size[d]) break;
      at -= index[d] * access->stride[d];
      index[d] = 0;
    }
  }
}

/* Rows row … row+n of an array (rows, columns) that is stored turned, to rows `pitch` apart. Reads
 * whole cache lines: one by one, the elements of a row are far apart. */
TARGET static void NAME(turn)(int n, T *out, const char *from, ol_dtype dtype, int64_t row,
                              int64_t rows, int64_t columns, int64_t pitch) {
  T line[BAND];
  int64_t size = (int64_t)ol_dtype_size(dtype);
  for (int64_t column = 0; column < columns; column++) {
    NAME(load)(n, line, from + (column * rows + row) * size, dtype);
    for (int k = 0; k < n; k++) out[k * pitch + column] = line[k];
  }
}
