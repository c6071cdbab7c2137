/* maxpool_kernel: the largest elements of windows for one type; a template, included once for each
 * by maxpool.c. The includer defines
 *   T        the type of elements       NAME(x)  the name of a function for it */

static inline int64_t NAME(largest)(const ol_pool *p, const T *x, ol_span y, ol_span z) {
  if (y.count <= 0 || z.count <= 0) return -1;
  const int64_t width = p->planes.x.size;
  int64_t best = y.first * width + z.first;
  T most = x[best];
  for (int64_t a = 0; a < y.count; a++) {
    const int64_t line = (y.first + a * p->step_y) * width + z.first;
    for (int64_t b = 0; b < z.count; b++) {
      const int64_t at = line + b * p->step_x;
      const bool more = x[at] > most || x[at] != x[at];
      most = more ? x[at] : most;
      best = more ? at : best;
    }
  }
  return best;
}

/* Up to TURN whole windows, from the one at x[first] on, which cover `rows` lines: an element of
 * each at a time. */
static inline void NAME(turn)(const ol_pool *p, const T *x, int64_t first, int64_t rows,
                              int64_t stride, int64_t count, T *y, int64_t *index) {
  T most[TURN];
  int32_t best[TURN]; /* how far from the first element of the window */
  for (int64_t k = 0; k < count; k++) most[k] = x[first + k * stride], best[k] = 0;
  for (int64_t a = 0; a < rows; a++)
    for (int64_t b = 0; b < p->planes.x.kernel; b++) {
      const int32_t offset = (int32_t)(a * p->step_y * p->planes.x.size + b * p->step_x);
      const T *at = x + first + offset;
      OL_APART for (int64_t k = 0; k < count; k++) {
        const T v = at[k * stride];
        const bool more = (int)(v > most[k]) | (int)(v != v);
        most[k] = more ? v : most[k];
        best[k] = more ? offset : best[k];
      }
    }
  memcpy(y, most, (size_t)count * sizeof *y);
  for (int64_t k = 0; index && k < count; k++) index[k] = first + k * stride + best[k];
}

static inline void NAME(window)(const ol_pool *p, const T *x, ol_span y, int64_t ox, T *to,
                                int64_t *index) {
  const int64_t at = NAME(largest)(p, x, y, p->x[ox]);
  to[ox] = at < 0 ? (T)-INFINITY : x[at];
  if (index) index[ox] = at;
}

/* The windows of a line of the result. */
static inline void NAME(line)(const ol_pool *p, const T *x, ol_span y, T *to, int64_t *index) {
  const int64_t stride = p->planes.x.stride;
  const bool turns = y.count > 0 && ol_pool_area(p) <= INT32_MAX;
  int64_t ox = 0, end = turns ? p->to : 0;
  for (; ox < (turns ? p->from : 0); ox++) NAME(window)(p, x, y, ox, to, index);
  for (; ox < end; ox += TURN) {
    const int64_t first = y.first * p->planes.x.size + p->x[ox].first;
    const int64_t count = end - ox < TURN ? end - ox : TURN;
    int64_t *own = index ? index + ox : NULL;
    if (stride == 1)
      NAME(turn)(p, x, first, y.count, 1, count, to + ox, own);
    else if (stride == 2)
      NAME(turn)(p, x, first, y.count, 2, count, to + ox, own);
    else
      NAME(turn)(p, x, first, y.count, stride, count, to + ox, own);
  }
  for (ox = end; ox < p->planes.x.out; ox++) NAME(window)(p, x, y, ox, to, index);
}

OL_KERNEL static void NAME(pool)(const ol_pool *p, const T *x, T *y, int64_t *index) {
  for (int64_t oy = 0; oy < p->planes.y.out; oy++) {
    NAME(line)(p, x, p->y[oy], y, index);
    y += p->planes.x.out;
    if (index) index += p->planes.x.out;
  }
}

static void NAME(give_back)(int64_t count, int64_t length, const T *g, const int64_t *index, T *x) {
  memset(x, 0, (size_t)length * sizeof *x);
  for (int64_t i = 0; i < count; i++)
    if (index[i] >= 0) x[index[i]] += g[i];
}
