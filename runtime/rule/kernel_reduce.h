/* kernel_reduce: reductions of tiles; part of the template kernel_body.h. */

/* Element i of a chunk goes to lane i mod 16. The lanes are vectors of the instruction set's size,
 * in registers. */

enum { NAME(WIDE) = VECTOR / sizeof(double), NAME(PARTS) = OL_LANES / NAME(WIDE) };

typedef double NAME(lanes) __attribute__((vector_size(VECTOR)));
typedef int64_t NAME(mask) __attribute__((vector_size(VECTOR)));
typedef T NAME(narrow) __attribute__((vector_size(NAME(WIDE) * sizeof(T))));

/* Elements as doubles. gcc makes 4 at a time of 8; the intrinsic says what is meant. */
TARGET static inline NAME(lanes) NAME(widen)(const T *x) {
#if VECTOR == 64
  if (sizeof(T) == sizeof(float))
    return (NAME(lanes))_mm512_cvtps_pd(_mm256_loadu_ps((const float *)x));
#endif
  NAME(narrow) narrow;
  memcpy(&narrow, x, sizeof narrow);
  return __builtin_convertvector(narrow, NAME(lanes));
}

/* The lanes of v where `which` is set, of m elsewhere. */
#define SELECT(which) (NAME(lanes))(((which) & (NAME(mask))v) | (~(which) & (NAME(mask))m[part]))

#define ROWS(expression)                                                                           \
  for (int i = 0; i < rows; i++)                                                                   \
    _Pragma("GCC unroll 8") for (int part = 0; part < NAME(PARTS); part++) {                       \
      const NAME(lanes) v = NAME(widen)(x + i * OL_LANES + part * NAME(WIDE));                     \
      m[part] = (expression);                                                                      \
    }

/* Whole rows of lanes. */
TARGET static void NAME(take_rows)(ol_rule_op op, int rows, const T *x, double *lanes) {
  NAME(lanes) m[NAME(PARTS)];
  memcpy(m, lanes, sizeof m);
  switch (op) {
  case OL_RULE_NORM: ROWS(m[part] + v * v); break;
  case OL_RULE_AMAX: ROWS(SELECT((v > m[part]) | (v != v))); break;
  case OL_RULE_AMIN: ROWS(SELECT((v < m[part]) | (v != v))); break;
  default: ROWS(m[part] + v);
  }
  memcpy(lanes, m, sizeof m);
}
#undef ROWS
#undef SELECT

/* n elements, of which the first has this index in its chunk. */
TARGET static void NAME(accumulate)(ol_rule_op op, int64_t index, int n, const T *x,
                                    double *lanes) {
  int i = 0, first = (int)(index % OL_LANES);
  for (; first > 0 && i < n; i++, first = (first + 1) % OL_LANES)
    lanes[first] = ol_reduce_take(op, lanes[first], x[i]);
  int rows = (n - i) / OL_LANES;
  NAME(take_rows)(op, rows, x + i, lanes);
  i += rows * OL_LANES;
  for (int lane = 0; i < n; i++, lane++) lanes[lane] = ol_reduce_take(op, lanes[lane], x[i]);
}

/* x joins total, element by element. */
TARGET static void NAME(join)(ol_rule_op op, int n, const T *x, double *total) {
  switch (op) {
  case OL_RULE_NORM: EACH(n, total[k] += (double)x[k] * (double)x[k]); break;
  case OL_RULE_AMAX:
  case OL_RULE_AMIN:
    for (int k = 0; k < n; k++) total[k] = ol_reduce_take(op, total[k], x[k]);
    break;
  default: EACH(n, total[k] += (double)x[k]);
  }
}
