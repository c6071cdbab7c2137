/* interpolate: lines and images of another size.
 *
 * Each axis has a table: between which two positions of the input each of the result lies, and how
 * much of each it takes. */
#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/window.h"

/* Where the arguments stand, and the modes. */
enum { INPUT, SIZE, SCALE, MODE, CORNERS, SCALE_X };
enum { NEAREST, LINEAR, BILINEAR };

typedef struct blend {
  int64_t from, next; /* positions */
  double rest;        /* how much of next; 1 - rest of from */
} blend;

typedef struct job {
  ol_windows planes; /* its windows are the elements of the result */
  ol_dtype dtype;
  bool nearest;
  blend *y, *x; /* of each row and column of the result; one block */
  const void *from;
  void *to;
} job;

#define DEFINE(suffix, type)                                                                       \
  static inline type mix_##suffix(const type *line, const blend *b) {                              \
    return (type)(1 - b->rest) * line[b->from] + (type)b->rest * line[b->next];                    \
  }                                                                                                \
  OL_KERNEL static void nearest_##suffix(const job *j, const type *x, type *to) {                  \
    for (int64_t oy = 0; oy < j->planes.y.out; oy++) {                                             \
      const type *line = x + j->y[oy].from * j->planes.x.size;                                     \
      for (int64_t ox = 0; ox < j->planes.x.out; ox++) *to++ = line[j->x[ox].from];                \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static void blend_##suffix(const job *j, const type *x, type *to) {                    \
    for (int64_t oy = 0; oy < j->planes.y.out; oy++) {                                             \
      const blend *b = &j->y[oy];                                                                  \
      const type *above = x + b->from * j->planes.x.size, *below = x + b->next * j->planes.x.size; \
      const type rest = (type)b->rest, most = (type)(1 - b->rest);                                 \
      if (b->from == b->next || b->rest == 0)                                                      \
        for (int64_t ox = 0; ox < j->planes.x.out; ox++) *to++ = mix_##suffix(above, &j->x[ox]);   \
      else                                                                                         \
        for (int64_t ox = 0; ox < j->planes.x.out; ox++)                                           \
          *to++ = most * mix_##suffix(above, &j->x[ox]) + rest * mix_##suffix(below, &j->x[ox]);   \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static void give_##suffix(const job *j, const type *g, type *x) {                      \
    for (int64_t oy = 0; oy < j->planes.y.out; oy++) {                                             \
      type *line = x + j->y[oy].from * j->planes.x.size;                                           \
      for (int64_t ox = 0; ox < j->planes.x.out; ox++) line[j->x[ox].from] += *g++;                \
    }                                                                                              \
  }                                                                                                \
  OL_KERNEL static void spread_##suffix(const job *j, const type *g, type *x) {                    \
    for (int64_t oy = 0; oy < j->planes.y.out; oy++) {                                             \
      const blend *b = &j->y[oy];                                                                  \
      type *above = x + b->from * j->planes.x.size, *below = x + b->next * j->planes.x.size;       \
      for (int64_t ox = 0; ox < j->planes.x.out; ox++, g++) {                                      \
        const blend *c = &j->x[ox];                                                                \
        const type high = (type)(1 - b->rest) * *g, low = (type)b->rest * *g;                      \
        above[c->from] += high * (type)(1 - c->rest);                                              \
        above[c->next] += high * (type)c->rest;                                                    \
        below[c->from] += low * (type)(1 - c->rest);                                               \
        below[c->next] += low * (type)c->rest;                                                     \
      }                                                                                            \
    }                                                                                              \
  }

DEFINE(f32, float)
DEFINE(f64, double)

static int64_t area(const ol_windows *p) { return p->y.size * p->x.size; }

static int64_t results(const ol_windows *p) { return p->y.out * p->x.out; }

#define PLANE(fn, type, from_size, to_size)                                                        \
  fn(j, (const type *)j->from + i * (from_size), (type *)j->to + i * (to_size))

static void forward_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const int64_t in = area(&j->planes), out = results(&j->planes);
  for (int64_t i = begin; i < end; i++)
    if (j->dtype == OL_F32)
      PLANE((j->nearest ? nearest_f32 : blend_f32), float, in, out);
    else
      PLANE((j->nearest ? nearest_f64 : blend_f64), double, in, out);
}

static void back_planes(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const int64_t in = area(&j->planes), out = results(&j->planes);
  const size_t bytes = (size_t)in * ol_dtype_size(j->dtype);
  memset((char *)j->to + (size_t)begin * bytes, 0, (size_t)(end - begin) * bytes);
  for (int64_t i = begin; i < end; i++)
    if (j->dtype == OL_F32)
      PLANE((j->nearest ? give_f32 : spread_f32), float, out, in);
    else
      PLANE((j->nearest ? give_f64 : spread_f64), double, out, in);
}

