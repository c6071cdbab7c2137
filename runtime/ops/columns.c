/* columns: takes windows out of images and adds them back. */
#include "ops/columns.h"

#include <string.h>

#include "base/parallel.h"

enum { IN_CACHE = 1 << 20, MOST = 1 << 22, ENOUGH = 256, LEAST = 16, SHARES = 4 };

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Columns that a tile should have: as many as stay in the cache, or, where those are few, as many
 * as matrix products want, within the bounds of scratch memory. */
static int64_t wanted_columns(ol_dtype dtype, int64_t rows) {
  const int64_t bytes = (int64_t)ol_dtype_size(dtype) * (rows > 0 ? rows : 1);
  int64_t columns = IN_CACHE / bytes;
  if (columns < ENOUGH) columns = MOST / bytes < ENOUGH ? MOST / bytes : ENOUGH;
  return columns < LEAST ? LEAST : columns / LEAST * LEAST;
}

ol_tiling ol_tiling_make(const ol_windows *planes, ol_dtype dtype, int64_t rows, bool apart) {
  const int64_t windows = planes->y.out * planes->x.out, total = planes->images;
  const int64_t wanted = wanted_columns(dtype, rows);
  ol_tiling t = { .windows = windows, .total = total, .images = 1, .pieces = 1, .piece = windows };
  if (windows == 0 || total == 0) {
    t.piece = 0;
    return t;
  }
  if (windows > wanted) {
    t.piece = ceiling(ceiling(windows, ceiling(windows, wanted)), LEAST) * LEAST;
    t.pieces = ceiling(windows, t.piece);
  } else if (!apart) {
    int64_t sets = ceiling(ceiling(total, wanted / windows), SHARES) * SHARES;
    t.images = ceiling(total, sets < total ? sets : total);
  }
  t.tiles = ceiling(total, t.images) * t.pieces;
  return t;
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

ol_tile ol_tiling_at(const ol_tiling *t, int64_t tile) {
  const int64_t image = tile / t->pieces * t->images, first = tile % t->pieces * t->piece;
  return (ol_tile){ .image = image,
                    .images = least_of(t->images, t->total - image),
                    .first = first,
                    .count = least_of(t->piece, t->windows - first) };
}

int64_t ol_tiling_columns(const ol_tiling *t) { return t->images * t->piece; }

/* A piece of an output row, windows [begin, end), of which [a, b) have the tap inside. */
#define ZERO_OUTSIDE(type)                                                                         \
  for (int64_t i = begin; i < a; i++) column[i - begin] = 0;                                       \
  for (int64_t i = b; i < end; i++) column[i - begin] = 0

#define DEFINE_ROWS(suffix, type)                                                                  \
  static inline void take_##suffix(const type *x, int64_t at, int64_t stride, int64_t begin,       \
                                   int64_t end, int64_t a, int64_t b, type *column) {              \
    ZERO_OUTSIDE(type);                                                                            \
    if (stride == 1 && b - a > 64)                                                                 \
      memcpy(column + (a - begin), x + (at + a), (size_t)(b - a) * sizeof(type));                  \
    else if (stride == 1)                                                                          \
      for (int64_t i = a; i < b; i++) column[i - begin] = x[at + i];                               \
    else                                                                                           \
      for (int64_t i = a; i < b; i++) column[i - begin] = x[at + i * stride];                      \
  }                                                                                                \
  static inline void add_##suffix(type *x, int64_t at, int64_t stride, int64_t begin, int64_t end, \
                                  int64_t a, int64_t b, const type *column) {                      \
    (void)end;                                                                                     \
    if (stride == 1)                                                                               \
      OL_APART for (int64_t i = a; i < b; i++) x[at + i] += column[i - begin];                     \
    else                                                                                           \
      for (int64_t i = a; i < b; i++) x[at + i * stride] += column[i - begin];                     \
  }

DEFINE_ROWS(f32, float)
DEFINE_ROWS(f64, double)

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/* Walks one row of the matrix, that of a tap (ky, kx) on the planes that begin at x, and does
 * `move` with each piece of an output row. */
#define DEFINE_WALK(name, type, plane_type, column_type, move)                                     \
  OL_KERNEL static void name(const ol_windows *p, const ol_tile *t, int64_t ky, int64_t kx,        \
                             plane_type *x, column_type *column) {                                 \
    const ol_axis *ax = &p->x, *ay = &p->y;                                                        \
    const int64_t sy = ol_axis_shift(ay, ky), sx = ol_axis_shift(ax, kx);                          \
    const int64_t step = p->channels * ay->size * ax->size;                                        \
    int64_t from, to;                                                                              \
    ol_axis_inside(ax, kx, &from, &to);                                                            \
    for (int64_t image = 0; image < t->images; image++, x += step) {                               \
      int64_t oy = t->first / ax->out, begin = t->first % ax->out, left = t->count;                \
      for (; left > 0; oy++) {                                                                     \
        const int64_t end = least_of(ax->out, begin + left), iy = oy * ay->stride + sy;            \
        const int64_t a = iy < 0 || iy >= ay->size ? end : clamp(from, begin, end);                \
        const int64_t b = clamp(to, a, end);                                                       \
        move(x, iy * ax->size + sx, ax->stride, begin, end, a, b, column);                         \
        column += end - begin;                                                                     \
        left -= end - begin;                                                                       \
        begin = 0;                                                                                 \
      }                                                                                            \
    }                                                                                              \
  }

DEFINE_WALK(take_row_f32, float, const float, float, take_f32)
DEFINE_WALK(take_row_f64, double, const double, double, take_f64)
DEFINE_WALK(add_row_f32, float, float, const float, add_f32)
DEFINE_WALK(add_row_f64, double, double, const double, add_f64)

/* The elements before the plane of a channel in a tile's first image. */
static int64_t plane_at(const ol_windows *p, const ol_tile *tile, int64_t channel) {
  return (tile->image * p->channels + channel) * p->y.size * p->x.size;
}

#define EACH_ROW(f32, f64)                                                                         \
  const int64_t taps = p->y.kernel * p->x.kernel, width = tile->images * tile->count;              \
  for (int64_t r = 0; r < rows; r++) {                                                             \
    const int64_t ky = (row + r) % taps / p->x.kernel, kx = (row + r) % p->x.kernel;               \
    const int64_t at = plane_at(p, tile, (row + r) / taps);                                        \
    if (dtype == OL_F32)                                                                           \
      f32;                                                                                         \
    else                                                                                           \
      f64;                                                                                         \
  }

void ol_columns_take(const ol_windows *p, ol_dtype dtype, const ol_tile *tile, int64_t row,
                     int64_t rows, const void *x, void *columns) {
  EACH_ROW(take_row_f32(p, tile, ky, kx, (const float *)x + at, (float *)columns + r * width),
           take_row_f64(p, tile, ky, kx, (const double *)x + at, (double *)columns + r * width))
}

void ol_columns_add(const ol_windows *p, ol_dtype dtype, const ol_tile *tile, int64_t row,
                    int64_t rows, const void *columns, void *x) {
  EACH_ROW(add_row_f32(p, tile, ky, kx, (float *)x + at, (const float *)columns + r * width),
           add_row_f64(p, tile, ky, kx, (double *)x + at, (const double *)columns + r * width))
}
