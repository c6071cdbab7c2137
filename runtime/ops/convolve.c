/* convolve: convolutions as matrix products over tiles of windows. */
#include "ops/convolve.h"

#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "ops/columns.h"
#include "tensor/blas.h"

enum { BLOCKS = 4, PARTS = 8, PART_BYTES = 1 << 22, FEW_WINDOWS = 64, FEW_ROWS = 16 };

typedef struct work {
  const ol_convolution *c;
  ol_tiling tiling;
  bool direct;                      /* windows are single elements: images are their columns */
  int64_t inner, outer, taps, rows; /* channels of a group, of images and results; inner * taps */
  const char *x, *g, *w, *bias;     /* what is read */
  char *to;                         /* what is written: result, images or weights */
  char *scratch;                    /* of each thread: columns, then a panel */
  size_t share, panel;              /* bytes of a thread's scratch; where its panel begins */
  int64_t blocks;                   /* into which the rows of a group are cut */
  int64_t parts;                    /* into which tiles are cut */
} work;

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

static size_t bytes(const work *j, int64_t elements) {
  return (size_t)elements * ol_dtype_size(j->c->dtype);
}

static bool is_direct(const ol_windows *p) {
  const bool unit = p->y.kernel == 1 && p->x.kernel == 1 && p->y.stride == 1 && p->x.stride == 1 &&
                    p->y.padding == 0 && p->x.padding == 0;
  return unit && p->y.out * p->x.out >= FEW_WINDOWS;
}

static work work_of(const ol_convolution *c) {
  const ol_windows *p = &c->planes;
  work j = { .c = c, .direct = is_direct(p), .blocks = 1, .parts = 1 };
  j.inner = p->channels / c->groups;
  j.outer = c->out / c->groups;
  j.taps = p->y.kernel * p->x.kernel;
  j.rows = j.inner * j.taps;
  j.tiling = ol_tiling_make(p, c->dtype, j.rows + j.outer, j.direct);
  return j;
}

static ol_status make_scratch(ol_error *error, work *j) {
  const int64_t columns = ol_tiling_columns(&j->tiling);
  j->panel = (bytes(j, j->direct ? 0 : j->rows * columns) + OL_ALIGNMENT - 1) / OL_ALIGNMENT *
             OL_ALIGNMENT;
  j->share = j->panel + bytes(j, j->tiling.images > 1 ? j->outer * columns : 0) + OL_ALIGNMENT;
  j->share = j->share / OL_ALIGNMENT * OL_ALIGNMENT;
  return OL_ALLOC(error, j->share * (size_t)ol_threads(), "scratch of a convolution", &j->scratch);
}

/* How many items of so many multiplications are worth another thread. */
static int64_t grain(const work *j, int64_t items) {
  const double all = (double)j->rows * (double)j->outer * (double)j->c->groups *
                     (double)j->tiling.total * (double)j->tiling.windows;
  const double each = all / (double)(items > 0 ? items : 1);
  return ol_grain(each / 8);
}

static char *own_scratch(const work *j) { return j->scratch + (size_t)ol_thread() * j->share; }

static int64_t width_of(const ol_tile *tile) { return tile->images * tile->count; }

/* Where channel `channel` of the result begins in a tile's first image. */
static int64_t result_at(const work *j, const ol_tile *tile, int64_t channel) {
  return (tile->image * j->c->out + channel) * j->tiling.windows + tile->first;
}

/* A group's channels of the result over a tile: in place where the tile is of one image, else in
 * the panel. */
static ol_matrix panel_of(const work *j, const ol_tile *tile, int64_t group, const char *result) {
  if (tile->images > 1)
    return (ol_matrix){ own_scratch(j) + j->panel, .row = width_of(tile), .col = 1 };
  const int64_t at = result_at(j, tile, group * j->outer);
  return (ol_matrix){ (char *)(uintptr_t)result + bytes(j, at), .row = j->tiling.windows,
                      .col = 1 };
}

