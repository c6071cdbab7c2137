/* attend: tiles of scores, made into weights and used up. */
#include "ops/attend.h"

#include <math.h>
#include <string.h>

#include "base/lanes.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/vecmath.h"
#include "ops/softmax.h"

enum { MOST_ROWS = 64, FEWEST_ROWS = 16, TILE = 1 << 15 };

/* Kernels over one row of count elements. */
#define DEFINE_KERNELS(suffix, type)                                                               \
  OL_KERNEL static void hide_##suffix(int64_t count, const uint8_t *mask, int64_t stride,          \
                                      void *scores) {                                              \
    type *s = scores;                                                                              \
    if (stride == 1)                                                                               \
      for (int64_t i = 0; i < count; i++) s[i] = mask[i] ? s[i] : -(type)INFINITY;                 \
    else                                                                                           \
      for (int64_t i = 0; i < count; i++) s[i] = mask[i * stride] ? s[i] : -(type)INFINITY;        \
  }                                                                                                \
  OL_KERNEL static void add_##suffix(int64_t count, const void *mask, int64_t stride,              \
                                     void *scores) {                                               \
    type *s = scores;                                                                              \
    const type *m = mask;                                                                          \
    for (int64_t i = 0; i < count; i++) s[i] += m[i * stride];                                     \
  }                                                                                                \
  static void end_##suffix(int64_t from, int64_t count, void *scores) {                            \
    for (int64_t i = from; i < count; i++) ((type *)scores)[i] = -(type)INFINITY;                  \
  }                                                                                                \
  OL_KERNEL static void drop_##suffix(int64_t count, const uint32_t *bits, uint64_t threshold,     \
                                      double factor, void *row) {                                  \
    type *x = row;                                                                                 \
    for (int64_t i = 0; i < count; i++) x[i] = bits[i] >= threshold ? x[i] * (type)factor : 0;     \
  }                                                                                                \
  OL_KERNEL static void times_##suffix(int64_t count, double factor, void *row) {                  \
    type *x = row;                                                                                 \
    for (int64_t i = 0; i < count; i++) x[i] = (type)((double)x[i] * factor);                      \
  }                                                                                                \
  OL_KERNEL static void less_##suffix(int64_t count, double amount, void *row) {                   \
    type *x = row;                                                                                 \
    for (int64_t i = 0; i < count; i++) x[i] = (type)((double)x[i] - amount);                      \
  }                                                                                                \
  OL_KERNEL static void slope_##suffix(int64_t count, const void *weights, void *row) {            \
    const type *p = weights;                                                                       \
    type *g = row;                                                                                 \
    double lane[OL_SUM_LANES] = { 0 };                                                             \
    OL_EACH_LANE(count, lane[k] += (double)p[i] * (double)g[i]);                                   \
    const double dot = ol_merge_lanes(lane);                                                       \
    OL_APART for (int64_t k = 0; k < count; k++) g[k] =                                            \
        (type)((double)p[k] * ((double)g[k] - dot));                                               \
  }                                                                                                \
  static void powers_##suffix(int64_t count, void *row) { ol_vexp_##suffix(count, row, row); }     \
  static const functions functions_##suffix = { hide_##suffix,  add_##suffix,   end_##suffix,      \
                                                drop_##suffix,  times_##suffix, less_##suffix,     \
                                                slope_##suffix, powers_##suffix };

/* The kernels of one dtype. */
typedef struct functions {
  void (*hide)(int64_t count, const uint8_t *mask, int64_t stride, void *scores);
  void (*add)(int64_t count, const void *mask, int64_t stride, void *scores);
  void (*end)(int64_t from, int64_t count, void *scores); /* hides all from there on */
  void (*drop)(int64_t count, const uint32_t *bits, uint64_t threshold, double factor, void *row);
  void (*times)(int64_t count, double factor, void *row);
  void (*less)(int64_t count, double amount, void *row);
  void (*slope)(int64_t count, const void *weights, void *row); /* row = weights * (row - mean) */
  void (*powers)(int64_t count, void *row);
} functions;

DEFINE_KERNELS(f32, float)
DEFINE_KERNELS(f64, double)

/* One attention in work. */
typedef struct job {
  const ol_attend *a;
  const functions *f;
  int64_t size; /* bytes of an element */
  int64_t tile; /* rows of a tile, at most MOST_ROWS */
  size_t room;  /* bytes of scratch of a thread */
  char *scratch;
} job;

/* Some rows of one head, and all keys that they may attend to. */
typedef struct tile {
  int64_t head, first, rows, keys;
  char *weights, *slopes; /* (rows, keys) */
  uint32_t *bits;         /* a row of random numbers */
} tile;

static uint64_t row_draws(const ol_attend *a) { return ((uint64_t)a->keys + 3) / 4; }

uint64_t ol_attend_draws(const ol_attend *a) {
  return (uint64_t)(ol_shape_numel(&a->batch) * a->rows) * row_draws(a);
}

static ol_matrix transposed(ol_matrix m) { return (ol_matrix){ m.data, m.col, m.row }; }

