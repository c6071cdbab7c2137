/* depthwise_kernel: convolutions by channel for one type; a template, included once for each by
 * depthwise.c. The includer defines
 *   T        the type of elements       NAME(x)  the name of a function or type for it */

typedef T NAME(wide) __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));

typedef struct NAME(parts) {
  double *sums;
  T *plane, *result, *weights;
} NAME(parts);

static NAME(parts) NAME(scratch)(const job *j) {
  NAME(parts) s = { .sums = (double *)(j->scratch + (size_t)ol_thread() * j->share) };
  s.plane = (T *)(s.sums + j->c->out / j->c->groups * j->l.taps);
  s.result = s.plane + plane_size(&j->l);
  s.weights = s.result + result_size(&j->l);
  return s;
}

/* y (+)= the sum of shifted x, each times its weight; count is a multiple of TURN. */
OL_KERNEL static void NAME(correlate)(int64_t count, int64_t taps, const int64_t *at, const T *w,
                                      const T *x, T *y, bool add) {
  enum { WIDE = 64 / (int)sizeof(T), PARTS = TURN / WIDE };
  for (int64_t i = 0; i < count; i += TURN) {
    NAME(wide) sum[PARTS] = { 0 };
    for (int v = 0; add && v < PARTS; v++) sum[v] = *(NAME(wide) *)(y + i + WIDE * v);
    for (int64_t t = 0; t < taps; t++)
      for (int v = 0; v < PARTS; v++)
        sum[v] += w[t] * *(const NAME(wide) *)(x + i + at[t] + WIDE * v);
    for (int v = 0; v < PARTS; v++) *(NAME(wide) *)(y + i + WIDE * v) = sum[v];
  }
}

/* The sum of products; count is a multiple of TURN. */
OL_KERNEL static double NAME(dot)(int64_t count, const T *x, const T *y) {
  double lane[OL_SUM_LANES] = { 0 };
  for (int64_t i = 0; i < count; i += OL_SUM_LANES)
    for (int k = 0; k < OL_SUM_LANES; k++) lane[k] += (double)x[i + k] * (double)y[i + k];
  return ol_merge_lanes(lane);
}

/* A line of a phase: elements first, first + stride … of a line x, or zeros. */
static void NAME(lay_line)(const ol_axis *a, int64_t width, int64_t first, const T *x, T *to) {
  int64_t from = first < 0 ? ceiling(-first, a->stride) : 0;
  int64_t end = x && first < a->size ? ceiling(a->size - first, a->stride) : 0;
  if (end > width) end = width;
  if (from > end) from = end;
  memset(to, 0, (size_t)from * sizeof *to);
  if (a->stride == 1 && end > from)
    memcpy(to + from, x + (first + from), (size_t)(end - from) * sizeof *to);
  else
    for (int64_t i = from; i < end; i++) to[i] = x[first + i * a->stride];
  memset(to + end, 0, (size_t)(width - end) * sizeof *to);
}

static void NAME(lay_plane)(const ol_windows *p, const layout *l, const T *x, T *to) {
  for (int64_t phase = 0; phase < l->phases; phase++, to += l->area) {
    const int64_t top = remainder_at(&p->y, phase / l->x) - p->y.padding;
    const int64_t left = remainder_at(&p->x, phase % l->x) - p->x.padding;
    for (int64_t row = 0; row < l->height; row++) {
      const int64_t y = top + row * p->y.stride;
      const T *line = y >= 0 && y < p->y.size ? x + y * p->x.size : NULL;
      NAME(lay_line)(&p->x, l->width, left, line, to + row * l->width);
    }
    const int64_t used = l->width * l->height;
    memset(to + used, 0, (size_t)(l->area - used) * sizeof *to);
  }
  memset(to, 0, (size_t)(l->margin + TURN) * sizeof *to);
}

static void NAME(lay_result)(const ol_windows *p, const layout *l, const T *g, T *to) {
  memset(to, 0, (size_t)result_size(l) * sizeof *to);
  for (int64_t row = 0; row < p->y.out; row++)
    memcpy(to + l->margin + row * l->width, g + row * p->x.out, (size_t)p->x.out * sizeof *to);
}

