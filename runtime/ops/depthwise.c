/* depthwise: convolutions whose groups have one channel each, tap by tap over a plane. */
#include "base/parallel.h"
#include "ops/convolve.h"

enum { LANES = 16 };

/* The part of a plane at which a tap lies inside: rows and columns of the result, and how far
 * behind the first of them, times the stride, the image's element lies. */
typedef struct tap {
  int64_t top, bottom, left, right, shift;
} tap;

static tap tap_at(const ol_windows *p, int64_t k) {
  const int64_t ky = k / p->x.kernel, kx = k % p->x.kernel;
  tap t = { .shift = ol_axis_shift(&p->y, ky) * p->x.size + ol_axis_shift(&p->x, kx) };
  ol_axis_inside(&p->y, ky, &t.top, &t.bottom);
  ol_axis_inside(&p->x, kx, &t.left, &t.right);
  return t;
}

/* The lines of a tap on planes of an image and of the result. */
#define EACH_LINE(image_type, result_type)                                                         \
  const int64_t stride = p->x.stride, step = p->y.stride * p->x.size;                              \
  for (int64_t row = t->top; row < t->bottom; row++) {                                             \
    image_type *in = image + row * step + t->shift;                                                \
    result_type *out = result + row * p->x.out;

#define DEFINE(suffix, type)                                                                       \
  OL_KERNEL static void forward_##suffix(const ol_windows *p, const tap *t, type w,                \
                                         const type *image, type *result) {                        \
    EACH_LINE(const type, type)                                                                    \
    if (stride == 1)                                                                               \
      OL_APART for (int64_t i = t->left; i < t->right; i++) out[i] += w * in[i];                   \
    else                                                                                           \
      OL_APART for (int64_t i = t->left; i < t->right; i++) out[i] += w * in[i * stride];          \
  }                                                                                                \
  }                                                                                                \
  OL_KERNEL static void back_##suffix(const ol_windows *p, const tap *t, type w, type *image,      \
                                      const type *result) {                                        \
    EACH_LINE(type, const type)                                                                    \
    if (stride == 1)                                                                               \
      OL_APART for (int64_t i = t->left; i < t->right; i++) in[i] += w * out[i];                   \
    else                                                                                           \
      OL_APART for (int64_t i = t->left; i < t->right; i++) in[i * stride] += w * out[i];          \
  }                                                                                                \
  }                                                                                                \
  OL_KERNEL static void weight_##suffix(const ol_windows *p, const tap *t, const type *image,      \
                                        const type *result, double *lane) {                        \
    EACH_LINE(const type, const type)                                                              \
    int64_t i = t->left;                                                                           \
    for (; i + LANES <= t->right; i += LANES)                                                      \
      for (int k = 0; k < LANES; k++)                                                              \
        lane[k] += (double)in[(i + k) * stride] * (double)out[i + k];                              \
    for (int k = 0; i + k < t->right; k++)                                                         \
      lane[k] += (double)in[(i + k) * stride] * (double)out[i + k];                                \
  }                                                                                                \
  }

DEFINE(f32, float)
DEFINE(f64, double)

typedef struct job {
  const ol_convolution *c;
  const void *x, *g, *w, *bias;
  void *to;
} job;

static int64_t taps_of(const ol_convolution *c) { return c->planes.y.kernel * c->planes.x.kernel; }

static int64_t area(const ol_windows *p) { return p->y.size * p->x.size; }

static int64_t windows(const ol_windows *p) { return p->y.out * p->x.out; }

