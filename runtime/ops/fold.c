/* fold: arranges, cuts into blocks, runs and merges. */
#include "ops/fold.h"

#include <string.h>

#include "base/memory.h"

#define BLOCK      32768 /* elements of a block, about */
#define ENOUGH     64    /* pieces that are enough to share among threads */

#define LEAST_ROWS 8 /* of a slab that is worth totals of its own */

/* How the masked dimensions lie, when sizes of 1 are left out: as one group of neighbours, as two
 * of which one comes first, or apart. */
typedef enum { TOGETHER, IN_SLABS, APART } lie_of_dims;

/* For rows, together means at the end. */
static lie_of_dims how_they_lie(const ol_shape *shape, const bool *mask, bool rows) {
  int groups = 0;
  int64_t kept = 1, last = 1; /* kept before the last group; its size */
  bool inside = false, first = false;
  for (int d = 0; d < shape->ndim; d++) {
    if (shape->size[d] == 1) continue;
    if (mask[d] && !inside) {
      first |= groups++ == 0 && kept == 1;
      last = 1;
    }
    inside = mask[d];
    *(inside ? &last : &kept) *= shape->size[d];
  }
  if (groups == 0 || (groups == 1 && (inside || !rows))) return TOGETHER;
  return groups == 2 && first && last >= LEAST_ROWS && !rows ? IN_SLABS : APART;
}

/* x with its masked dimensions moved to the end, contiguous. */
static ol_status move_last(ol_error *error, ol_tensor *x, const bool *mask, ol_tensor **out) {
  ol_shape shape = { .ndim = 0 };
  int64_t stride[OL_MAX_DIMS];
  for (int last = 0; last <= 1; last++)
    for (int d = 0; d < x->shape.ndim; d++) {
      if (mask[d] != (last == 1)) continue;
      stride[shape.ndim] = x->stride[d];
      shape.size[shape.ndim++] = x->shape.size[d];
    }
  ol_tensor *view;
  OL_TRY(ol_tensor_view(error, x, &shape, stride, x->offset, &view));
  ol_status status = ol_tensor_contiguous(error, view, out);
  ol_release(view);
  return status;
}

static ol_status arrange(ol_error *error, const char *op, ol_tensor *x, const ol_shape *dims,
                         bool keep, bool rows, ol_folding *out) {
  bool mask[OL_MAX_DIMS];
  OL_TRY(ol_shape_mask(error, op, dims, x->shape.ndim, mask));
  ol_folding folding = { .slabs = 1, .outer = 1, .count = 1, .inner = 1 };
  folding.shape = ol_shape_reduce(&x->shape, mask, keep);
  const lie_of_dims lie = x->numel > 0 ? how_they_lie(&x->shape, mask, rows) : APART;
  bool slabs = lie == IN_SLABS, passed = false; /* within the slabs; past the rows */
  for (int d = 0; d < x->shape.ndim; d++) {
    int64_t size = x->shape.size[d];
    if (size == 1) continue;
    slabs &= mask[d];
    passed |= mask[d] && !slabs;
    if (slabs) folding.slabs *= size;
    *(mask[d] ? &folding.count : passed && lie != APART ? &folding.inner : &folding.outer) *= size;
  }
  if (lie == APART)
    OL_TRY(move_last(error, x, mask, &folding.source));
  else
    OL_TRY(ol_tensor_contiguous(error, x, &folding.source));
  *out = folding;
  return OL_OK;
}

ol_status ol_folding_init(ol_error *error, const char *op, ol_tensor *x, const ol_shape *dims,
                          bool keep, ol_folding *out) {
  return arrange(error, op, x, dims, keep, false, out);
}

ol_status ol_folding_rows(ol_error *error, const char *op, ol_tensor *x, const ol_shape *dims,
                          bool keep, ol_folding *out) {
  return arrange(error, op, x, dims, keep, true, out);
}

void ol_folding_release(ol_folding *folding) {
  ol_release(folding->source);
  folding->source = NULL;
}

