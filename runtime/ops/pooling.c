/* pooling: the spans of windows, fixed and adaptive. */
#include "ops/pooling.h"

#include "base/memory.h"
#include "base/parallel.h"

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static ol_span fixed_span(const ol_axis *axis, int64_t window) {
  int64_t from, to;
  const int64_t start = window * axis->stride - axis->padding;
  ol_axis_taps(axis, window, &from, &to);
  return (ol_span){ .first = start + from * axis->dilation,
                    .count = to - from,
                    .extent = least_of(start + axis->kernel, axis->size + axis->padding) - start };
}

static ol_span adaptive_span(const ol_axis *axis, int64_t window) {
  const int64_t quotient = axis->size / axis->out, rest = axis->size % axis->out;
  const int64_t first = window * quotient + window * rest / axis->out;
  const int64_t end = (window + 1) * quotient + ((window + 1) * rest + axis->out - 1) / axis->out;
  return (ol_span){ .first = first, .count = end - first, .extent = end - first };
}

/* Finds pool->from and to. */
static void find_whole(ol_pool *pool) {
  const ol_axis *axis = &pool->planes.x;
  const ol_span *x = pool->x;
  int64_t from = 0, to;
  while (from < axis->out && x[from].count != axis->kernel) from++;
  for (to = from; to < axis->out; to++)
    if (x[to].count != axis->kernel || x[to].first != x[from].first + (to - from) * axis->stride)
      break;
  pool->from = from, pool->to = to;
}

static ol_status make(ol_error *error, const ol_windows *planes, ol_dtype dtype,
                      ol_span (*span)(const ol_axis *axis, int64_t window), ol_pool *out) {
  const ol_axis *y = &planes->y, *x = &planes->x;
  ol_pool pool = {
    .planes = *planes, .dtype = dtype, .step_y = y->dilation, .step_x = x->dilation
  };
  OL_TRY(OL_ALLOC(error, (size_t)(y->out + x->out) * sizeof *pool.y, "windows of a pool", &pool.y));
  pool.x = pool.y + y->out;
  for (int64_t i = 0; i < y->out; i++) pool.y[i] = span(y, i);
  for (int64_t i = 0; i < x->out; i++) pool.x[i] = span(x, i);
  find_whole(&pool);
  *out = pool;
  return OL_OK;
}

ol_status ol_pool_make(ol_error *error, const ol_windows *planes, ol_dtype dtype, ol_pool *out) {
  return make(error, planes, dtype, fixed_span, out);
}

ol_status ol_pool_adaptive(ol_error *error, const char *op, const ol_tensor *x, int spatial,
                           const ol_value *out, ol_pool *pool) {
  ol_windows planes;
  int64_t sizes[2];
  OL_TRY(ol_windows_of(error, op, x, spatial, true, &planes));
  OL_TRY(ol_window_list(error, op, "output_size", out, spatial, 0, 1, sizes));
  if (spatial == 2) planes.y.out = sizes[0];
  planes.x.out = sizes[1];
  return make(error, &planes, x->dtype, adaptive_span, pool);
}

void ol_pool_free(ol_pool *pool) { ol_free(pool->y); }

static ol_status check_padding(ol_error *error, const char *op, const int64_t kernel[2],
                               const int64_t padding[2], const int64_t dilation[2]) {
  for (int d = 0; d < 2; d++)
    if (2 * padding[d] > (kernel[d] - 1) * dilation[d] + 1)
      return ol_fail(error, OL_ARGUMENT,
                     "%s: padding is %lld, wants at most half of the kernel's size of %lld", op,
                     (long long)padding[d], (long long)((kernel[d] - 1) * dilation[d] + 1));
  return OL_OK;
}

ol_status ol_pool_read(ol_error *error, const char *op, const ol_value *arg, int spatial,
                       const int64_t dilation[2], bool ceil, ol_windows *planes) {
  int64_t kernel[2], stride[2], padding[2];
  OL_TRY(ol_windows_of(error, op, arg[0].tensor, spatial, true, planes));
  OL_TRY(ol_window_list(error, op, "kernel_size", &arg[1], spatial, 0, 1, kernel));
  if (kernel[0] == 0) return ol_fail(error, OL_ARGUMENT, "%s: kernel_size is empty", op);
  OL_TRY(ol_window_list(error, op, "stride", &arg[2], spatial, 0, 1, stride));
  for (int d = 0; d < 2; d++)
    if (stride[d] == 0) stride[d] = kernel[d];
  OL_TRY(ol_window_list(error, op, "padding", &arg[3], spatial, 0, 0, padding));
  OL_TRY(check_padding(error, op, kernel, padding, dilation));
  ol_windows_set(planes, kernel, stride, padding, dilation);
  return ol_windows_count(error, op, planes, ceil);
}

int64_t ol_pool_grain(const ol_pool *pool) {
  return ol_grain(2 * ((double)ol_pool_area(pool) + (double)ol_pool_windows(pool)));
}