/* Copies between the panel and the result, for tiles of several (whole) images. */
static void copy_panel(const work *j, const ol_tile *tile, int64_t group, char *result, bool out) {
  char *panel = own_scratch(j) + j->panel;
  const size_t line = bytes(j, j->tiling.windows);
  if (tile->images == 1) return;
  for (int64_t channel = 0; channel < j->outer; channel++)
    for (int64_t image = 0; image < tile->images; image++, panel += line) {
      const ol_tile one = { .image = tile->image + image };
      char *place = result + bytes(j, result_at(j, &one, group * j->outer + channel));
      memcpy(out ? place : panel, out ? panel : place, line);
    }
}

/* The panel of a result that is read. */
static ol_matrix read_panel(const work *j, const ol_tile *tile, int64_t group) {
  copy_panel(j, tile, group, (char *)(uintptr_t)j->g, false);
  return panel_of(j, tile, group, j->g);
}

/* Where row `row` (a channel, as windows are single elements) of the images begins. */
static ol_matrix direct_columns(const work *j, const ol_tile *tile, const char *x, int64_t row) {
  const ol_windows *p = &j->c->planes;
  const int64_t area = p->y.size * p->x.size;
  const int64_t at = (tile->image * p->channels + row) * area + tile->first;
  return (ol_matrix){ (char *)(uintptr_t)x + bytes(j, at), .row = area, .col = 1 };
}

static ol_matrix read_columns(const work *j, const ol_tile *tile, int64_t row, int64_t rows) {
  if (j->direct) return direct_columns(j, tile, j->x, row);
  char *columns = own_scratch(j);
  ol_columns_take(&j->c->planes, j->c->dtype, tile, row, rows, j->x, columns);
  return (ol_matrix){ columns, .row = width_of(tile), .col = 1 };
}

static ol_matrix transposed(ol_matrix m) {
  return (ol_matrix){ m.data, .row = m.col, .col = m.row };
}

/* A group's weights (outer, rows), from row `row` on. */
static ol_matrix weights_of(const work *j, const char *w, int64_t group, int64_t row) {
  const int64_t at = group * j->outer * j->rows + row;
  return (ol_matrix){ (char *)(uintptr_t)w + bytes(j, at), .row = j->rows, .col = 1 };
}

/* Sets rows of a matrix to their bias. */
#define DEFINE_FILL(suffix, type)                                                                  \
  static void fill_##suffix(int64_t rows, int64_t columns, const type *bias, type *to,             \
                            int64_t step) {                                                        \
    for (int64_t r = 0; r < rows; r++)                                                             \
      for (int64_t i = 0; i < columns; i++) to[r * step + i] = bias ? bias[r] : 0;                 \
  }
DEFINE_FILL(f32, float)
DEFINE_FILL(f64, double)

static void fill(ol_dtype dtype, int64_t rows, int64_t columns, const void *bias, ol_matrix m) {
  if (dtype == OL_F32)
    fill_f32(rows, columns, bias, m.data, m.row);
  else
    fill_f64(rows, columns, bias, m.data, m.row);
}

static void fill_channels(ol_dtype dtype, int64_t images, int64_t channels, int64_t length,
                          const void *bias, void *y) {
  const size_t image = (size_t)(channels * length) * ol_dtype_size(dtype);
  for (int64_t i = 0; i < images; i++)
    fill(dtype, channels, length, bias, (ol_matrix){ (char *)y + (size_t)i * image, length, 1 });
}

static const char *bias_of(const work *j, int64_t channel) {
  return j->bias ? j->bias + bytes(j, channel) : NULL;
}

/* Forward: items are tiles of groups. */
static void forward_items(int64_t begin, int64_t end, void *context) {
  const work *j = context;
  for (int64_t item = begin; item < end; item++) {
    const int64_t group = item % j->c->groups;
    const ol_tile tile = ol_tiling_at(&j->tiling, item / j->c->groups);
    const ol_matrix columns = read_columns(j, &tile, group * j->rows, j->rows);
    const ol_matrix y = panel_of(j, &tile, group, j->to);
    const bool add = j->bias != NULL;
    if (add) fill(j->c->dtype, j->outer, width_of(&tile), bias_of(j, group * j->outer), y);
    ol_blas_gemm(j->c->dtype, j->outer, width_of(&tile), j->rows, 1, weights_of(j, j->w, group, 0),
                 columns, add, y);
    copy_panel(j, &tile, group, j->to, true);
  }
}

