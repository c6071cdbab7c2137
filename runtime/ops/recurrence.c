/* recurrence: steps forward, and backward through time. */
#include "ops/recurrence.h"

#include <string.h>

#include "base/parallel.h"
#include "tensor/blas.h"

/* Some rows of the batch at one step. */
typedef struct step {
  int64_t time;
  int64_t begin, end; /* rows; those behind the last active one are left out */
} step;

/* A (T,B,blocks * H) array seen as rows. */
typedef struct rows {
  char *data;
  int64_t blocks;
} rows;

static int64_t size_of(const ol_recurrence *r) { return (int64_t)ol_dtype_size(r->dtype); }

static bool active(const ol_recurrence *r, int64_t time, int64_t b) {
  return time >= 0 && time < r->steps && (!r->lengths || time < r->lengths[b]);
}

/* The step that comes before `time`; outside the sequence before the first one. */
static int64_t before(const ol_recurrence *r, int64_t time) {
  return r->reverse ? time + 1 : time - 1;
}

static step nth_step(const ol_recurrence *r, int64_t n, int64_t begin, int64_t end) {
  step s = { .time = r->reverse ? r->steps - 1 - n : n, .begin = begin, .end = end };
  while (s.end > s.begin && !active(r, s.time, s.end - 1)) s.end--;
  return s;
}

/* Where a row of an array is. */
static char *at(const ol_recurrence *r, rows x, int64_t time, int64_t b) {
  int64_t place = r->batch_first ? b * r->steps + time : time * r->batch + b;
  return x.data + place * x.blocks * r->hidden * size_of(r);
}

/* The block columns from `block` on, of the rows of a step. */
static ol_matrix matrix(const ol_recurrence *r, rows x, const step *s, int block) {
  int64_t apart = x.blocks * r->hidden * (r->batch_first ? r->steps : 1);
  return (ol_matrix){ at(r, x, s->time, s->begin) + block * r->hidden * size_of(r), apart, 1 };
}

/* The row of a state (B,H). */
static char *of_row(const ol_recurrence *r, const char *state, int64_t b) {
  return (char *)state + b * r->hidden * size_of(r);
}

static ol_matrix weights(const ol_recurrence *r, const ol_cell_piece *piece) {
  return (ol_matrix){ r->weight + piece->from * r->hidden * r->hidden * size_of(r), r->hidden, 1 };
}

/* ---- forward ---- */

/* Adds the products of the state with its weights to the rows of a step. */
static void add_products(const ol_recurrence *r, const step *s) {
  const rows gates = { r->rows, r->cell->width };
  ol_matrix state = { of_row(r, r->h, s->begin), r->hidden, 1 };
  for (int i = 0; i < r->cell->pieces; i++) {
    const ol_cell_piece *piece = &r->cell->piece[i];
    ol_matrix w = weights(r, piece);
    ol_blas_gemm(r->dtype, s->end - s->begin, piece->count * r->hidden, r->hidden, 1, state,
                 (ol_matrix){ w.data, w.col, w.row }, 1, matrix(r, gates, s, piece->at));
  }
}

static void step_forward(const ol_recurrence *r, const step *s, int64_t end) {
  const size_t bytes = (size_t)(r->hidden * size_of(r));
  const rows gates = { r->rows, r->cell->width }, memory = { r->memory, 2 }, out = { r->output, 1 };
  ol_cell_forward *forward = r->cell->forward[r->dtype == OL_F64];
  add_products(r, s);
  for (int64_t b = s->begin; b < end; b++) {
    char *target = at(r, out, s->time, b);
    if (active(r, s->time, b)) {
      char *h = of_row(r, r->h, b);
      forward(r->hidden, at(r, gates, s->time, b), h, r->c ? of_row(r, r->c, b) : NULL,
              r->memory ? at(r, memory, s->time, b) : NULL);
      memcpy(target, h, bytes);
    } else {
      memset(target, 0, bytes);
    }
  }
}

static void forward_rows(const ol_recurrence *r, int64_t begin, int64_t end) {
  for (int64_t n = 0; n < r->steps; n++) {
    step s = nth_step(r, n, begin, end);
    step_forward(r, &s, end);
  }
}

/* ---- backward ---- */

/* Copies the state before a step of row b. */
static void recall(const ol_recurrence *r, int64_t time, int64_t b, char *target) {
  const size_t bytes = (size_t)(r->hidden * size_of(r));
  int64_t earlier = before(r, time);
  if (active(r, earlier, b))
    memcpy(target, at(r, (rows){ r->output, 1 }, earlier, b), bytes);
  else
    memcpy(target, of_row(r, r->h0, b), bytes);
}

