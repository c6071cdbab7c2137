/* kernel_norm: squares and magnitudes of a stretch; part of the template kernel_body.h. */

/* The largest magnitude, as bits: without their sign, bits of floats are ordered like the floats,
 * infinity above all numbers and NaN above infinity. */
TARGET static BITS NAME(magnitude)(int n, const T *x, BITS largest) {
  const BITS sign = (BITS)1 << (8 * sizeof(BITS) - 1);
  for (int k = 0; k < n; k++) {
    BITS bits;
    memcpy(&bits, x + k, sizeof bits);
    bits &= ~sign;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

TARGET static void NAME(measure)(const ol_measure *measure, double *squares, double *largest) {
  const int64_t size = (int64_t)ol_dtype_size(measure->dtype);
  const bool direct = size == sizeof(T) && measure->scale == 1;
  BITS magnitude = 0;
  T tile[TILE], most;
  for (int64_t at = 0; at < measure->count; at += TILE) {
    int n = measure->count - at < TILE ? (int)(measure->count - at) : TILE;
    const char *from = (const char *)measure->data + at * size;
    for (int64_t line = 0; line < TILE * size; line += LINE) FETCH(from, AHEAD * size + line);
    if (!direct) {
      NAME(load)(n, tile, from, measure->dtype);
      NAME(scale)(n, tile, tile, (T)measure->scale);
    }
    const T *x = direct ? (const T *)from : tile;
    NAME(accumulate)(OL_RULE_NORM, 0, n, x, squares);
    magnitude = NAME(magnitude)(n, x, magnitude);
  }
  memcpy(&most, &magnitude, sizeof most);
  *largest = most;
}