/* The elements of an image out of the phases of its plane, plus bias. */
static void NAME(lift_plane)(const ol_windows *p, const layout *l, const T *plane, T bias, T *x) {
  for (int64_t i = 0; i < p->y.size * p->x.size; i++) x[i] = bias;
  for (int64_t phase = 0; phase < l->phases; phase++, plane += l->area) {
    const int64_t top = remainder_at(&p->y, phase / l->x) - p->y.padding;
    const int64_t left = remainder_at(&p->x, phase % l->x) - p->x.padding;
    for (int64_t row = 0; row < l->height; row++) {
      const int64_t y = top + row * p->y.stride;
      if (y < 0 || y >= p->y.size) continue;
      T *line = x + y * p->x.size;
      const T *from = plane + row * l->width;
      int64_t i = left < 0 ? ceiling(-left, p->x.stride) : 0;
      for (; i < l->width && left + i * p->x.stride < p->x.size; i++)
        line[left + i * p->x.stride] = bias + from[i];
    }
  }
}

static void NAME(take_weights)(const layout *l, const T *w, T *to) {
  for (int64_t i = 0; i < l->taps; i++) to[i] = w[l->tap[i]];
}

/* The results of one plane of an image, of which there are `each`. */
static void NAME(forward)(const job *j, int64_t plane) {
  const ol_windows *p = &j->c->planes;
  const layout *l = &j->l;
  const NAME(parts) s = NAME(scratch)(j);
  const int64_t each = j->c->out / j->c->groups, channel = plane % p->channels * each;
  T *y = (T *)j->to + plane * each * p->y.out * p->x.out;
  NAME(lay_plane)(p, l, (const T *)j->x + plane * p->y.size * p->x.size, s.plane);
  for (int64_t o = channel; o < channel + each; o++) {
    const T bias = j->bias ? ((const T *)j->bias)[o] : 0;
    NAME(take_weights)(l, (const T *)j->w + o * l->taps, s.weights);
    NAME(correlate)(ceiling((p->y.out - 1) * l->width + p->x.out, TURN) * TURN, l->taps, l->at,
                    s.weights, s.plane, s.result, false);
    for (int64_t row = 0; row < p->y.out; row++)
      for (int64_t i = 0; i < p->x.out; i++) *y++ = s.result[row * l->width + i] + bias;
  }
}

/* What the results of one plane of an image give back to it. */
static void NAME(back)(const job *j, int64_t plane) {
  const ol_windows *p = &j->c->planes;
  const layout *l = &j->l;
  const NAME(parts) s = NAME(scratch)(j);
  const int64_t each = j->c->out / j->c->groups, channel = plane % p->channels;
  for (int64_t m = 0; m < each; m++) {
    NAME(take_weights)(l, (const T *)j->w + (channel * each + m) * l->taps, s.weights);
    NAME(lay_result)(p, l, (const T *)j->g + (plane * each + m) * p->y.out * p->x.out, s.result);
    for (int64_t phase = 0; phase < l->phases; phase++) {
      const int64_t first = l->first[phase], taps = l->first[phase + 1] - first;
      NAME(correlate)(l->area, taps, l->back + first, s.weights + first, s.result,
                      s.plane + phase * l->area, m > 0);
    }
  }
  NAME(lift_plane)(p, l, s.plane, j->bias ? ((const T *)j->bias)[channel] : 0,
                   (T *)j->to + plane * p->y.size * p->x.size);
}

/* The gradients of the weights of a channel of the images. */
static void NAME(weight)(const job *j, int64_t channel) {
  const ol_windows *p = &j->c->planes;
  const layout *l = &j->l;
  const NAME(parts) s = NAME(scratch)(j);
  const int64_t each = j->c->out / j->c->groups;
  memset(s.sums, 0, (size_t)(each * l->taps) * sizeof *s.sums);
  for (int64_t image = 0; image < p->images; image++) {
    const int64_t plane = image * p->channels + channel;
    NAME(lay_plane)(p, l, (const T *)j->x + plane * p->y.size * p->x.size, s.plane);
    for (int64_t m = 0; m < each; m++) {
      NAME(lay_result)(p, l, (const T *)j->g + (plane * each + m) * p->y.out * p->x.out, s.result);
      for (int64_t i = 0; i < l->taps; i++)
        s.sums[m * l->taps + l->tap[i]] +=
            NAME(dot)(l->area, s.result + l->margin, s.plane + l->at[i]);
    }
  }
  T *to = (T *)j->to + channel * each * l->taps;
  for (int64_t i = 0; i < each * l->taps; i++) to[i] = (T)s.sums[i];
}