ol_status ol_convolve(ol_error *error, const ol_convolution *c, const void *x, const void *w,
                      const void *bias, void *y) {
  if (ol_depthwise_pays(c)) return ol_depthwise(error, c, x, w, bias, y);
  work j = work_of(c);
  j.x = x, j.w = w, j.bias = bias, j.to = y;
  OL_TRY(make_scratch(error, &j));
  const int64_t items = j.tiling.tiles * c->groups;
  ol_parallel_for(items, grain(&j, items), forward_items, &j);
  ol_free(j.scratch);
  return OL_OK;
}

/* Back: items are images of a tile, a group, and a block of its channels, of which no other item
 * knows; so that sums are taken in the order of tiles. */
static void back_tile(const work *j, int64_t number, int64_t group, int64_t channel,
                      int64_t channels) {
  const ol_tile tile = ol_tiling_at(&j->tiling, number);
  const int64_t row = channel * j->taps, rows = channels * j->taps;
  const ol_matrix w = transposed(weights_of(j, j->w, group, row));
  const ol_matrix g = read_panel(j, &tile, group);
  ol_matrix columns = { own_scratch(j), .row = width_of(&tile), .col = 1 };
  if (j->direct) columns = direct_columns(j, &tile, j->to, group * j->rows + row);
  ol_blas_gemm(j->c->dtype, rows, width_of(&tile), j->outer, 1, w, g, j->direct, columns);
  if (!j->direct)
    ol_columns_add(&j->c->planes, j->c->dtype, &tile, group * j->rows + row, rows, columns.data,
                   j->to);
}

/* Images of a tile begin with their bias. */
static void fill_images(const work *j, const ol_tile *tile, int64_t channel, int64_t channels) {
  const ol_windows *p = &j->c->planes;
  const int64_t area = p->y.size * p->x.size;
  for (int64_t i = 0; i < tile->images; i++) {
    const int64_t at = ((tile->image + i) * p->channels + channel) * area;
    fill(j->c->dtype, channels, area, bias_of(j, channel),
         (ol_matrix){ j->to + bytes(j, at), .row = area, .col = 1 });
  }
}

static void back_items(int64_t begin, int64_t end, void *context) {
  const work *j = context;
  const int64_t each = ceiling(j->inner, j->blocks);
  for (int64_t item = begin; item < end; item++) {
    const int64_t first = item / (j->c->groups * j->blocks) * j->tiling.pieces;
    const int64_t group = item / j->blocks % j->c->groups, channel = item % j->blocks * each;
    const int64_t channels = channel + each < j->inner ? each : j->inner - channel;
    const ol_tile tile = ol_tiling_at(&j->tiling, first);
    if (channels <= 0) continue;
    fill_images(j, &tile, group * j->inner + channel, channels);
    for (int64_t piece = 0; piece < j->tiling.pieces; piece++)
      back_tile(j, first + piece, group, channel, channels);
  }
}

ol_status ol_convolve_back(ol_error *error, const ol_convolution *c, const void *g, const void *w,
                           const void *bias, void *x) {
  if (ol_depthwise_pays(c)) return ol_depthwise_back(error, c, g, w, bias, x);
  work j = work_of(c);
  j.g = g, j.w = w, j.bias = bias, j.to = x;
  const int64_t sets = j.tiling.tiles / j.tiling.pieces * c->groups;
  if (j.tiling.tiles == 0) {
    fill_channels(c->dtype, c->planes.images, c->planes.channels,
                  c->planes.y.size * c->planes.x.size, bias, x);
    return OL_OK;
  }
  if (sets < BLOCKS && j.rows >= BLOCKS * FEW_ROWS) j.blocks = j.inner < BLOCKS ? j.inner : BLOCKS;
  OL_TRY(make_scratch(error, &j));
  ol_parallel_for(sets * j.blocks, grain(&j, sets * j.blocks), back_items, &j);
  ol_free(j.scratch);
  return OL_OK;
}

