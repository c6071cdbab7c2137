/* kernel_move: arrays of other types and layouts; part of the template kernel_body.h. */

TARGET static void NAME(scale)(int n, T *out, const T *x, T factor) {
  EACH(n, out[k] = factor * x[k]);
}

/* From bfloat16. gcc takes each vector apart and puts it together again; vectors of half the size
 * are what is meant. */

typedef uint16_t NAME(upper) __attribute__((vector_size(VECTOR / 2)));

TARGET static void NAME(load_upper)(int n, float *out, const ol_bf16 *from) {
  int k = 0;
  for (; k + NAME(WORDS) <= n; k += NAME(WORDS)) {
    NAME(upper) upper;
    memcpy(&upper, from + k, sizeof upper);
    const NAME(words) bits = __builtin_convertvector(upper, NAME(words)) << 16;
    memcpy(out + k, &bits, sizeof bits);
  }
  for (; k < n; k++) out[k] = ol_bf16_to_f32(from[k]);
}

TARGET static void NAME(load)(int n, T *out, const void *from, ol_dtype dtype) {
  const ol_bf16 *narrow = from;
  const float *single = from;
  if (dtype == OL_BF16 && sizeof(T) == sizeof(float))
    NAME(load_upper)(n, (float *)out, narrow);
  else if (dtype == OL_BF16)
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

/* Elements place … place+n of an array. */
TARGET static void NAME(read)(int n, T *out, const ol_source *from, int64_t place) {
  const ol_dtype dtype = (ol_dtype)from->access->dtype;
  if (from->access->packing & OL_PACK_CODES)
    NAME(load_codes)(n, out, from->data, from->access->packing, from->count, place);
  else
    NAME(load)(n, out, from->data + place * (int64_t)ol_dtype_size(dtype), dtype);
}

/* A stretch of n elements, `step` apart. */
TARGET static void NAME(stretch)(int n, T *out, const ol_source *from, int64_t place,
                                 int64_t step) {
  if (step == 1) {
    NAME(read)(n, out, from, place);
  } else if (step == 0) {
    NAME(read)(1, out, from, place);
    const T value = *out;
    EACH(n, out[k] = value);
  } else {
    for (int k = 0; k < n; k++) NAME(read)(1, out + k, from, place + k * step);
  }
}

/* Elements position … position+n of the pass's shape, from an array with other strides: a stretch
 * along the last dimension after the other. */
TARGET static void NAME(gather)(int n, T *out, const ol_source *from, const ol_shape *shape,
                                int64_t position) {
  const ol_access *access = from->access;
  int64_t index[OL_MAX_DIMS], at = ol_kernel_place(access, shape, position, index);
  int last = shape->ndim - 1;
  for (int done = 0; done < n;) {
    int64_t step = last >= 0 ? access->stride[last] : 0;
    int64_t left = last >= 0 ? shape->size[last] - index[last] : 1;
    int length = left < n - done ? (int)left : n - done;
    NAME(stretch)(length, out + done, from, at, step);
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
TARGET static void NAME(turn)(int n, T *out, const ol_source *from, int64_t row, int64_t rows,
                              int64_t columns, int64_t pitch) {
  T line[BAND];
  for (int64_t column = 0; column < columns; column++) {
    NAME(read)(n, line, from, column * rows + row);
    for (int k = 0; k < n; k++) out[k * pitch + column] = line[k];
  }
}