static ol_matrix from_row(const job *j, ol_matrix m, int64_t row) {
  return (ol_matrix){ (char *)m.data + row * m.row * j->size, m.row, m.col };
}

static ol_matrix head(const job *j, const ol_stack *stack, int64_t position) {
  return ol_stack_at(stack, &j->a->batch, position);
}

static char *row_of(const job *j, const tile *t, char *matrix, int64_t row) {
  return matrix + row * t->keys * j->size;
}

static void multiply(const job *j, int64_t m, int64_t n, int64_t k, double alpha, ol_matrix a,
                     ol_matrix b, double beta, ol_matrix c) {
  ol_blas_gemm(j->a->dtype, m, n, k, alpha, a, b, beta, c);
}

/* The tile of rows from `first` on, in the calling thread's scratch. */
static tile make_tile(const job *j, int64_t position, int64_t first) {
  char *scratch = j->scratch + (size_t)ol_thread() * j->room;
  tile t = { .head = position, .first = first, .rows = j->a->rows - first, .keys = j->a->keys };
  if (t.rows > j->tile) t.rows = j->tile;
  if (j->a->causal && t.keys > first + t.rows) t.keys = first + t.rows;
  t.bits = (uint32_t *)scratch;
  t.weights = scratch + (row_draws(j->a) * 16 + OL_ALIGNMENT - 1) / OL_ALIGNMENT * OL_ALIGNMENT;
  t.slopes = t.weights + j->tile * j->a->keys * j->size;
  return t;
}

/* weights = scale * query keyᵀ + mask, with -inf where row and key may not meet. */
static void fill_scores(const job *j, const tile *t) {
  const ol_attend *a = j->a;
  ol_matrix q = from_row(j, head(j, &a->query, t->head), t->first);
  multiply(j, t->rows, t->keys, a->width, a->scale, q, transposed(head(j, &a->key, t->head)), 0,
           (ol_matrix){ t->weights, t->keys, 1 });
  ol_matrix mask = { 0 };
  if (a->mask.tensor) mask = head(j, &a->mask, t->head);
  bool hides = a->mask.tensor && a->mask.tensor->dtype == OL_U8;
  for (int64_t r = 0; r < t->rows && (mask.data || a->causal); r++) {
    char *row = row_of(j, t, t->weights, r);
    int64_t at = (t->first + r) * mask.row;
    if (hides)
      j->f->hide(t->keys, (uint8_t *)mask.data + at, mask.col, row);
    else if (mask.data)
      j->f->add(t->keys, (char *)mask.data + at * j->size, mask.col, row);
    if (a->causal) j->f->end(t->first + r + 1, t->keys, row);
  }
}

static void draw(const job *j, const tile *t, int64_t row) {
  const ol_rng *rng = &j->a->rng;
  uint64_t place = (uint64_t)(t->head * j->a->rows + t->first + row) * row_draws(j->a);
  ol_rng_blocks(rng->seed, rng->stream, rng->position + place, (t->keys + 3) / 4, t->bits);
}

/* Drops elements of a row of the tile, by the numbers that draw made. */
static void drop(const job *j, const tile *t, char *row) {
  const double p = j->a->dropout;
  j->f->drop(t->keys, t->bits, (uint64_t)(p * 0x1p32), p < 1 ? 1 / (1 - p) : 0, row);
}

/* weights = exp(scores - max), a few rows at once; their sums, and the logarithms for backward. */
static void raise_scores(const job *j, const tile *t, double *sum) {
  double max[MOST_ROWS];
  int64_t some = ol_exp_rows_at_once(t->keys);
  double *logs = j->a->logs + t->head * j->a->rows + t->first;
  for (int64_t r = 0; r < t->rows; r += some) {
    char *row = row_of(j, t, t->weights, r);
    int64_t count = t->rows - r < some ? t->rows - r : some;
    ol_exp_rows(j->a->dtype, count, t->keys, row, row, max + r, sum + r);
  }
  ol_vlog_f64(t->rows, sum, logs);
  for (int64_t r = 0; r < t->rows; r++) logs[r] = sum[r] == 0 ? INFINITY : max[r] + logs[r];
}

static void forward_tile(const job *j, const tile *t) {
  const ol_attend *a = j->a;
  double sum[MOST_ROWS];
  ol_matrix out = from_row(j, head(j, &a->out, t->head), t->first);
  fill_scores(j, t);
  raise_scores(j, t, sum);
  for (int64_t r = 0; r < t->rows && a->dropout > 0; r++) {
    draw(j, t, r);
    drop(j, t, row_of(j, t, t->weights, r));
  }
  multiply(j, t->rows, a->depth, t->keys, 1, (ol_matrix){ t->weights, t->keys, 1 },
           head(j, &a->value, t->head), 0, out);
  for (int64_t r = 0; r < t->rows; r++)
    if (sum[r] != 0) j->f->times(a->depth, 1 / sum[r], from_row(j, out, r).data);
}