/* Planes of the result from begin to end, counted through all images. */
static void forward_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const ol_windows *p = &j->c->planes;
  const int64_t taps = taps_of(j->c), each = j->c->out / p->channels;
  for (int64_t plane = begin; plane < end; plane++) {
    const int64_t image = plane / j->c->out, o = plane % j->c->out;
    const int64_t x = (image * p->channels + o / each) * area(p), y = plane * windows(p);
    for (int64_t k = 0; k < taps; k++) {
      const tap t = tap_at(p, k);
      if (j->c->dtype == OL_F32)
        forward_f32(p, &t, ((const float *)j->w)[o * taps + k], (const float *)j->x + x,
                    (float *)j->to + y);
      else
        forward_f64(p, &t, ((const double *)j->w)[o * taps + k], (const double *)j->x + x,
                    (double *)j->to + y);
    }
  }
}

/* One plane of an image takes what one plane of the result gives back. */
static void back_plane(const job *j, int64_t x, int64_t y, int64_t o) {
  const ol_windows *p = &j->c->planes;
  const int64_t taps = taps_of(j->c);
  for (int64_t k = 0; k < taps; k++) {
    const tap t = tap_at(p, k);
    if (j->c->dtype == OL_F32)
      back_f32(p, &t, ((const float *)j->w)[o * taps + k], (float *)j->to + x,
               (const float *)j->g + y);
    else
      back_f64(p, &t, ((const double *)j->w)[o * taps + k], (double *)j->to + x,
               (const double *)j->g + y);
  }
}

static void back_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const ol_windows *p = &j->c->planes;
  const int64_t each = j->c->out / p->channels;
  for (int64_t plane = begin; plane < end; plane++) /* each one's results lie behind each other */
    for (int64_t m = 0; m < each; m++)
      back_plane(j, plane * area(p), (plane * each + m) * windows(p),
                 plane % p->channels * each + m);
}

/* The gradient of one weight: of tap k of channel o of the result. */
static double weight_sum(const job *j, int64_t o, int64_t k) {
  const ol_windows *p = &j->c->planes;
  const int64_t each = j->c->out / p->channels;
  const tap t = tap_at(p, k);
  double lane[LANES] = { 0 };
  for (int64_t image = 0; image < p->images; image++) {
    const int64_t x = (image * p->channels + o / each) * area(p);
    const int64_t y = (image * j->c->out + o) * windows(p);
    if (j->c->dtype == OL_F32)
      weight_f32(p, &t, (const float *)j->x + x, (const float *)j->g + y, lane);
    else
      weight_f64(p, &t, (const double *)j->x + x, (const double *)j->g + y, lane);
  }
  for (int width = LANES / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) lane[i] += lane[i + width];
  return lane[0];
}

static void weight_channels(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const int64_t taps = taps_of(j->c);
  for (int64_t i = begin * taps; i < end * taps; i++) {
    const double sum = weight_sum(j, i / taps, i % taps);
    if (j->c->dtype == OL_F32)
      ((float *)j->to)[i] = (float)sum;
    else
      ((double *)j->to)[i] = sum;
  }
}

static int64_t grain(const ol_convolution *c, int64_t planes) {
  return 1 + OL_GRAIN / (1 + planes * taps_of(c) * windows(&c->planes));
}

void ol_depthwise(const ol_convolution *c, const void *x, const void *w, const void *bias,
                  void *y) {
  job j = { .c = c, .x = x, .w = w, .to = y };
  ol_fill_channels(c->dtype, c->planes.images, c->out, windows(&c->planes), bias, y);
  ol_parallel_for(c->planes.images * c->out, grain(c, 1), forward_planes, &j);
}

void ol_depthwise_back(const ol_convolution *c, const void *g, const void *w, const void *bias,
                       void *x) {
  const ol_windows *p = &c->planes;
  job j = { .c = c, .g = g, .w = w, .to = x };
  ol_fill_channels(c->dtype, p->images, p->channels, area(p), bias, x);
  ol_parallel_for(p->images * p->channels, grain(c, c->out / p->channels), back_planes, &j);
}

void ol_depthwise_weight(const ol_convolution *c, const void *x, const void *g, void *w) {
  job j = { .c = c, .x = x, .g = g, .to = w };
  ol_parallel_for(c->out, grain(c, c->planes.images), weight_channels, &j);
}