/* The memory c before a step of row b. */
static const char *recall_memory(const ol_recurrence *r, int64_t time, int64_t b) {
  int64_t earlier = before(r, time);
  if (!r->memory) return NULL;
  return active(r, earlier, b) ? at(r, (rows){ r->memory, 2 }, earlier, b) : of_row(r, r->c0, b);
}

#define DEFINE_ADD(suffix, type)                                                                   \
  OL_KERNEL static void add_##suffix(int64_t n, const void *source, void *target) {                \
    const type *x = source;                                                                        \
    type *y = target;                                                                              \
    OL_APART for (int64_t k = 0; k < n; k++) y[k] += x[k];                                         \
  }
DEFINE_ADD(f32, float)
DEFINE_ADD(f64, double)

/* One active row of a step. */
static void row_backward(const ol_recurrence *r, int64_t time, int64_t b) {
  char *dh = of_row(r, r->dh, b), *slopes = at(r, (rows){ r->slopes, r->cell->width }, time, b);
  char *previous = at(r, (rows){ r->previous, 1 }, time, b);
  const char *memory = r->memory ? at(r, (rows){ r->memory, 2 }, time, b) : NULL;
  char *slope = (char *)r->slope;
  recall(r, time, b, previous);
  if (slope)
    (r->dtype == OL_F32 ? add_f32 : add_f64)(r->hidden, at(r, (rows){ slope, 1 }, time, b), dh);
  r->cell->backward[r->dtype == OL_F64](
      r->hidden, at(r, (rows){ r->rows, r->cell->width }, time, b), previous,
      recall_memory(r, time, b), memory, dh, r->dc ? of_row(r, r->dc, b) : NULL, slopes);
}

/* Adds what comes through the products to the gradient of the state before the step. */
static void add_slopes(const ol_recurrence *r, const step *s) {
  const rows slopes = { r->slopes, r->cell->width };
  ol_matrix state = { of_row(r, r->dh, s->begin), r->hidden, 1 };
  for (int i = 0; i < r->cell->pieces; i++) {
    const ol_cell_piece *piece = &r->cell->piece[i];
    ol_blas_gemm(r->dtype, s->end - s->begin, r->hidden, piece->count * r->hidden, 1,
                 matrix(r, slopes, s, piece->at), weights(r, piece), 1, state);
  }
}

static void backward_rows(const ol_recurrence *r, int64_t begin, int64_t end) {
  const size_t bytes = (size_t)(r->hidden * size_of(r));
  for (int64_t n = r->steps - 1; n >= 0; n--) {
    step s = nth_step(r, n, begin, end);
    for (int64_t b = begin; b < end; b++) {
      if (active(r, s.time, b)) {
        row_backward(r, s.time, b);
      } else {
        memset(at(r, (rows){ r->slopes, r->cell->width }, s.time, b), 0,
               bytes * (size_t)r->cell->width);
        memset(at(r, (rows){ r->previous, 1 }, s.time, b), 0, bytes);
      }
    }
    add_slopes(r, &s);
  }
}

/* Some rows of a batch through all steps. */
typedef void rows_fn(const ol_recurrence *r, int64_t begin, int64_t end);

typedef struct job {
  const ol_recurrence *r;
  rows_fn *fn;
  int64_t each; /* rows of a block */
} job;

static void run_blocks(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t b = begin; b < end; b++) {
    const int64_t first = b * j->each, behind = first + j->each;
    j->fn(j->r, first, behind < j->r->batch ? behind : j->r->batch);
  }
}

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The bits of a product depend on its shape, so the rows of blocks depend on the batch alone: two
 * blocks of up to MOST rows, where weights are read often enough, then more; of a few rows each,
 * or products would be of vectors. */
static int64_t block_rows(int64_t batch) {
  enum { LEAST = 8, MOST = 32 };
  int64_t most = ceiling(batch, 2);
  if (most < LEAST) most = LEAST;
  if (most > MOST) most = MOST;
  return batch ? ceiling(batch, ceiling(batch, most)) : 1;
}

static void run(const ol_recurrence *r, rows_fn *fn) {
  job j = { .r = r, .fn = fn, .each = block_rows(r->batch) };
  ol_parallel_for(ceiling(r->batch, j.each), 1, run_blocks, &j);
}

void ol_recurrence_forward(const ol_recurrence *recurrence) { run(recurrence, forward_rows); }

void ol_recurrence_backward(const ol_recurrence *recurrence) { run(recurrence, backward_rows); }