/* weights = exp(scores - logs): the softmax, once more. */
static void restore_weights(const job *j, const tile *t) {
  const double *logs = j->a->logs + t->head * j->a->rows + t->first;
  int64_t some = ol_exp_rows_at_once(t->keys);
  fill_scores(j, t);
  for (int64_t at = 0; at < t->rows; at += some) {
    int64_t end = t->rows - at < some ? t->rows : at + some;
    for (int64_t r = at; r < end; r++) j->f->less(t->keys, logs[r], row_of(j, t, t->weights, r));
    j->f->powers((end - at) * t->keys, row_of(j, t, t->weights, at));
  }
}

/* From the gradient of the weights in slopes: that of the scores; drops the weights. */
static void slope_rows(const job *j, const tile *t) {
  for (int64_t r = 0; r < t->rows; r++) {
    char *weights = row_of(j, t, t->weights, r), *slopes = row_of(j, t, t->slopes, r);
    if (j->a->dropout > 0) {
      draw(j, t, r);
      drop(j, t, slopes);
    }
    j->f->slope(t->keys, weights, slopes);
    if (j->a->dropout > 0) drop(j, t, weights);
  }
}

/* Row by row, with zeros for the keys that the tile leaves out. */
static void store_mask_slope(const job *j, const tile *t) {
  ol_matrix target = from_row(j, head(j, &j->a->mask_slope, t->head), t->first);
  for (int64_t r = 0; r < t->rows; r++) {
    char *row = from_row(j, target, r).data;
    memcpy(row, row_of(j, t, t->slopes, r), (size_t)(t->keys * j->size));
    memset(row + t->keys * j->size, 0, (size_t)((j->a->keys - t->keys) * j->size));
  }
}

static void backward_tile(const job *j, const tile *t) {
  const ol_attend *a = j->a;
  ol_matrix g = from_row(j, head(j, &a->slope, t->head), t->first);
  ol_matrix weights = { t->weights, t->keys, 1 }, slopes = { t->slopes, t->keys, 1 };
  restore_weights(j, t);
  multiply(j, t->rows, t->keys, a->depth, 1, g, transposed(head(j, &a->value, t->head)), 0, slopes);
  slope_rows(j, t);
  if (a->value_slope.tensor)
    multiply(j, t->keys, a->depth, t->rows, 1, transposed(weights), g, 1,
             head(j, &a->value_slope, t->head));
  if (a->query_slope.tensor)
    multiply(j, t->rows, a->width, t->keys, a->scale, slopes, head(j, &a->key, t->head), 0,
             from_row(j, head(j, &a->query_slope, t->head), t->first));
  if (a->key_slope.tensor)
    multiply(j, t->keys, a->width, t->rows, a->scale, transposed(slopes),
             from_row(j, head(j, &a->query, t->head), t->first), 1,
             head(j, &a->key_slope, t->head));
  if (a->mask_slope.tensor) store_mask_slope(j, t);
}

static void forward_heads(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t position = begin; position < end; position++)
    for (int64_t first = 0; first < j->a->rows; first += j->tile) {
      tile t = make_tile(j, position, first);
      forward_tile(j, &t);
    }
}

static void clear(const job *j, const ol_stack *stack, int64_t position) {
  if (!stack->tensor) return;
  ol_matrix m = head(j, stack, position);
  for (int64_t r = 0; r < stack->rows; r++)
    memset(from_row(j, m, r).data, 0, (size_t)(stack->cols * j->size));
}

static void backward_heads(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t position = begin; position < end; position++) {
    clear(j, &j->a->key_slope, position);
    clear(j, &j->a->value_slope, position);
    for (int64_t first = 0; first < j->a->rows; first += j->tile) {
      tile t = make_tile(j, position, first);
      backward_tile(j, &t);
    }
  }
}

/* Calls fn over the heads, with scratch for `tiles` tiles a thread. */
static ol_status run(ol_error *error, const ol_attend *a, int tiles, ol_range_fn *fn) {
  int64_t heads = ol_shape_numel(&a->batch);
  int64_t rows = TILE / (a->keys + 1);
  job j = { .a = a, .f = a->dtype == OL_F32 ? &functions_f32 : &functions_f64 };
  j.size = (int64_t)ol_dtype_size(a->dtype);
  j.tile = rows > MOST_ROWS ? MOST_ROWS : rows < FEWEST_ROWS ? FEWEST_ROWS : rows;
  j.room = (size_t)(tiles * j.tile * a->keys * j.size) + (size_t)row_draws(a) * 16;
  j.room = (j.room / OL_ALIGNMENT + 2) * OL_ALIGNMENT;
  OL_TRY(OL_ALLOC(error, (size_t)ol_threads() * j.room, "attention", &j.scratch));
  double work = (double)a->rows * (double)a->keys * (double)(a->width + a->depth);
  ol_parallel_for(heads, ol_grain(work), fn, &j);
  ol_free(j.scratch);
  return OL_OK;
}

ol_status ol_attend_forward(ol_error *error, const ol_attend *attend) {
  return run(error, attend, 1, forward_heads);
}

ol_status ol_attend_backward(ol_error *error, const ol_attend *attend) {
  return run(error, attend, 2, backward_heads);
}