/* Nearest: the element below position i * scale, in float as PyTorch reckons it. */
static blend nearest_at(const ol_axis *axis, double factor, int64_t i) {
  const float scale = factor > 0 ? (float)(1 / factor) : (float)axis->size / (float)axis->out;
  int64_t from = axis->out == axis->size ? i : (int64_t)floorf((float)i * scale);
  if (axis->out == 2 * axis->size) from = i / 2;
  if (from > axis->size - 1) from = axis->size - 1;
  return (blend){ .from = from, .next = from };
}

static blend linear_at(const ol_axis *axis, double factor, bool corners, int64_t i) {
  const double size = (double)axis->size, out = (double)axis->out;
  double at = ((double)i + 0.5) * (factor > 0 ? 1 / factor : size / out) - 0.5;
  if (corners) at = axis->out > 1 ? (double)i * (size - 1) / (out - 1) : 0;
  if (axis->out == axis->size) at = (double)i;
  if (at < 0) at = 0;
  int64_t from = (int64_t)at;
  if (from > axis->size - 1) from = axis->size - 1;
  const double rest = at - (double)from;
  return (blend){ .from = from,
                  .next = from < axis->size - 1 ? from + 1 : from,
                  .rest = rest < 1 ? rest : 1 };
}

static void fill_table(const ol_axis *axis, double factor, const job *j, bool corners,
                       blend *table) {
  for (int64_t i = 0; i < axis->out; i++)
    table[i] = j->nearest ? nearest_at(axis, factor, i) : linear_at(axis, factor, corners, i);
}

static ol_status check_mode(ol_error *error, const ol_value *arg, int spatial) {
  const int mode = arg[MODE].choice;
  if (mode == LINEAR && spatial != 1)
    return ol_fail(error, OL_ARGUMENT,
                   "interpolate: mode \"linear\" wants (N, C, L); for (N, C, H, W) there is "
                   "\"bilinear\"");
  if (mode == BILINEAR && spatial != 2)
    return ol_fail(error, OL_ARGUMENT,
                   "interpolate: mode \"bilinear\" wants (N, C, H, W); for (N, C, L) there is "
                   "\"linear\"");
  if (mode == NEAREST && arg[CORNERS].given)
    return ol_fail(error, OL_ARGUMENT,
                   "interpolate: align_corners goes with modes linear and bilinear only");
  if (arg[SIZE].given == arg[SCALE].given)
    return ol_fail(error, OL_ARGUMENT, "interpolate: wants either size or scale_factor");
  return OL_OK;
}

static ol_status scale_axis(ol_error *error, double factor, ol_axis *axis) {
  const double out = floor((double)axis->size * factor);
  if (!(factor > 0))
    return ol_fail(error, OL_ARGUMENT,
                   "interpolate: scale_factor is %.14g, wants a positive number", ol_shown(factor));
  if (out >= 1 && out < 1e15) {
    axis->out = (int64_t)out;
    return OL_OK;
  }
  return ol_fail(error, OL_ARGUMENT,
                 "interpolate: scale_factor is %.14g, gives %.14g positions for a size of %lld",
                 ol_shown(factor), ol_shown(out), (long long)axis->size);
}

/* Reads the arguments for an input like x; factors are 0 where sizes were given. */
static ol_status read_arguments(ol_error *error, const ol_tensor *x, const ol_value *arg, job *j,
                                double factor[2]) {
  char text[OL_SHAPE_TEXT];
  const int spatial = x->shape.ndim - 2;
  int64_t sizes[2];
  if (spatial != 1 && spatial != 2)
    return ol_fail(error, OL_SHAPE, "interpolate: input %s, wants (N, C, L) or (N, C, H, W)",
                   ol_shape_text(&x->shape, text));
  OL_TRY(ol_windows_of(error, "interpolate", x, spatial, true, &j->planes));
  OL_TRY(check_mode(error, arg, spatial));
  j->dtype = x->dtype;
  j->nearest = arg[MODE].choice == NEAREST;

  if (arg[SIZE].given) {
    OL_TRY(ol_window_list(error, "interpolate", "size", &arg[SIZE], spatial, 0, 1, sizes));
    if (spatial == 2) j->planes.y.out = sizes[0];
    j->planes.x.out = sizes[1];
    return OL_OK;
  }
  factor[0] = factor[1] = arg[SCALE].number;
  if (arg[SCALE_X].given) factor[1] = arg[SCALE_X].number;
  if (spatial == 2) OL_TRY(scale_axis(error, factor[0], &j->planes.y));
  return scale_axis(error, factor[1], &j->planes.x);
}