/* A folding cut into cells: `tiles` of columns by `blocks` of rows for each outer position of each
 * slab. */
typedef struct job {
  const ol_folding *folding;
  const ol_fold *fold;
  const double *center;
  ol_total *total;          /* (slabs, outer, blocks, inner) */
  int64_t positions, depth; /* slabs * outer; the rows of each */
  int64_t blocks, rows, tiles;
  int64_t groups; /* rows that lie in the lanes side by side, where columns are few */
} job;

/* Folds `count` rows of `width` columns into total[width]. */
static void columns(const job *j, const char *x, int64_t count, int64_t width, const double *center,
                    ol_total *total) {
  ol_total lane[OL_FOLD_LANES];
  double centers[OL_FOLD_LANES];
  int64_t groups = j->groups, inner = j->folding->inner;
  int64_t row = inner * (int64_t)ol_dtype_size(j->folding->source->dtype);
  for (int64_t i = 0; i < groups * width; i++) lane[i] = j->fold->identity;
  if (center)
    for (int64_t i = 0; i < groups; i++)
      memcpy(centers + i * width, center, (size_t)width * sizeof *center);
  for (int64_t r = 0; r < count; r += groups) {
    int64_t taken = count - r < groups ? count - r : groups;
    j->fold->lanes(taken * width, x + r * row, center ? centers : NULL, lane);
  }
  for (int64_t half = groups / 2; half > 0; half /= 2)
    j->fold->merge(half * width, lane + half * width, lane);
  memcpy(total, lane, (size_t)width * sizeof *total);
}

static void cell(const job *j, int64_t number) {
  const ol_folding *f = j->folding;
  int64_t tile = number % j->tiles, block = number / j->tiles % j->blocks;
  int64_t position = number / j->tiles / j->blocks;
  int64_t row = block * j->rows, column = tile * OL_FOLD_LANES;
  int64_t rows = j->depth - row < j->rows ? j->depth - row : j->rows;
  int64_t width = f->inner - column < OL_FOLD_LANES ? f->inner - column : OL_FOLD_LANES;
  const char *x = ol_tensor_data(f->source);
  x += ((position * j->depth + row) * f->inner + column) * (int64_t)ol_dtype_size(f->source->dtype);
  const double *center = j->center ? j->center + position % f->outer * f->inner + column : NULL;
  ol_total *total = j->total + (position * j->blocks + block) * f->inner + column;
  if (f->inner == 1)
    j->fold->run(rows, x, center, total);
  else
    columns(j, x, rows, width, center, total);
}

static void cells(int64_t begin, int64_t end, void *context) {
  for (int64_t i = begin; i < end; i++) cell(context, i);
}

/* Whole rows, one for each position: the same, without the arithmetic of cells. */
static void whole_rows(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const ol_folding *f = j->folding;
  int64_t bytes = j->depth * (int64_t)ol_dtype_size(f->source->dtype);
  const char *x = (const char *)ol_tensor_data(f->source);
  for (int64_t r = begin; r < end; r++) {
    const double *center = j->center ? j->center + r % f->outer : NULL;
    j->fold->run(j->depth, x + r * bytes, center, j->total + r);
  }
}

/* The greatest power of two that is at most bound, at least 1. */
static int64_t power_below(int64_t bound) {
  int64_t power = 1;
  while (power * 2 <= bound) power *= 2;
  return power;
}

static void cut(job *j) {
  const ol_folding *f = j->folding;
  j->tiles = (f->inner + OL_FOLD_LANES - 1) / OL_FOLD_LANES;
  j->positions = f->slabs * f->outer;
  j->rows = j->depth = f->count / f->slabs;
  j->blocks = 1;
  if (j->positions * j->tiles < ENOUGH && j->depth * f->inner > BLOCK) {
    j->rows = BLOCK / f->inner;
    if (j->rows < ENOUGH) j->rows = ENOUGH;
    j->blocks = (j->depth + j->rows - 1) / j->rows;
  }
  int64_t groups = OL_FOLD_LANES / 2 / f->inner;
  j->groups = power_below(groups < j->rows ? groups : j->rows);
}

