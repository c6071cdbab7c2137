/* depthwise: convolutions whose groups have one channel each.
 *
 * A plane is laid out so that every tap is one shift: with its padding, and cut into phases, one
 * for each remainder of a row and of a column by the stride. A result with lines as long as those
 * of a phase is then a sum of shifted phases, without a look at borders; what it holds between its
 * own lines is left out. */
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "ops/convolve.h"

enum { TURN = 64, LANES = 16 }; /* elements of a turn of the loops; lanes of sums */

/* The remainders of one dimension at which there are taps. */
typedef struct remainders {
  int64_t count, *list;
} remainders;

/* How planes are laid out; the same for all. */
typedef struct layout {
  int64_t width, height; /* of a phase */
  int64_t area;          /* elements from a phase to the next: a multiple of TURN */
  remainders y, x;       /* phases: each of y with each of x */
  int64_t phases, taps;
  int64_t margin;           /* zeros before a result: the largest shift */
  int64_t *first;           /* of each phase, and at the end: its taps among those below */
  int64_t *tap, *at, *back; /* by phase: its number; where it reads a plane, and a result */
} layout;

typedef struct job {
  const ol_convolution *c;
  layout l;
  const void *x, *g, *w, *bias;
  void *to;
  char *scratch;
  size_t share; /* bytes of a thread */
} job;

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The padded elements that windows reach. */
static int64_t reach(const ol_axis *a) {
  return (a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1;
}

static int64_t shift_of(const ol_axis *a, int64_t tap) { return tap * a->dilation / a->stride; }

static int64_t remainder_of(const ol_axis *a, int64_t tap) { return tap * a->dilation % a->stride; }

/* Where a remainder is in a list; it is added where it is not. */
static int64_t place_of(remainders *r, int64_t remainder) {
  int64_t i = 0;
  while (i < r->count && r->list[i] != remainder) i++;
  if (i == r->count) r->list[r->count++] = remainder;
  return i;
}

static void list_remainders(const ol_axis *a, remainders *r) {
  for (int64_t tap = 0; tap < a->kernel; tap++) place_of(r, remainder_of(a, tap));
}

/* Lists the taps phase by phase. */
static void list_taps(const ol_windows *p, layout *l) {
  int64_t n = 0;
  for (int64_t phase = 0; phase < l->phases; phase++) {
    l->first[phase] = n;
    for (int64_t k = 0; k < l->taps; k++) {
      const int64_t ky = k / p->x.kernel, kx = k % p->x.kernel;
      const int64_t row = place_of(&l->y, remainder_of(&p->y, ky));
      if (row * l->x.count + place_of(&l->x, remainder_of(&p->x, kx)) != phase) continue;
      const int64_t shift = shift_of(&p->y, ky) * l->width + shift_of(&p->x, kx);
      l->tap[n] = k;
      l->at[n] = phase * l->area + shift;
      l->back[n++] = l->margin - shift;
    }
  }
  l->first[l->phases] = n;
}

/* Numbers a layout; its lists are one block, which begins with y.list. */
static ol_status make_layout(ol_error *error, const ol_windows *p, layout *l) {
  void *block;
  *l = (layout){ .taps = p->y.kernel * p->x.kernel };
  l->width = ceiling(reach(&p->x), p->x.stride);
  l->height = ceiling(reach(&p->y), p->y.stride);
  l->area = ceiling(l->width * l->height, TURN) * TURN;
  l->margin = shift_of(&p->y, p->y.kernel - 1) * l->width + shift_of(&p->x, p->x.kernel - 1);
  const size_t count = (size_t)(p->y.kernel + p->x.kernel + 1 + 4 * l->taps);
  OL_TRY(ol_alloc_for(error, count * sizeof(int64_t), "taps of a convolution", &block));
  l->y.list = block;
  l->x.list = l->y.list + p->y.kernel;
  l->tap = l->x.list + p->x.kernel;
  l->at = l->tap + l->taps;
  l->back = l->at + l->taps;
  l->first = l->back + l->taps;
  list_remainders(&p->y, &l->y);
  list_remainders(&p->x, &l->x);
  l->phases = l->y.count * l->x.count;
  list_taps(p, l);
  return OL_OK;
}

/* A thread's scratch: the sums of taps, a plane, a result, weights. */
static int64_t plane_size(const layout *l) { return (l->phases * l->area + l->margin) + TURN; }

static int64_t result_size(const layout *l) { return l->margin + l->area + TURN; }

static ol_status make_job(ol_error *error, const ol_convolution *c, job *j) {
  j->c = c;
  OL_TRY(make_layout(error, &c->planes, &j->l));
  const int64_t elements = plane_size(&j->l) + result_size(&j->l) + j->l.taps;
  const int64_t each = c->out / c->groups;
  j->share = (size_t)(each * j->l.taps) * sizeof(double) +
             (size_t)elements * ol_dtype_size(c->dtype) + OL_ALIGNMENT;
  j->share = j->share / OL_ALIGNMENT * OL_ALIGNMENT;
  ol_status status = ol_alloc_for(error, j->share * (size_t)ol_threads(),
                                  "scratch of a convolution", (void **)&j->scratch);
  if (status != OL_OK) ol_free(j->l.y.list);
  return status;
}

static void free_job(job *j) {
  ol_free(j->scratch);
  ol_free(j->l.y.list);
}

#define DEFINE(suffix, type)                                                                       \
  typedef type wide_##suffix __attribute__((vector_size(64), aligned(sizeof(type)), may_alias));   \
                                                                                                   \
  typedef struct parts_##suffix {                                                                  \
    double *sums;                                                                                  \
    type *plane, *result, *weights;                                                                \
  } parts_##suffix;                                                                                \
                                                                                                   \
  static parts_##suffix scratch_##suffix(const job *j) {                                           \
    parts_##suffix s = { .sums = (double *)(j->scratch + (size_t)ol_thread() * j->share) };        \
    s.plane = (type *)(s.sums + j->c->out / j->c->groups * j->l.taps);                             \
    s.result = s.plane + plane_size(&j->l);                                                        \
    s.weights = s.result + result_size(&j->l);                                                     \
    return s;                                                                                      \
  }                                                                                                \
  /* y (+)= the sum of shifted x, each times its weight; count is a multiple of TURN. */           \
  OL_KERNEL static void correlate_##suffix(int64_t count, int64_t taps, const int64_t *at,         \
                                           const type *w, const type *x, type *y, bool add) {      \
    enum { WIDE = 64 / (int)sizeof(type), PARTS = TURN / WIDE };                                   \
    for (int64_t i = 0; i < count; i += TURN) {                                                    \
      wide_##suffix sum[PARTS] = { 0 };                                                            \
      for (int v = 0; add && v < PARTS; v++) sum[v] = *(wide_##suffix *)(y + i + WIDE * v);        \
      for (int64_t t = 0; t < taps; t++)                                                           \
        for (int v = 0; v < PARTS; v++)                                                            \
          sum[v] += w[t] * *(const wide_##suffix *)(x + i + at[t] + WIDE * v);                     \
      for (int v = 0; v < PARTS; v++) *(wide_##suffix *)(y + i + WIDE * v) = sum[v];               \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static double dot_##suffix(int64_t count, const type *x, const type *y) {              \
    double lane[LANES] = { 0 };                                                                    \
    for (int64_t i = 0; i < count; i += LANES)                                                     \
      for (int k = 0; k < LANES; k++) lane[k] += (double)x[i + k] * (double)y[i + k];              \
    for (int width = LANES / 2; width > 0; width /= 2)                                             \
      for (int k = 0; k < width; k++) lane[k] += lane[k + width];                                  \
    return lane[0];                                                                                \
  }                                                                                                \
  /* A line of a phase: elements first, first + stride … of a line x, or zeros. */                 \
  static void lay_line_##suffix(const ol_axis *a, int64_t width, int64_t first, const type *x,     \
                                type *to) {                                                        \
    int64_t from = first < 0 ? ceiling(-first, a->stride) : 0;                                     \
    int64_t end = x && first < a->size ? ceiling(a->size - first, a->stride) : 0;                  \
    if (end > width) end = width;                                                                  \
    if (from > end) from = end;                                                                    \
    memset(to, 0, (size_t)from * sizeof *to);                                                      \
    if (a->stride == 1 && end > from)                                                              \
      memcpy(to + from, x + first + from, (size_t)(end - from) * sizeof *to);                      \
    else                                                                                           \
      for (int64_t i = from; i < end; i++) to[i] = x[first + i * a->stride];                       \
    memset(to + end, 0, (size_t)(width - end) * sizeof *to);                                       \
  }                                                                                                \
  static void lay_plane_##suffix(const ol_windows *p, const layout *l, const type *x, type *to) {  \
    for (int64_t phase = 0; phase < l->phases; phase++, to += l->area) {                           \
      const int64_t top = l->y.list[phase / l->x.count] - p->y.padding;                            \
      const int64_t left = l->x.list[phase % l->x.count] - p->x.padding;                           \
      for (int64_t row = 0; row < l->height; row++) {                                              \
        const int64_t y = top + row * p->y.stride;                                                 \
        const type *line = y >= 0 && y < p->y.size ? x + y * p->x.size : NULL;                     \
        lay_line_##suffix(&p->x, l->width, left, line, to + row * l->width);                       \
      }                                                                                            \
      const int64_t used = l->width * l->height;                                                   \
      memset(to + used, 0, (size_t)(l->area - used) * sizeof *to);                                 \
    }                                                                                              \
    memset(to, 0, (size_t)(l->margin + TURN) * sizeof *to);                                        \
  }                                                                                                \
  static void lay_result_##suffix(const ol_windows *p, const layout *l, const type *g, type *to) { \
    memset(to, 0, (size_t)result_size(l) * sizeof *to);                                            \
    for (int64_t row = 0; row < p->y.out; row++)                                                   \
      memcpy(to + l->margin + row * l->width, g + row * p->x.out, (size_t)p->x.out * sizeof *to);  \
  }                                                                                                \
  /* The elements of an image out of the phases of its plane, plus bias. */                        \
  static void lift_plane_##suffix(const ol_windows *p, const layout *l, const type *plane,         \
                                  type bias, type *x) {                                            \
    for (int64_t i = 0; i < p->y.size * p->x.size; i++) x[i] = bias;                               \
    for (int64_t phase = 0; phase < l->phases; phase++, plane += l->area) {                        \
      const int64_t top = l->y.list[phase / l->x.count] - p->y.padding;                            \
      const int64_t left = l->x.list[phase % l->x.count] - p->x.padding;                           \
      for (int64_t row = 0; row < l->height; row++) {                                              \
        const int64_t y = top + row * p->y.stride;                                                 \
        if (y < 0 || y >= p->y.size) continue;                                                     \
        type *line = x + y * p->x.size;                                                            \
        const type *from = plane + row * l->width;                                                 \
        int64_t i = left < 0 ? ceiling(-left, p->x.stride) : 0;                                    \
        for (; i < l->width && left + i * p->x.stride < p->x.size; i++)                            \
          line[left + i * p->x.stride] = bias + from[i];                                           \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static void take_weights_##suffix(const layout *l, const type *w, type *to) {                    \
    for (int64_t i = 0; i < l->taps; i++) to[i] = w[l->tap[i]];                                    \
  }                                                                                                \
  /* The results of one plane of an image, of which there are `each`. */                           \
  static void forward_##suffix(const job *j, int64_t plane) {                                      \
    const ol_windows *p = &j->c->planes;                                                           \
    const layout *l = &j->l;                                                                       \
    const parts_##suffix s = scratch_##suffix(j);                                                  \
    const int64_t each = j->c->out / j->c->groups, channel = plane % p->channels * each;           \
    type *y = (type *)j->to + plane * each * p->y.out * p->x.out;                                  \
    lay_plane_##suffix(p, l, (const type *)j->x + plane * p->y.size * p->x.size, s.plane);         \
    for (int64_t o = channel; o < channel + each; o++) {                                           \
      const type bias = j->bias ? ((const type *)j->bias)[o] : 0;                                  \
      take_weights_##suffix(l, (const type *)j->w + o * l->taps, s.weights);                       \
      correlate_##suffix(ceiling((p->y.out - 1) * l->width + p->x.out, TURN) * TURN, l->taps,      \
                         l->at, s.weights, s.plane, s.result, false);                              \
      for (int64_t row = 0; row < p->y.out; row++)                                                 \
        for (int64_t i = 0; i < p->x.out; i++) *y++ = s.result[row * l->width + i] + bias;         \
    }                                                                                              \
  }                                                                                                \
  /* What the results of one plane of an image give back to it. */                                 \
  static void back_##suffix(const job *j, int64_t plane) {                                         \
    const ol_windows *p = &j->c->planes;                                                           \
    const layout *l = &j->l;                                                                       \
    const parts_##suffix s = scratch_##suffix(j);                                                  \
    const int64_t each = j->c->out / j->c->groups, channel = plane % p->channels;                  \
    for (int64_t m = 0; m < each; m++) {                                                           \
      take_weights_##suffix(l, (const type *)j->w + (channel * each + m) * l->taps, s.weights);    \
      lay_result_##suffix(p, l, (const type *)j->g + (plane * each + m) * p->y.out * p->x.out,     \
                          s.result);                                                               \
      for (int64_t phase = 0; phase < l->phases; phase++) {                                        \
        const int64_t first = l->first[phase], taps = l->first[phase + 1] - first;                 \
        correlate_##suffix(l->area, taps, l->back + first, s.weights + first, s.result,            \
                           s.plane + phase * l->area, m > 0);                                      \
      }                                                                                            \
    }                                                                                              \
    lift_plane_##suffix(p, l, s.plane, j->bias ? ((const type *)j->bias)[channel] : 0,             \
                        (type *)j->to + plane * p->y.size * p->x.size);                            \
  }                                                                                                \
  /* The gradients of the weights of a channel of the images. */                                   \
  static void weight_##suffix(const job *j, int64_t channel) {                                     \
    const ol_windows *p = &j->c->planes;                                                           \
    const layout *l = &j->l;                                                                       \
    const parts_##suffix s = scratch_##suffix(j);                                                  \
    const int64_t each = j->c->out / j->c->groups;                                                 \
    memset(s.sums, 0, (size_t)(each * l->taps) * sizeof *s.sums);                                  \
    for (int64_t image = 0; image < p->images; image++) {                                          \
      const int64_t plane = image * p->channels + channel;                                         \
      lay_plane_##suffix(p, l, (const type *)j->x + plane * p->y.size * p->x.size, s.plane);       \
      for (int64_t m = 0; m < each; m++) {                                                         \
        lay_result_##suffix(p, l, (const type *)j->g + (plane * each + m) * p->y.out * p->x.out,   \
                            s.result);                                                             \
        for (int64_t i = 0; i < l->taps; i++)                                                      \
          s.sums[m * l->taps + l->tap[i]] +=                                                       \
              dot_##suffix(l->area, s.result + l->margin, s.plane + l->at[i]);                     \
      }                                                                                            \
    }                                                                                              \
    type *to = (type *)j->to + channel * each * l->taps;                                           \
    for (int64_t i = 0; i < each * l->taps; i++) to[i] = (type)s.sums[i];                          \
  }

