/* fold: the frame of reductions.
 *
 * A tensor is seen as (outer, count, inner): for each outer and inner position, `count` elements
 * are folded into one total. Totals are double where elements are fractions, int64 where they are
 * integers. Blocks and lanes depend on these three sizes alone, so that any number of threads and
 * any instruction set gives the same bits. */
#ifndef OL_OPS_FOLD_H
#define OL_OPS_FOLD_H

#include "base/parallel.h"
#include "tensor/tensor.h"

#define OL_FOLD_LANES 512 /* the most totals that a fold gets at once */

typedef union ol_total {
  double f64;
  int64_t i64;
} ol_total;

/* How elements of one dtype are folded. `center` is a number for each total, which parametrises the
 * fold, or NULL. */
typedef struct ol_fold {
  ol_total identity;
  /* total = x[0] ∘ x[1] ∘ …; one center */
  void (*run)(int64_t count, const void *x, const double *center, ol_total *total);
  /* total[i] ∘= x[i]; a center each */
  void (*lanes)(int64_t count, const void *x, const double *center, ol_total *total);
  /* total[i] ∘= from[i] */
  void (*merge)(int64_t count, const ol_total *from, ol_total *total);
} ol_fold;

/* By dtype of the elements; run is NULL where the fold is not defined. */
typedef struct ol_folds {
  ol_fold of[OL_DTYPES];
} ol_folds;

/* A tensor seen as (outer, count, inner), and the shape of its totals. Where slabs is more than 1
 * it lies as (slabs, outer, count / slabs, inner). */
typedef struct ol_folding {
  ol_tensor *source; /* contiguous; one reference */
  int64_t slabs, outer, count, inner;
  ol_shape shape;
} ol_folding;

/* Prepares to fold x over dims (all when empty). Copies x where it is not contiguous, or where dims
 * are not neighbours, or two groups of them of which one is the first. */
ol_status ol_folding_init(ol_error *error, const char *op, ol_tensor *x, const ol_shape *dims,
                          bool keep, ol_folding *out);

/* As ol_folding_init, with rows dense: inner is 1. */
ol_status ol_folding_rows(ol_error *error, const char *op, ol_tensor *x, const ol_shape *dims,
                          bool keep, ol_folding *out);

void ol_folding_release(ol_folding *folding);

/* Folds into total[outer * inner], row-major. */
ol_status ol_fold_run(ol_error *error, const ol_folding *folding, const ol_fold *fold,
                      const double *center, ol_total *total);

/* Totals of a folding: on the stack when few. Use in place; do not copy the struct. */
typedef struct ol_totals {
  int64_t count;
  ol_total *data;
  ol_total few[32];
} ol_totals;

ol_status ol_totals_init(ol_error *error, const ol_folding *folding, ol_totals *out);
void ol_totals_release(ol_totals *totals);

/* What is done to the totals of a fold, e.g. a division by the count. */
typedef void ol_finish_fn(const ol_folding *folding, double parameter, ol_totals *totals);

/* Folds into a tensor: folds, lets finish (may be NULL) work on the totals, and stores them in
 * *target, contiguous, of folding->shape; where that is NULL, in a new tensor of dtype. float32 and
 * float64 take totals of fractions, uint8 and int64 those of integers. */
ol_status ol_fold_tensor(ol_error *error, const ol_folding *folding, const ol_folds *folds,
                         const double *center, ol_finish_fn *finish, double parameter,
                         ol_dtype dtype, ol_tensor **target);

/* Merges lanes `width` … 2 width - 1 of a fold into those before, if there are so many. */
#define OL_FOLD_HALF(width, LANES, MERGE)                                                          \
  if (LANES > width)                                                                               \
    OL_APART for (int k = 0; k < width; k++) lane[k] = MERGE(lane[k], lane[k + width]);

/* One fold: START is the identity; STEP(t, x, c) the total after element x, read as `load`, with
 * center c; MERGE(t, u) that of two totals. Lanes, of which there is a power of two, are merged by
 * halves; short rows need none. */