/* Weights: items are a part of the tiles, a group, and a block of its rows. Each part has sums of
 * its own, which are added up in order. */
static void weight_part(const work *j, int64_t part, int64_t group, int64_t row, int64_t rows) {
  const int64_t each = ceiling(j->tiling.tiles, j->parts), first = part * each;
  const int64_t weights = j->c->out * j->rows;
  const ol_matrix to = weights_of(j, j->to + bytes(j, part * weights), group, row);
  fill(j->c->dtype, j->outer, rows, NULL, to);
  for (int64_t t = first; t < first + each && t < j->tiling.tiles; t++) {
    const ol_tile tile = ol_tiling_at(&j->tiling, t);
    const ol_matrix g = read_panel(j, &tile, group);
    const ol_matrix columns = read_columns(j, &tile, group * j->rows + row, rows);
    ol_blas_gemm(j->c->dtype, j->outer, rows, width_of(&tile), 1, g, transposed(columns), 1, to);
  }
}

static void weight_items(int64_t begin, int64_t end, void *context) {
  const work *j = context;
  const int64_t each = ceiling(j->rows, j->blocks);
  for (int64_t item = begin; item < end; item++) {
    const int64_t row = item % j->blocks * each;
    const int64_t rows = row + each < j->rows ? each : j->rows - row;
    if (rows > 0)
      weight_part(j, item / (j->blocks * j->c->groups), item / j->blocks % j->c->groups, row, rows);
  }
}

typedef struct sums {
  const work *j;
  int64_t weights;
  void *to;
} sums;

#define ADD_PARTS(type)                                                                            \
  for (int64_t i = begin; i < end; i++) {                                                          \
    double sum = 0;                                                                                \
    for (int64_t p = 0; p < s->j->parts; p++)                                                      \
      sum += (double)((const type *)s->j->to)[p * s->weights + i];                                 \
    ((type *)s->to)[i] = (type)sum;                                                                \
  }

static void add_parts(int64_t begin, int64_t end, void *context) {
  const sums *s = context;
  if (s->j->c->dtype == OL_F32)
    ADD_PARTS(float)
  else
    ADD_PARTS(double)
}

/* Many parts where weights are few, else blocks of rows. */
static void cut_weights(work *j, int64_t weights) {
  j->parts = PART_BYTES / (int64_t)(bytes(j, weights) + 1);
  if (j->parts > PARTS) j->parts = PARTS;
  if (j->parts > j->tiling.tiles) j->parts = j->tiling.tiles;
  if (j->parts < 1) j->parts = 1;
  if (j->parts * j->c->groups < BLOCKS && j->rows >= BLOCKS * FEW_ROWS) j->blocks = BLOCKS;
}

static ol_status sum_weights(ol_error *error, work *j, int64_t weights, void *w) {
  const int64_t items = j->parts * j->c->groups * j->blocks;
  void *parts = NULL;
  j->to = w;
  if (j->parts > 1) {
    OL_TRY(ol_alloc_for(error, bytes(j, j->parts * weights), "sums of a convolution", &parts));
    j->to = parts;
  }
  ol_parallel_for(items, grain(j, items), weight_items, j);
  sums s = { .j = j, .weights = weights, .to = w };
  if (parts) ol_parallel_for(weights, OL_GRAIN, add_parts, &s);
  ol_free(parts);
  return OL_OK;
}

ol_status ol_convolve_weight(ol_error *error, const ol_convolution *c, const void *x, const void *g,
                             void *w) {
  if (ol_depthwise_pays(c)) return ol_depthwise_weight(error, c, x, g, w);
  work j = work_of(c);
  j.x = x, j.g = g;
  cut_weights(&j, c->out * j.rows);
  OL_TRY(make_scratch(error, &j));
  ol_status status = sum_weights(error, &j, c->out * j.rows, w);
  ol_free(j.scratch);
  return status;
}
