/* softcolumns: columns side by side in a tile, whose rows are visited in order.
 *
 * The sum of a column runs down its rows in double, so that it depends on the column alone. */
#include "ops/softcolumns.h"

#include <math.h>

#include "base/parallel.h"
#include "base/vecmath.h"

enum { WIDEST = 512, NARROWEST = 64, IN_CACHE = 1 << 17, AT_ONCE = 2048 };

typedef struct job {
  const ol_softcolumns *shape;
  const char *x; /* of the slope the result */
  const char *g; /* of the slope */
  char *y;
  int64_t width, tiles; /* of columns */
} job;

/* A tile: columns [0, width) from where x, g and y begin. */
typedef struct tile {
  int64_t count, inner, width;
  bool logs;
  const void *x, *g;
  void *y;
} tile;

/* Rows that lie one behind the other and are worth one call of vecmath. */
static int64_t rows_at_once(const tile *t) {
  return t->width == t->inner && t->width < AT_ONCE ? AT_ONCE / t->width : 1;
}

/* clang-format off */
#define EACH_ROW for (int64_t r = 0, at = 0; r < t->count; r++, at += t->inner)
#define EACH     OL_APART for (int64_t i = 0; i < width; i++)

/* Kernels over the rows [begin, end) of a tile, and softmax and its slope made of them. */
#define DEFINE_COLUMNS(suffix, type)                                                               \
  OL_KERNEL static void greatest_##suffix(const tile *t, type *max) {                              \
    const int64_t width = t->width;                                                                \
    const type *x = t->x;                                                                          \
    EACH max[i] = -INFINITY;                                                                       \
    EACH_ROW EACH max[i] = x[at + i] > max[i] ? x[at + i] : max[i];                                \
  }                                                                                                \
  OL_KERNEL static void less_##suffix(const tile *t, int64_t begin, int64_t end,                   \
                                      const type *max) {                                           \
    const int64_t width = t->width;                                                                \
    for (int64_t r = begin; r < end; r++) {                                                        \
      const type *x = (const type *)t->x + r * t->inner;                                           \
      type *y = (type *)t->y + r * t->inner;                                                       \
      EACH y[i] = x[i] - (max[i] == -INFINITY ? 0 : max[i]);                                       \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static void add_##suffix(int64_t width, int64_t rows, int64_t step, const type *y,     \
                                     double *sum) {                                                \
    for (; rows-- > 0; y += step) EACH sum[i] += (double)y[i];                                     \
  }                                                                                                \
  OL_KERNEL static void scale_##suffix(const tile *t, const double *sum) {                         \
    double share[WIDEST];                                                                          \
    const int64_t width = t->width;                                                                \
    type *y = t->y;                                                                                \
    EACH share[i] = 1 / sum[i];                                                                    \
    EACH_ROW EACH y[at + i] = (type)((double)y[at + i] * share[i]);                                \
  }                                                                                                \
  OL_KERNEL static void logs_##suffix(const tile *t, const type *max, const double *log) {         \
    const int64_t width = t->width;                                                                \
    const type *x = t->x;                                                                          \
    type *y = t->y;                                                                                \
    EACH_ROW EACH y[at + i] = (type)((double)x[at + i] - (double)max[i] - log[i]);                 \
  }                                                                                                \
  static void forward_##suffix(const tile *t) {                                                    \
    type max[WIDEST];                                                                              \
    double sum[WIDEST] = { 0 };                                                                    \
    greatest_##suffix(t, max);                                                                     \
    for (int64_t r = 0, some = rows_at_once(t); r < t->count; r += some) {                         \
      const int64_t rows = t->count - r < some ? t->count - r : some;                              \
      type *y = (type *)t->y + r * t->inner;                                                       \
      less_##suffix(t, r, r + rows, max);                                                          \
      ol_vexp_##suffix(rows * t->width, y, y);                                                     \
      add_##suffix(t->width, rows, t->inner, y, sum);                                              \
    }                                                                                              \
    if (!t->logs) {                                                                                \
      scale_##suffix(t, sum);                                                                      \
      return;                                                                                      \
    }                                                                                              \
    ol_vlog_f64(t->width, sum, sum);                                                               \
    logs_##suffix(t, max, sum);                                                                    \
  }                                                                                                \
  OL_KERNEL static void slope_##suffix(const tile *t) {                                            \
    double dot[WIDEST] = { 0 };                                                                    \
    const int64_t width = t->width;                                                                \
    const type *x = t->x, *g = t->g;                                                               \
    type *y = t->y;                                                                                \
    EACH_ROW EACH dot[i] += (double)x[at + i] * (double)g[at + i];                                 \
    EACH_ROW EACH y[at + i] = (type)((double)x[at + i] * ((double)g[at + i] - dot[i]));            \
  }                                                                                                \
  OL_KERNEL static void leave_##suffix(int64_t width, int64_t rows, int64_t step, const type *g,   \
                                       const double *sum, type *y) {                               \
    for (; rows-- > 0; y += step, g += step)                                                       \
      EACH y[i] = (type)((double)g[i] - (double)y[i] * sum[i]);                                    \
  }                                                                                                \
  static void log_slope_##suffix(const tile *t) {                                                  \
    double sum[WIDEST] = { 0 };                                                                    \
    add_##suffix(t->width, t->count, t->inner, t->g, sum);                                         \
    for (int64_t r = 0, some = rows_at_once(t); r < t->count; r += some) {                         \
      const int64_t rows = t->count - r < some ? t->count - r : some, at = r * t->inner;           \
      type *y = (type *)t->y + at;                                                                 \
      ol_vexp_##suffix(rows * t->width, (const type *)t->x + at, y);                               \
      leave_##suffix(t->width, rows, t->inner, (const type *)t->g + at, sum, y);                   \
    }                                                                                              \
  }