#define OL_FOLD_KERNELS(name, suffix, type, load, lane_type, LANES, total_type, member, START,     \
                        STEP, MERGE)                                                               \
  OL_KERNEL static void name##_run_##suffix(int64_t count, const void *data, const double *center, \
                                            ol_total *total) {                                     \
    const type *x = data;                                                                          \
    const double c __attribute__((unused)) = center ? *center : 0;                                 \
    lane_type lane[LANES];                                                                         \
    if (count < 16) {                                                                              \
      lane_type all = START;                                                                       \
      for (int64_t i = 0; i < count; i++) all = STEP(all, (load)x[i], c);                          \
      total->member = (total_type)all;                                                             \
      return;                                                                                      \
    }                                                                                              \
    for (int k = 0; k < LANES; k++) lane[k] = START;                                               \
    const int64_t whole = count & ~(int64_t)(LANES - 1);                                           \
    for (int64_t i = 0; i < whole; i += LANES)                                                     \
      OL_APART for (int k = 0; k < LANES; k++) lane[k] = STEP(lane[k], (load)x[i + k], c);         \
    for (int64_t i = whole; i < count; i++)                                                        \
      lane[i - whole] = STEP(lane[i - whole], (load)x[i], c);                                      \
    OL_FOLD_HALF(32, LANES, MERGE)                                                                 \
    OL_FOLD_HALF(16, LANES, MERGE)                                                                 \
    OL_FOLD_HALF(8, LANES, MERGE)                                                                  \
    OL_FOLD_HALF(4, LANES, MERGE)                                                                  \
    OL_FOLD_HALF(2, LANES, MERGE)                                                                  \
    OL_FOLD_HALF(1, LANES, MERGE)                                                                  \
    total->member = (total_type)lane[0];                                                           \
  }                                                                                                \
  OL_KERNEL static void name##_lanes_##suffix(int64_t count, const void *data,                     \
                                              const double *center, ol_total *total) {             \
    static const double none[OL_FOLD_LANES];                                                       \
    const type *x = data;                                                                          \
    const double *at __attribute__((unused)) = center ? center : none;                             \
    OL_APART for (int64_t i = 0; i < count; i++) total[i].member =                                 \
        STEP(total[i].member, (load)x[i], at[i]);                                                  \
  }                                                                                                \
  OL_KERNEL static void name##_merge_##suffix(int64_t count, const ol_total *from,                 \
                                              ol_total *total) {                                   \
    OL_APART for (int64_t i = 0; i < count; i++) total[i].member =                                 \
        MERGE(total[i].member, from[i].member);                                                    \
  }

