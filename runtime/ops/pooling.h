/* pooling: what pools share: which elements of each line every window covers. */
#ifndef OL_OPS_POOLING_H
#define OL_OPS_POOLING_H

#include "ops/window.h"

/* What a window covers of one dimension: positions first, first + step …, `count` of them. */
typedef struct ol_span {
  int64_t first, count;
  int64_t extent; /* with its padding, without what hangs over that */
} ol_span;

typedef struct ol_pool {
  ol_windows planes;
  ol_dtype dtype;
  int64_t step_y, step_x;
  ol_span *y, *x;   /* of each window; x lies behind y in one block */
  int64_t from, to; /* windows of x that cover a whole kernel, and begin a stride apart */
} ol_pool;

/* Makes the pool of windows that ol_windows_count has counted; its spans are to be freed. */
ol_status ol_pool_make(ol_error *error, const ol_windows *planes, ol_dtype dtype, ol_pool *out);

/* Makes the pool that cuts every line into out (an argument: one number, or one for each
 * dimension) windows of nearly the same size, which may overlap by one. */
ol_status ol_pool_adaptive(ol_error *error, const char *op, const ol_tensor *x, int spatial,
                           const ol_value *out, ol_pool *pool);

void ol_pool_free(ol_pool *pool);

/* Reads the arguments kernel_size, stride (default: the kernel) and padding, at 1 … 3, into planes
 * of x with that dilation. A window is at most half padding. */
ol_status ol_pool_read(ol_error *error, const char *op, const ol_value *arg, int spatial,
                       const int64_t dilation[2], bool ceil, ol_windows *planes);

/* Elements and windows of a plane. */
static inline int64_t ol_pool_area(const ol_pool *pool) {
  return pool->planes.y.size * pool->planes.x.size;
}
static inline int64_t ol_pool_windows(const ol_pool *pool) {
  return pool->planes.y.out * pool->planes.x.out;
}

/* Planes that are worth another thread. */
int64_t ol_pool_grain(const ol_pool *pool);

#endif
