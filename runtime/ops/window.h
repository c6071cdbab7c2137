/* window: how windows slide over the one or two last dimensions of a tensor: what convolutions and
 * pools share. One dimension is two of which the first, the rows, has size 1. */
#ifndef OL_OPS_WINDOW_H
#define OL_OPS_WINDOW_H

#include "autograd/op.h"

/* One dimension: a window covers positions o*stride - padding + tap*dilation, tap < kernel. */
typedef struct ol_axis {
  int64_t size, kernel, stride, padding, dilation;
  int64_t out; /* windows */
} ol_axis;

/* A tensor (images, channels, y, x); without images where it was given so. */
typedef struct ol_windows {
  int64_t images, channels;
  ol_axis y, x;
  int spatial; /* 1: (images, channels, x) */
  bool batched;
} ol_windows;

#define OL_WINDOW_MOST INT32_MAX /* of kernels, strides, paddings, dilations */

/* Reads a list of one number for all dimensions or one for each, `least` or more, into values[2];
 * where it is missing all are preset. Errors: `conv2d: stride is 0, wants at least 1`. */
ol_status ol_window_list(ol_error *error, const char *op, const char *name, const ol_value *list,
                         int spatial, int64_t preset, int64_t least, int64_t values[2]);

/* Reads the shape of x, (images, channels, …) or (channels, …), into out; its axes are windows of
 * one element. Fails for integers and bfloat16, for other numbers of dimensions and, with
 * `nonempty`, where a size other than images is 0. */
ol_status ol_windows_of(ol_error *error, const char *op, const ol_tensor *x, int spatial,
                        bool nonempty, ol_windows *out);

/* Sets axis y (0) or x (1) of planes from lists that ol_window_list has read. */
void ol_windows_set(ol_windows *planes, const int64_t kernel[2], const int64_t stride[2],
                    const int64_t padding[2], const int64_t dilation[2]);

/* Counts the windows of each axis; ceil lets the last one hang over the end (not begin beyond it).
 * Fails where the kernel does not fit into the padded input. */
ol_status ol_windows_count(ol_error *error, const char *op, ol_windows *planes, bool ceil);

/* The shape of what has `channels` and a value for each window. */
ol_shape ol_windows_out(const ol_windows *planes, int64_t channels);

/* Where tap of the window 0 lies; negative in the padding. */
static inline int64_t ol_axis_shift(const ol_axis *axis, int64_t tap) {
  return tap * axis->dilation - axis->padding;
}

/* The windows [from, to) whose tap lies inside. */
void ol_axis_inside(const ol_axis *axis, int64_t tap, int64_t *from, int64_t *to);

/* The taps [from, to) of a window that lie inside. */
void ol_axis_taps(const ol_axis *axis, int64_t window, int64_t *from, int64_t *to);

#endif