static void run_cells(const job *j) {
  int64_t work = j->rows * (j->folding->inner < OL_FOLD_LANES ? j->folding->inner : OL_FOLD_LANES);
  int64_t count = j->positions * j->blocks * j->tiles;
  ol_range_fn *fn = j->folding->inner == 1 && j->blocks == 1 ? whole_rows : cells;
  ol_parallel_for(count, ol_grain((double)work), fn, (void *)j);
}

/* Merges the slabs, and the blocks of each, in order. */
static void merge_parts(const job *j, ol_total *total) {
  const int64_t outer = j->folding->outer, inner = j->folding->inner;
  const int64_t width = j->blocks == 1 ? outer * inner : inner; /* of what is merged at once */
  for (int64_t i = 0; i < outer * inner; i++) total[i] = j->fold->identity;
  const ol_total *from = j->total;
  for (int64_t slab = 0; slab < j->folding->slabs; slab++)
    for (ol_total *to = total; to < total + outer * inner; to += width)
      for (int64_t b = 0; b < j->blocks; b++, from += width) j->fold->merge(width, from, to);
}

ol_status ol_fold_run(ol_error *error, const ol_folding *folding, const ol_fold *fold,
                      const double *center, ol_total *total) {
  job j = { .folding = folding, .fold = fold, .center = center, .total = total };
  if (folding->outer * folding->inner == 0) return OL_OK;
  cut(&j);
  const int64_t parts = folding->slabs * j.blocks;
  if (parts > 1) {
    size_t size = (size_t)(parts * folding->outer * folding->inner) * sizeof *total;
    OL_TRY(OL_ALLOC(error, size, "partial totals", &j.total));
  }
  run_cells(&j);
  if (parts == 1) return OL_OK;
  merge_parts(&j, total);
  ol_free(j.total);
  return OL_OK;
}

ol_status ol_totals_init(ol_error *error, const ol_folding *folding, ol_totals *out) {
  out->count = folding->outer * folding->inner;
  out->data = out->few;
  if (out->count <= (int64_t)(sizeof out->few / sizeof *out->few)) return OL_OK;
  size_t size = (size_t)out->count * sizeof *out->data;
  return OL_ALLOC(error, size, "totals", &out->data);
}

void ol_totals_release(ol_totals *totals) {
  if (totals->data != totals->few) ol_free(totals->data);
}

static void store(const ol_totals *totals, ol_tensor *target) {
  const ol_total *from = totals->data;
  void *to = ol_tensor_data(target);
  int64_t count = totals->count;
  switch (target->dtype) {
  case OL_F32:
    for (int64_t i = 0; i < count; i++) ((float *)to)[i] = (float)from[i].f64;
    break;
  case OL_F64:
    for (int64_t i = 0; i < count; i++) ((double *)to)[i] = from[i].f64;
    break;
  case OL_U8:
    for (int64_t i = 0; i < count; i++) ((uint8_t *)to)[i] = (uint8_t)from[i].i64;
    break;
  default:
    for (int64_t i = 0; i < count; i++) ((int64_t *)to)[i] = from[i].i64;
    break;
  }
}

ol_status ol_fold_tensor(ol_error *error, const ol_folding *folding, const ol_folds *folds,
                         const double *center, ol_finish_fn *finish, double parameter,
                         ol_dtype dtype, ol_tensor **target) {
  ol_totals totals;
  const ol_fold *fold = &folds->of[folding->source->dtype];
  OL_TRY(ol_totals_init(error, folding, &totals));
  ol_status status = ol_fold_run(error, folding, fold, center, totals.data);
  if (status == OL_OK && finish) finish(folding, parameter, &totals);
  if (status == OL_OK && !*target) status = ol_tensor_new(error, dtype, &folding->shape, target);
  if (status == OL_OK) store(&totals, *target);
  ol_totals_release(&totals);
  return status;
}