/* clang-format on */

DEFINE_COLUMNS(f32, float)
DEFINE_COLUMNS(f64, double)

static void run_tile(const job *j, int64_t number) {
  const ol_softcolumns *s = j->shape;
  const int64_t column = number % j->tiles * j->width, left = s->inner - column;
  const int64_t at =
      (number / j->tiles * s->count * s->inner + column) * (int64_t)ol_dtype_size(s->dtype);
  const tile t = { .count = s->count,
                   .inner = s->inner,
                   .width = left < j->width ? left : j->width,
                   .logs = s->logs,
                   .x = j->x + at,
                   .g = j->g ? j->g + at : NULL,
                   .y = j->y + at };
  const bool narrow = s->dtype == OL_F32;
  if (!j->g)
    (narrow ? forward_f32 : forward_f64)(&t);
  else if (s->logs)
    (narrow ? log_slope_f32 : log_slope_f64)(&t);
  else
    (narrow ? slope_f32 : slope_f64)(&t);
}

static void run_tiles(int64_t begin, int64_t end, void *context) {
  for (int64_t i = begin; i < end; i++) run_tile(context, i);
}

/* Tiles are as wide as the cache allows. */
static void run(job *j) {
  const ol_softcolumns *s = j->shape;
  if (s->outer * s->count * s->inner == 0) return;
  j->width = IN_CACHE / s->count / NARROWEST * NARROWEST;
  if (j->width < NARROWEST) j->width = NARROWEST;
  if (j->width > WIDEST) j->width = WIDEST;
  j->tiles = (s->inner + j->width - 1) / j->width;
  const int64_t width = s->inner < j->width ? s->inner : j->width;
  ol_parallel_for(s->outer * j->tiles, ol_grain(4.0 * (double)(s->count * width)), run_tiles, j);
}

void ol_softcolumns_run(const ol_softcolumns *shape, const void *x, void *y) {
  run(&(job){ .shape = shape, .x = x, .y = y });
}

void ol_softcolumns_slope(const ol_softcolumns *shape, const void *y, const void *g, void *dx) {
  run(&(job){ .shape = shape, .x = y, .g = g, .y = dx });
}
