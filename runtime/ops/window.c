/* window: arguments, sizes and bounds of sliding windows. */
#include "ops/window.h"

#include "ops/reduce.h"

ol_status ol_window_list(ol_error *error, const char *op, const char *name, const ol_value *list,
                         int spatial, int64_t preset, int64_t least, int64_t values[2]) {
  static const ol_shape none = { .ndim = 0 };
  const ol_shape *given = list->given ? &list->list : &none;
  if (given->ndim > 1 && given->ndim != spatial)
    return ol_fail(error, OL_ARGUMENT, "%s: %s has %d numbers, wants %s", op, name, given->ndim,
                   spatial == 1 ? "1" : "1 or 2");
  for (int d = 0; d < given->ndim; d++) {
    const long long value = (long long)given->size[d];
    if (value < least)
      return ol_fail(error, OL_ARGUMENT, "%s: %s is %lld, wants at least %lld", op, name, value,
                     (long long)least);
    if (value > OL_WINDOW_MOST)
      return ol_fail(error, OL_ARGUMENT, "%s: %s is %lld, wants at most %lld", op, name, value,
                     (long long)OL_WINDOW_MOST);
  }
  values[1] = given->ndim ? given->size[given->ndim - 1] : preset;
  values[0] = given->ndim ? given->size[0] : preset;
  return OL_OK;
}

ol_status ol_windows_of(ol_error *error, const char *op, const ol_tensor *x, int spatial,
                        bool nonempty, ol_windows *out) {
  char text[OL_SHAPE_TEXT];
  const ol_shape *shape = &x->shape;
  OL_TRY(ol_reduce_check(error, op, x->dtype, true));
  if (shape->ndim != spatial + 1 && shape->ndim != spatial + 2)
    return ol_fail(error, OL_SHAPE, "%s: input %s has %d dimensions, wants %s", op,
                   ol_shape_text(shape, text), shape->ndim,
                   spatial == 1 ? "(N, C, L) or (C, L)" : "(N, C, H, W) or (C, H, W)");
  const bool batched = shape->ndim == spatial + 2;
  const int64_t *size = shape->size + batched;
  for (int d = 0; nonempty && d <= spatial; d++)
    if (size[d] == 0)
      return ol_fail(error, OL_SHAPE, "%s: input %s is empty; only its batch may be", op,
                     ol_shape_text(shape, text));
  const ol_axis unit = { .kernel = 1, .stride = 1, .dilation = 1 };
  *out = (ol_windows){ .images = batched ? shape->size[0] : 1,
                       .channels = size[0],
                       .y = unit,
                       .x = unit,
                       .spatial = spatial,
                       .batched = batched };
  out->y.size = out->y.out = spatial == 2 ? size[1] : 1;
  out->x.size = out->x.out = size[spatial];
  return OL_OK;
}

static void set_axis(ol_axis *axis, int64_t kernel, int64_t stride, int64_t padding,
                     int64_t dilation) {
  axis->kernel = kernel;
  axis->stride = stride;
  axis->padding = padding;
  axis->dilation = dilation;
}

void ol_windows_set(ol_windows *planes, const int64_t kernel[2], const int64_t stride[2],
                    const int64_t padding[2], const int64_t dilation[2]) {
  if (planes->spatial == 2) set_axis(&planes->y, kernel[0], stride[0], padding[0], dilation[0]);
  set_axis(&planes->x, kernel[1], stride[1], padding[1], dilation[1]);
}

static int64_t extent(const ol_axis *axis) { return (axis->kernel - 1) * axis->dilation + 1; }

/* How far the first window may reach beyond what is padded: rounded up, one is there when its
 * stride would leave a rest. */
static int64_t overhang(const ol_axis *axis, bool ceil) {
  return ceil && axis->size + axis->padding > 0 ? axis->stride - 1 : 0;
}

static void count(ol_axis *axis, bool ceil) {
  const int64_t room = axis->size + 2 * axis->padding - extent(axis);
  axis->out = (room + (ceil ? axis->stride - 1 : 0)) / axis->stride + 1;
  if (ceil && (axis->out - 1) * axis->stride >= axis->size + axis->padding) axis->out--;
}

ol_status ol_windows_count(ol_error *error, const char *op, ol_windows *planes, bool ceil) {
  const ol_axis *y = &planes->y, *x = &planes->x;
  const long long padded[] = { y->size + 2 * y->padding, x->size + 2 * x->padding };
  const long long kernel[] = { extent(y), extent(x) };
  if (kernel[0] - padded[0] > overhang(y, ceil) || kernel[1] - padded[1] > overhang(x, ceil)) {
    const char *what = y->dilation > 1 || x->dilation > 1 ? "the dilated kernel" : "the kernel";
    if (planes->spatial == 1)
      return ol_fail(error, OL_SHAPE, "%s: %s (%lld) is larger than the padded input (%lld)", op,
                     what, kernel[1], padded[1]);
    return ol_fail(error, OL_SHAPE,
                   "%s: %s (%lld, %lld) is larger than the padded input (%lld, %lld)", op, what,
                   kernel[0], kernel[1], padded[0], padded[1]);
  }
  count(&planes->y, ceil);
  count(&planes->x, ceil);
  return OL_OK;
}

ol_shape ol_windows_out(const ol_windows *planes, int64_t channels) {
  ol_shape shape = { .ndim = 0 };
  if (planes->batched) shape.size[shape.ndim++] = planes->images;
  shape.size[shape.ndim++] = channels;
  if (planes->spatial == 2) shape.size[shape.ndim++] = planes->y.out;
  shape.size[shape.ndim++] = planes->x.out;
  return shape;
}

/* The multiples [from, to) of step, among the first `count`, at which shift + i*step lies within
 * 0 … size-1. */
static void bounds(int64_t shift, int64_t step, int64_t size, int64_t count, int64_t *from,
                   int64_t *to) {
  int64_t first = shift >= 0 ? 0 : (-shift - 1) / step + 1;
  int64_t end = size <= shift ? 0 : (size - shift - 1) / step + 1;
  *to = end < count ? end : count;
  *from = first < *to ? first : *to;
}

void ol_axis_inside(const ol_axis *axis, int64_t tap, int64_t *from, int64_t *to) {
  bounds(ol_axis_shift(axis, tap), axis->stride, axis->size, axis->out, from, to);
}

void ol_axis_taps(const ol_axis *axis, int64_t window, int64_t *from, int64_t *to) {
  bounds(window * axis->stride - axis->padding, axis->dilation, axis->size, axis->kernel, from, to);
}
