/* depthwise: convolutions whose groups have one channel each.
 *
 * A plane is laid out so that every tap is one shift: with its padding, and cut into phases, one
 * for each remainder of a row and of a column by the stride. A result with lines as long as those
 * of a phase is then a sum of shifted phases, without a look at borders; what it holds between its
 * own lines is left out. */
#include <string.h>

#include "base/lanes.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "ops/convolve.h"

enum { TURN = 64 }; /* elements of a turn of the loops */

/* How planes are laid out; the same for all. */
typedef struct layout {
  int64_t width, height;    /* of a phase */
  int64_t area;             /* elements from a phase to the next: a multiple of TURN */
  int64_t y, x;             /* remainders of rows and of columns at which there are taps */
  int64_t phases, taps;     /* phases: each remainder of a row with each of a column */
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

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Remainders of the places of taps by the stride: those of the first taps, which then repeat. */
static int64_t remainders(const ol_axis *a) {
  const int64_t period = a->stride / common_divisor(a->stride, a->dilation);
  return a->kernel < period ? a->kernel : period;
}

static int64_t remainder_at(const ol_axis *a, int64_t place) {
  return place * a->dilation % a->stride;
}

/* The numbers of a layout. */
static layout measure(const ol_windows *p) {
  layout l = { .y = remainders(&p->y), .x = remainders(&p->x) };
  l.taps = p->y.kernel * p->x.kernel;
  l.phases = l.y * l.x;
  l.width = ceiling(reach(&p->x), p->x.stride);
  l.height = ceiling(reach(&p->y), p->y.stride);
  l.area = ceiling(l.width * l.height, TURN) * TURN;
  l.margin = shift_of(&p->y, p->y.kernel - 1) * l.width + shift_of(&p->x, p->x.kernel - 1);
  return l;
}

/* All sizes here are those of tensors, or products of two of at most 32 bits, but areas are
 * products of such products: they are measured as doubles first. */
bool ol_depthwise_pays(const ol_convolution *c) {
  enum { SMALL = 1024, TIMES = 8 };
  const ol_windows *p = &c->planes;
  const double windows = (double)p->y.out * (double)p->x.out;
  const double image = (double)p->y.size * (double)p->x.size;
  if (c->groups != p->channels || c->groups < 2 || c->out == 0 || windows == 0) return false;
  const double width = (double)reach(&p->x) / (double)p->x.stride + 1;
  const double height = (double)reach(&p->y) / (double)p->y.stride + 1;
  const double phases = (double)remainders(&p->y) * (double)remainders(&p->x);
  return width * height <= SMALL + TIMES * windows &&
         phases * (width * height + TURN) <= TIMES * (SMALL + image + windows);
}

/* Lists the taps phase by phase. */
static void list_taps(const ol_windows *p, layout *l) {
  int64_t n = 0;
  for (int64_t phase = 0; phase < l->phases; phase++) {
    l->first[phase] = n;
    for (int64_t ky = phase / l->x; ky < p->y.kernel; ky += l->y)
      for (int64_t kx = phase % l->x; kx < p->x.kernel; kx += l->x) {
        const int64_t shift = shift_of(&p->y, ky) * l->width + shift_of(&p->x, kx);
        l->tap[n] = ky * p->x.kernel + kx;
        l->at[n] = phase * l->area + shift;
        l->back[n++] = l->margin - shift;
      }
  }
  l->first[l->phases] = n;
}

/* Makes a layout; its lists are one block, which begins with `first`. */
static ol_status make_layout(ol_error *error, const ol_windows *p, layout *out) {
  layout l = measure(p);
  void *block;
  const size_t count = (size_t)(l.phases + 1 + 3 * l.taps);
  OL_TRY(ol_alloc_for(error, count * sizeof(int64_t), "taps of a convolution", &block));
  l.first = block;
  l.tap = l.first + l.phases + 1;
  l.at = l.tap + l.taps;
  l.back = l.at + l.taps;
  list_taps(p, &l);
  *out = l;
  return OL_OK;
}

/* A thread's scratch: the sums of taps, a plane, a result, weights. */
static int64_t plane_size(const layout *l) { return (l->phases * l->area + l->margin) + TURN; }

static int64_t result_size(const layout *l) { return l->margin + l->area + TURN; }

static ol_status make_job(ol_error *error, const ol_convolution *c, job *j) {
  void *scratch;
  j->c = c;
  OL_TRY(make_layout(error, &c->planes, &j->l));
  const int64_t elements = plane_size(&j->l) + result_size(&j->l) + j->l.taps;
  const int64_t each = c->out / c->groups;
  j->share = (size_t)(each * j->l.taps) * sizeof(double) +
             (size_t)elements * ol_dtype_size(c->dtype) + OL_ALIGNMENT;
  j->share = j->share / OL_ALIGNMENT * OL_ALIGNMENT;
  ol_status status =
      ol_alloc_for(error, j->share * (size_t)ol_threads(), "scratch of a convolution", &scratch);
  if (status == OL_OK)
    j->scratch = scratch;
  else
    ol_free(j->l.first);
  return status;
}

static void free_job(job *j) {
  ol_free(j->scratch);
  ol_free(j->l.first);
}

#define T       float
#define NAME(x) x##_f32
#include "ops/depthwise_kernel.h"
#undef T
#undef NAME
#define T       double
#define NAME(x) x##_f64
#include "ops/depthwise_kernel.h"

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
  const double work = (double)planes * (double)(j->l.taps / 4 + 2) * (double)j->l.area;
  ol_parallel_for(items, ol_grain(work), fn, j);
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