DEFINE(f32, float)
DEFINE(f64, double)

#define RANGE(name)                                                                                \
  static void name##_range(int64_t begin, int64_t end, void *context) {                            \
    const job *j = context;                                                                        \
    for (int64_t i = begin; i < end; i++)                                                          \
      j->c->dtype == OL_F32 ? name##_f32(j, i) : name##_f64(j, i);                                 \
  }

RANGE(forward)
RANGE(back)
RANGE(weight)

static void run(job *j, int64_t items, int64_t planes, ol_range_fn *fn) {
  const int64_t work = planes * (j->l.taps / 4 + 2) * j->l.area;
  ol_parallel_for(items, 1 + OL_GRAIN / work, fn, j);
  free_job(j);
}

ol_status ol_depthwise(ol_error *error, const ol_convolution *c, const void *x, const void *w,
                       const void *bias, void *y) {
  job j = { .x = x, .w = w, .bias = bias, .to = y };
  OL_TRY(make_job(error, c, &j));
  run(&j, c->planes.images * c->planes.channels, c->out / c->groups, forward_range);
  return OL_OK;
}

ol_status ol_depthwise_back(ol_error *error, const ol_convolution *c, const void *g, const void *w,
                            const void *bias, void *x) {
  job j = { .g = g, .w = w, .bias = bias, .to = x };
  OL_TRY(make_job(error, c, &j));
  run(&j, c->planes.images * c->planes.channels, c->out / c->groups, back_range);
  return OL_OK;
}

ol_status ol_depthwise_weight(ol_error *error, const ol_convolution *c, const void *x,
                              const void *g, void *w) {
  job j = { .x = x, .g = g, .to = w };
  OL_TRY(make_job(error, c, &j));
  run(&j, c->groups, 1 + c->planes.images * (c->out / c->groups), weight_range);
  return OL_OK;
}
