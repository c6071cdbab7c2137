/* convolve: the three products that convolutions, and transposed ones, are made of.
 *
 * Images are (images, channels, y, x), results (images, out, y.out, x.out), weights
 * (out, channels / groups, y.kernel, x.kernel); all dense. Products go through BLAS tile by tile,
 * with a few MiB of scratch a thread; where each group has one channel they are kernels of our
 * own. Which of these, and tiles, depend on shapes alone, and sums are taken in a fixed order. */
#ifndef OL_OPS_CONVOLVE_H
#define OL_OPS_CONVOLVE_H

#include "ops/window.h"

typedef struct ol_convolution {
  ol_windows planes;
  ol_dtype dtype;
  int64_t groups, out; /* out: channels of the result */
} ol_convolution;

/* y = the convolution of x with w, plus bias (out) where it is not NULL. */
ol_status ol_convolve(ol_error *error, const ol_convolution *c, const void *x, const void *w,
                      const void *bias, void *y);

/* x = what each element of g, of a result's shape, gives back through w, plus bias (channels) where
 * it is not NULL: the gradient by the images, and the transposed convolution. */
ol_status ol_convolve_back(ol_error *error, const ol_convolution *c, const void *g, const void *w,
                           const void *bias, void *x);

/* w = the gradient by the weights of images x and gradients g of the result. */
ol_status ol_convolve_weight(ol_error *error, const ol_convolution *c, const void *x, const void *g,
                             void *w);

/* Whether each group has one channel (groups = planes.channels), and the three that follow are less
 * work than matrix products: they lay planes out with all that windows reach. */
bool ol_depthwise_pays(const ol_convolution *c);

/* The same three where that holds. */
ol_status ol_depthwise(ol_error *error, const ol_convolution *c, const void *x, const void *w,
                       const void *bias, void *y);
ol_status ol_depthwise_back(ol_error *error, const ol_convolution *c, const void *g, const void *w,
                            const void *bias, void *x);
ol_status ol_depthwise_weight(ol_error *error, const ol_convolution *c, const void *x,
                              const void *g, void *w);

#endif