/* Makes the job of a call on an input like x; its tables are to be freed (y). */
static ol_status make_job(ol_error *error, const ol_tensor *x, const ol_value *arg, job *j) {
  double factor[2] = { 0, 0 };
  ol_axis *ay = &j->planes.y, *ax = &j->planes.x;
  OL_TRY(read_arguments(error, x, arg, j, factor));
  OL_TRY(OL_ALLOC(error, (size_t)(ay->out + ax->out) * sizeof *j->y, "positions of interpolate",
                  &j->y));
  j->x = j->y + ay->out;
  fill_table(ay, factor[0], j, arg[CORNERS].flag, j->y);
  fill_table(ax, factor[1], j, arg[CORNERS].flag, j->x);
  return OL_OK;
}

/* From a tensor, made dense, to another. */
static ol_status run(ol_error *error, job *j, ol_tensor *from, ol_tensor *to, ol_range_fn *fn) {
  ol_tensor *dense;
  OL_TRY(ol_tensor_contiguous(error, from, &dense));
  j->from = ol_tensor_data(dense);
  j->to = ol_tensor_data(to);
  ol_parallel_for(j->planes.images * j->planes.channels,
                  ol_grain((double)area(&j->planes) + (double)results(&j->planes)), fn, j);
  ol_release(dense);
  return OL_OK;
}

static ol_status interpolate_forward(ol_error *error, ol_call *call) {
  job j = { 0 };
  ol_tensor *x = call->arg[INPUT].tensor;
  OL_TRY(make_job(error, x, call->arg, &j));
  const ol_shape shape = ol_windows_out(&j.planes, j.planes.channels);
  ol_status status = ol_tensor_new(error, x->dtype, &shape, &call->out[0]);
  if (status == OL_OK) status = run(error, &j, x, call->out[0], forward_planes);
  ol_free(j.y);
  return status;
}

static ol_status interpolate_backward(ol_error *error, ol_back *back) {
  job j = { 0 };
  const ol_tensor x = { .dtype = back->dtype[INPUT], .shape = *back->shape[INPUT] };
  OL_TRY(make_job(error, &x, back->arg, &j));
  ol_status status = ol_back_new(error, back, INPUT, &back->grad[INPUT]);
  if (status == OL_OK) status = run(error, &j, back->grad_out[0], back->grad[INPUT], back_planes);
  ol_free(j.y);
  return status;
}

static const ol_op ops[] = {
  { .name = "interpolate",
    .doc = "Lines (N, C, L) or images (N, C, H, W) of another size, given by size or scale_factor: "
           "the nearest elements, or between the two or four nearest ones in proportion.",
    .example = "print(optlua.interpolate(optlua.tensor({ { { 1, 3 } } }), 4, nil, \"linear\")) "
               "--> tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])",
    .samples =
        "{ { t(2, 3, 4), 7 }, { t(2, 3, 4, 5), { 7, 3 } }, { t(1, 2, 3, 4), { scale_factor = 2 } "
        "}, "
        "{ t(1, 2, 5, 4), { scale_factor = 1.7 } }, { t(2, 3, 5), 8, { mode = \"linear\" } }, "
        "{ t(2, 2, 4, 5), { 7, 3 }, { mode = \"bilinear\" } }, "
        "{ t(2, 2, 4, 5), { 7, 9 }, { mode = \"bilinear\", align_corners = true } }, "
        "{ t(1, 2, 4, 5), { scale_factor = 1.7, mode = \"bilinear\" } }, "
        "{ t(1, 1, 4, 5), 1, { mode = \"bilinear\", align_corners = true } }, { t(1, 1, 1, 1), 3, "
        "{ mode = \"bilinear\" } }, "
        "{ t(5, 4, 3, 2):transpose(1, 4), { 4, 7 }, { mode = \"bilinear\" } }, "
        "{ t(0, 3, 4), 7 }, { t(0, 3, 4, 5), 7, { mode = \"bilinear\" } } }",
    .param = { { "input", OL_TENSOR, .doc = "(N, C, L) or (N, C, H, W)" },
               { "size", OL_SIZES, true, .doc = "of the result's lines or images" },
               { "scale_factor", OL_NUMBER, true, .doc = "the result's size over the input's" },
               { "mode", OL_CHOICE, true, NEAREST, .choices = "nearest|linear|bilinear" },
               { "align_corners", OL_FLAG, true,
                 .doc = "the outermost elements lie on each other, not their outer edges" },
               { "scale_columns", OL_NUMBER, true,
                 .doc = "scale_factor of columns where that of rows is another" } },
    .flags = OL_OP_FUNCTION,
    .forward = interpolate_forward,
    .backward = interpolate_backward },
  { 0 }
};

const ol_family ol_interpolate_ops = { .name = "interpolate",
                                       .doc = "Lines and images of another size",
                                       .ops = ops };
