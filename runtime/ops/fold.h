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

typedef union ol_total {
  double f64;
  int64_t i64;
} ol_total;

/* How elements of one dtype are folded. `center` is a number for each total, or NULL. */
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

/* A tensor seen as (outer, count, inner), and the shape of its totals. */
typedef struct ol_folding {
  ol_tensor *source; /* contiguous; one reference */
  int64_t outer, count, inner;
  ol_shape shape;
} ol_folding;

/* Prepares to fold x over dims (all when empty). Copies x where it is not contiguous or dims are
 * not neighbours. */
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

/* Writes totals to a contiguous tensor of as many elements: float32 and float64 take fractions,
 * uint8 and int64 integers. */
void ol_totals_store(const ol_totals *totals, ol_tensor *target);

/* Defines `static const ol_fold name_suffix` … : START is the identity, STEP(t, x, c) the total
 * after element x with center c, MERGE(t, u) that of two. Sixteen lanes, merged by halves. */
#define OL_FOLD_KERNELS(name, suffix, type, total_type, member, START, STEP, MERGE)                \
  OL_KERNEL static void name##_run_##suffix(int64_t count, const void *data, const double *center, \
                                            ol_total *total) {                                     \
    const type *x = data;                                                                          \
    const double c = center ? *center : 0;                                                         \
    (void)c;                                                                                       \
    total_type lane[16];                                                                           \
    for (int k = 0; k < 16; k++) lane[k] = START;                                                  \
    int64_t whole = count & ~(int64_t)15;                                                          \
    for (int64_t i = 0; i < whole; i += 16)                                                        \
      for (int k = 0; k < 16; k++) lane[k] = STEP(lane[k], (total_type)x[i + k], c);               \
    for (int64_t i = whole; i < count; i++)                                                        \
      lane[i & 15] = STEP(lane[i & 15], (total_type)x[i], c);                                      \
    for (int width = 8; width > 0; width /= 2)                                                     \
      for (int k = 0; k < width; k++) lane[k] = MERGE(lane[k], lane[k + width]);                   \
    total->member = lane[0];                                                                       \
  }                                                                                                \
  OL_KERNEL static void name##_lanes_##suffix(int64_t count, const void *data,                     \
                                              const double *center, ol_total *total) {             \
    const type *x = data;                                                                          \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const double c = center ? center[i] : 0;                                                     \
      (void)c;                                                                                     \
      total[i].member = STEP(total[i].member, (total_type)x[i], c);                                \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static void name##_merge_##suffix(int64_t count, const ol_total *from,                 \
                                              ol_total *total) {                                   \
    for (int64_t i = 0; i < count; i++) total[i].member = MERGE(total[i].member, from[i].member);  \
  }

#define OL_FOLD(name, suffix, MEMBER, START)                                                       \
  { { .MEMBER = START }, name##_run_##suffix, name##_lanes_##suffix, name##_merge_##suffix }

/* Defines `static const ol_folds name` for fractions, or for integers too. */
#define OL_DEFINE_FLOAT_FOLD(name, START, STEP, MERGE)                                             \
  OL_FOLD_KERNELS(name, f32, float, double, f64, START, STEP, MERGE)                               \
  OL_FOLD_KERNELS(name, f64, double, double, f64, START, STEP, MERGE)                              \
  static const ol_folds name = {                                                                   \
    { [OL_F32] = OL_FOLD(name, f32, f64, START), [OL_F64] = OL_FOLD(name, f64, f64, START) }       \
  };

#define OL_DEFINE_FOLD(name, FLOAT_START, INTEGER_START, STEP, MERGE)                              \
  OL_FOLD_KERNELS(name, f32, float, double, f64, FLOAT_START, STEP, MERGE)                         \
  OL_FOLD_KERNELS(name, f64, double, double, f64, FLOAT_START, STEP, MERGE)                        \
  OL_FOLD_KERNELS(name, u8, uint8_t, int64_t, i64, INTEGER_START, STEP, MERGE)                     \
  OL_FOLD_KERNELS(name, i64, int64_t, int64_t, i64, INTEGER_START, STEP, MERGE)                    \
  static const ol_folds name = { { [OL_F32] = OL_FOLD(name, f32, f64, FLOAT_START),                \
                                   [OL_F64] = OL_FOLD(name, f64, f64, FLOAT_START),                \
                                   [OL_U8] = OL_FOLD(name, u8, i64, INTEGER_START),                \
                                   [OL_I64] = OL_FOLD(name, i64, i64, INTEGER_START) } };

#endif