#define OL_FOLD(name, suffix, member, START)                                                       \
  { { .member = START }, name##_run_##suffix, name##_lanes_##suffix, name##_merge_##suffix }

/* Defines `static const ol_folds name` for float32 and float64: elements read as double, sixteen
 * lanes. */
#define OL_FLOAT_FOLDS(name, START, STEP, MERGE)                                                   \
  OL_FOLD_KERNELS(name, f32, float, double, double, 16, double, f64, START, STEP, MERGE)           \
  OL_FOLD_KERNELS(name, f64, double, double, double, 16, double, f64, START, STEP, MERGE)          \
  static const ol_folds name = {                                                                   \
    { [OL_F32] = OL_FOLD(name, f32, f64, START), [OL_F64] = OL_FOLD(name, f64, f64, START) }       \
  };

/* And for integers, read as int64. */
#define OL_NUMBER_FOLDS(name, START, STEP, MERGE, INT_START, INT_STEP, INT_MERGE)                  \
  OL_FOLD_KERNELS(name, f32, float, double, double, 16, double, f64, START, STEP, MERGE)           \
  OL_FOLD_KERNELS(name, f64, double, double, double, 16, double, f64, START, STEP, MERGE)          \
  OL_FOLD_KERNELS(name, u8, uint8_t, int64_t, int64_t, 16, int64_t, i64, INT_START, INT_STEP,      \
                  INT_MERGE)                                                                       \
  OL_FOLD_KERNELS(name, i64, int64_t, int64_t, int64_t, 16, int64_t, i64, INT_START, INT_STEP,     \
                  INT_MERGE)                                                                       \
  static const ol_folds name = { { [OL_F32] = OL_FOLD(name, f32, f64, START),                      \
                                   [OL_F64] = OL_FOLD(name, f64, f64, START),                      \
                                   [OL_U8] = OL_FOLD(name, u8, i64, INT_START),                    \
                                   [OL_I64] = OL_FOLD(name, i64, i64, INT_START) } };

/* Extremes: exact in the elements' own dtype. Of fractions, and of integers too. */
#define OL_EXTREME_FLOAT_FOLDS(name, START, STEP, MERGE)                                           \
  OL_FOLD_KERNELS(name, f32, float, float, float, 64, double, f64, START, STEP, MERGE)             \
  OL_FOLD_KERNELS(name, f64, double, double, double, 64, double, f64, START, STEP, MERGE)          \
  static const ol_folds name = {                                                                   \
    { [OL_F32] = OL_FOLD(name, f32, f64, START), [OL_F64] = OL_FOLD(name, f64, f64, START) }       \
  };

#define OL_EXTREME_FOLDS(name, START, U8_START, I64_START, STEP, MERGE)                            \
  OL_FOLD_KERNELS(name, f32, float, float, float, 64, double, f64, START, STEP, MERGE)             \
  OL_FOLD_KERNELS(name, f64, double, double, double, 64, double, f64, START, STEP, MERGE)          \
  OL_FOLD_KERNELS(name, u8, uint8_t, uint8_t, uint8_t, 64, int64_t, i64, U8_START, STEP, MERGE)    \
  OL_FOLD_KERNELS(name, i64, int64_t, int64_t, int64_t, 64, int64_t, i64, I64_START, STEP, MERGE)  \
  static const ol_folds name = { { [OL_F32] = OL_FOLD(name, f32, f64, START),                      \
                                   [OL_F64] = OL_FOLD(name, f64, f64, START),                      \
                                   [OL_U8] = OL_FOLD(name, u8, i64, U8_START),                     \
                                   [OL_I64] = OL_FOLD(name, i64, i64, I64_START) } };

/* Counts: totals of int64 from elements of any dtype that computes or is data. */
#define OL_COUNT_FOLDS(name, STEP)                                                                 \
  OL_FOLD_KERNELS(name, f32, float, float, int64_t, 16, int64_t, i64, 0, STEP, OL_FOLD_ADD)        \
  OL_FOLD_KERNELS(name, f64, double, double, int64_t, 16, int64_t, i64, 0, STEP, OL_FOLD_ADD)      \
  OL_FOLD_KERNELS(name, u8, uint8_t, uint8_t, int64_t, 16, int64_t, i64, 0, STEP, OL_FOLD_ADD)     \
  OL_FOLD_KERNELS(name, i64, int64_t, int64_t, int64_t, 16, int64_t, i64, 0, STEP, OL_FOLD_ADD)    \
  static const ol_folds name = { { [OL_F32] = OL_FOLD(name, f32, i64, 0),                          \
                                   [OL_F64] = OL_FOLD(name, f64, i64, 0),                          \
                                   [OL_U8] = OL_FOLD(name, u8, i64, 0),                            \
                                   [OL_I64] = OL_FOLD(name, i64, i64, 0) } };

/* The greater and the lesser of two; NaN wins. Without branches, so that they vectorise; clang
 * takes `|` of comparisons for a slip unless they are numbers. */
#define OL_MAX_OF(t, u)   (((int)((u) > (t)) | (int)((u) != (u))) ? (u) : (t))
#define OL_MIN_OF(t, u)   (((int)((u) < (t)) | (int)((u) != (u))) ? (u) : (t))

#define OL_FOLD_ADD(t, u) ((t) + (u))

#endif
