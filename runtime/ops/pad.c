/* pad: elements around a tensor: a constant, or its own mirrored, repeated or wrapped around.
 *
 * Each dimension has a map: the position that each position of the result is taken from. */
#include <string.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/reduce.h"

/* Where the arguments stand, and the modes. */
enum { INPUT, PADS, MODE, VALUE };
enum { CONSTANT, REFLECT, REPLICATE, CIRCULAR };

typedef struct job {
  ol_dtype dtype;
  ol_shape in, out;
  int first;                        /* the dimension from which on there are pads */
  int64_t before[OL_MAX_DIMS];      /* elements before those of the input; negative: cut off */
  int64_t in_step[OL_MAX_DIMS + 1]; /* elements of a position of a dimension; [0]: of all */
  int64_t out_step[OL_MAX_DIMS + 1];
  int64_t *map[OL_MAX_DIMS]; /* from `first` on; -1: a constant; one block */
  int64_t straight, end;     /* positions of a line that are the input's in order */
  const void *from;
  void *to;
  uint64_t fill; /* the bits of the constant */
} job;

/* What negative pads leave of a dimension. */
static int64_t kept_of(int64_t size, int64_t before, int64_t after) {
  return size + (before < 0 ? before : 0) + (after < 0 ? after : 0);
}

static ol_status check_pair(ol_error *error, int mode, int64_t size, int64_t before, int64_t after,
                            int dim) {
  static const char *const names[] = { "constant", "reflect", "replicate", "circular" };
  const int64_t most = before > after ? before : after;
  const bool fits = most <= 0 || (mode == CONSTANT) || (mode == REFLECT && most < size) ||
                    (mode == REPLICATE && size > 0) ||
                    (mode == CIRCULAR && most <= kept_of(size, before, after));
  if (!fits)
    return ol_fail(error, OL_ARGUMENT,
                   "pad: (%lld, %lld) is too much for dimension %d of size %lld with mode \"%s\"",
                   (long long)before, (long long)after, dim + 1, (long long)size, names[mode]);
  const bool past = mode != REPLICATE && (before < -size || after < -size);
  if (past || size + before + after < 0)
    return ol_fail(error, OL_ARGUMENT,
                   "pad: (%lld, %lld) cuts off more than dimension %d of size %lld",
                   (long long)before, (long long)after, dim + 1, (long long)size);
  return OL_OK;
}

static ol_status check_list(ol_error *error, const ol_shape *in, const ol_shape *pads) {
  char text[OL_SHAPE_TEXT];
  if (pads->ndim % 2 != 0)
    return ol_fail(error, OL_ARGUMENT,
                   "pad: %d numbers; wants two for each dimension, the last one first", pads->ndim);
  if (pads->ndim / 2 > in->ndim)
    return ol_fail(error, OL_SHAPE, "pad: %d numbers are too many for input %s", pads->ndim,
                   ol_shape_text(in, text));
  for (int i = 0; i < pads->ndim; i++)
    if (pads->size[i] > INT32_MAX || pads->size[i] < -INT32_MAX)
      return ol_fail(error, OL_ARGUMENT, "pad: %lld is too large", (long long)pads->size[i]);
  return OL_OK;
}

/* Reads the shapes; maps come later. */
static ol_status read_shapes(ol_error *error, const ol_shape *in, const ol_value *arg, job *j) {
  const ol_shape *pads = &arg[PADS].list;
  int64_t count;
  OL_TRY(check_list(error, in, pads));
  j->in = j->out = *in;
  j->first = in->ndim - pads->ndim / 2;
  for (int i = 0; i < pads->ndim / 2; i++) {
    const int d = in->ndim - 1 - i;
    const int64_t before = pads->size[2 * i], after = pads->size[2 * i + 1];
    OL_TRY(check_pair(error, arg[MODE].choice, in->size[d], before, after, d));
    j->before[d] = before;
    j->out.size[d] += before + after;
  }
  OL_TRY(ol_shape_count(error, &j->out, ol_dtype_size(j->dtype), &count));
  j->in_step[in->ndim] = j->out_step[in->ndim] = 1;
  for (int d = in->ndim - 1; d >= 0; d--) {
    j->in_step[d] = j->in_step[d + 1] * j->in.size[d];
    j->out_step[d] = j->out_step[d + 1] * j->out.size[d];
  }
  return OL_OK;
}

/* Where position i, counted from the input's first, is taken from. Of a circle that negative pads
 * cut, `kept` elements are left. */
static int64_t source(int mode, int64_t i, int64_t size, int64_t kept) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
  case REFLECT: return i < 0 ? -i : 2 * (size - 1) - i;
  case REPLICATE: return i < 0 ? 0 : size - 1;
  case CIRCULAR: return i < 0 ? i + kept : i - kept;
  default: return -1;
  }
}

static ol_status make_maps(ol_error *error, int mode, job *j) {
  int64_t total = 0, *map;
  for (int d = j->first; d < j->in.ndim; d++) total += j->out.size[d];
  OL_TRY(OL_ALLOC(error, (size_t)total * sizeof *map, "positions of pad", &map));
  j->map[j->first] = map;
  for (int d = j->first; d < j->in.ndim; d++) {
    const int64_t size = j->in.size[d];
    const int64_t kept = kept_of(size, j->before[d], j->out.size[d] - size - j->before[d]);
    j->map[d] = map;
    for (int64_t i = 0; i < j->out.size[d]; i++)
      map[i] = source(mode, i - j->before[d], size, kept);
    map += j->out.size[d];
  }
  const int last = j->in.ndim - 1;
  const int64_t end = j->before[last] + j->in.size[last], out = j->out.size[last];
  j->straight = j->before[last] > 0 ? j->before[last] : 0;
  j->end = end < out ? end : out;
  if (j->straight > out) j->straight = out;
  if (j->end < j->straight) j->end = j->straight;
  return OL_OK;
}

/* A line of the result from one of the input, or from none (NULL). */
#define DEFINE_LINE(bits, type)                                                                    \
  static void line_##bits(const job *j, const type *from, type *to) {                              \
    const int last = j->in.ndim - 1;                                                               \
    const int64_t *map = j->map[last], out = j->out.size[last];                                    \
    const type fill = (type)j->fill;                                                               \
    const int64_t straight = from ? j->straight : out, end = from ? j->end : out;                  \
    for (int64_t i = 0; i < straight; i++) to[i] = from && map[i] >= 0 ? from[map[i]] : fill;      \
    if (end > straight)                                                                            \
      memcpy(to + straight, from + (straight - j->before[last]),                                   \
             (size_t)(end - straight) * sizeof *to);                                               \
    for (int64_t i = end; i < out; i++) to[i] = map[i] >= 0 ? from[map[i]] : fill;                 \
  }

DEFINE_LINE(8, uint8_t)
DEFINE_LINE(16, uint16_t)
DEFINE_LINE(32, uint32_t)
DEFINE_LINE(64, uint64_t)

/* Adds a line of the result's gradient to that of the input's. */
#define DEFINE_BACK(suffix, type)                                                                  \
  static void back_##suffix(const job *j, const type *g, type *x) {                                \
    const int last = j->in.ndim - 1;                                                               \
    const int64_t *map = j->map[last], out = j->out.size[last];                                    \
    for (int64_t i = 0; i < j->straight; i++)                                                      \
      if (map[i] >= 0) x[map[i]] += g[i];                                                          \
    const int64_t own = j->before[last];                                                           \
    OL_APART for (int64_t i = j->straight; i < j->end; i++) x[i - own] += g[i];                    \
    for (int64_t i = j->end; i < out; i++)                                                         \
      if (map[i] >= 0) x[map[i]] += g[i];                                                          \
  }

DEFINE_BACK(f32, float)
DEFINE_BACK(f64, double)

static const char *at(const job *j, const void *data, int64_t element) {
  return (const char *)data + element * (int64_t)ol_dtype_size(j->dtype);
}

static void forward_line(const job *j, int64_t in, int64_t out) {
  const void *from = in < 0 ? NULL : at(j, j->from, in);
  void *to = (void *)(uintptr_t)at(j, j->to, out);
  switch (ol_dtype_size(j->dtype)) {
  case 1: line_8(j, from, to); break;
  case 2: line_16(j, from, to); break;
  case 4: line_32(j, from, to); break;
  default: line_64(j, from, to);
  }
}

static void back_line(const job *j, int64_t in, int64_t out) {
  const void *g = at(j, j->from, out);
  void *x = (void *)(uintptr_t)at(j, j->to, in);
  if (in < 0) return;
  if (j->dtype == OL_F32)
    back_f32(j, g, x);
  else
    back_f64(j, g, x);
}

/* Visits the lines of the result below dimension d, with the elements before them and before the
 * line of the input, which is -1 where there is none. */
static void walk(const job *j, int d, int64_t in, int64_t out,
                 void (*line)(const job *j, int64_t in, int64_t out)) {
  if (d == j->in.ndim - 1) {
    line(j, in, out);
    return;
  }
  for (int64_t i = 0; i < j->out.size[d]; i++) {
    const int64_t from = j->map[d][i];
    walk(j, d + 1, in < 0 || from < 0 ? -1 : in + from * j->in_step[d + 1],
         out + i * j->out_step[d + 1], line);
  }
}

static void forward_parts(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t i = begin; i < end; i++)
    walk(j, j->first, i * j->in_step[j->first], i * j->out_step[j->first], forward_line);
}

static void back_parts(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  const size_t bytes = (size_t)j->in_step[j->first] * ol_dtype_size(j->dtype);
  memset((char *)j->to + (size_t)begin * bytes, 0, (size_t)(end - begin) * bytes);
  for (int64_t i = begin; i < end; i++)
    walk(j, j->first, i * j->in_step[j->first], i * j->out_step[j->first], back_line);
}

/* Runs over the parts that lie behind each other before the first padded dimension. */
static void run(job *j, const ol_tensor *from, ol_tensor *to, ol_range_fn *fn) {
  int64_t parts = 1;
  for (int d = 0; d < j->first; d++) parts *= j->in.size[d];
  j->from = ol_tensor_data(from);
  j->to = ol_tensor_data(to);
  const int64_t each = 1 + j->in_step[j->first] + j->out_step[j->first];
  ol_parallel_for(parts, ol_grain((double)each), fn, j);
}

static ol_status read_fill(ol_error *error, const ol_value *arg, job *j) {
  const ol_shape none = { .ndim = 0 };
  ol_tensor *value;
  OL_TRY(ol_tensor_new(error, j->dtype, &none, &value));
  ol_status status = ol_tensor_fill(error, value, arg[VALUE].number);
  const void *bits = ol_tensor_data(value);
  switch (ol_dtype_size(j->dtype)) {
  case 1: j->fill = *(const uint8_t *)bits; break;
  case 2: j->fill = *(const uint16_t *)bits; break;
  case 4: j->fill = *(const uint32_t *)bits; break;
  default: j->fill = *(const uint64_t *)bits;
  }
  ol_release(value);
  return status;
}

/* Nothing to pad: a copy. */
static bool is_copy(const job *j) { return j->first == j->in.ndim; }

static ol_status pad_dense(ol_error *error, const ol_value *arg, ol_tensor *x, job *j,
                           ol_tensor **out) {
  ol_tensor *y = NULL;
  OL_TRY(read_fill(error, arg, j));
  OL_TRY(ol_tensor_new(error, j->dtype, &j->out, &y));
  ol_status status = make_maps(error, arg[MODE].choice, j);
  if (status == OL_OK) {
    run(j, x, y, forward_parts);
    *out = y;
    ol_free(j->map[j->first]);
  } else
    ol_release(y);
  return status;
}

static ol_status pad_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[INPUT].tensor;
  job j = { .dtype = x->dtype };
  OL_TRY(read_shapes(error, &x->shape, call->arg, &j));
  if (is_copy(&j)) return ol_tensor_clone(error, x, &call->out[0]);
  OL_TRY(ol_tensor_contiguous(error, x, &x));
  ol_status status = pad_dense(error, call->arg, x, &j, &call->out[0]);
  ol_release(x);
  return status;
}

static ol_status pad_backward(ol_error *error, ol_back *back) {
  ol_tensor *g = back->grad_out[0];
  job j = { .dtype = g->dtype };
  OL_TRY(read_shapes(error, back->shape[INPUT], back->arg, &j));
  if (is_copy(&j)) {
    back->grad[INPUT] = ol_retain(g);
    return OL_OK;
  }
  OL_TRY(ol_tensor_contiguous(error, g, &g));
  ol_status status = make_maps(error, back->arg[MODE].choice, &j);
  if (status == OL_OK) {
    status = ol_back_new(error, back, INPUT, &back->grad[INPUT]);
    if (status == OL_OK) run(&j, g, back->grad[INPUT], back_parts);
    ol_free(j.map[j.first]);
  }
  ol_release(g);
  return status;
}

static const ol_op ops[] = {
  { .name = "pad",
    .doc = "Adds elements around the input, or cuts them off where pads are negative: a constant, "
           "or the input's own, mirrored (reflect), those at the border (replicate), or those of "
           "the other end (circular).",
    .example = "print(optlua.pad(optlua.tensor({ 1, 2, 3 }), { 2, 1 }, \"reflect\")) "
               "--> tensor([3., 2., 1., 2., 3., 2.])",
    .samples = "{ { t(3, 4), { 1, 2 } }, { t(2, 3, 4), { 1, 0, 2, 1 }, \"constant\", 0.5 }, "
               "{ t(3, 4), { -1, 2, 1, -2 } }, { t(2, 3, 5), { 2, 1 }, \"reflect\" }, "
               "{ t(2, 2, 4, 5), { 2, 3, 3, 1 }, \"reflect\" }, "
               "{ t(1, 2, 3, 4), { 5, 1, 2, 4 }, \"replicate\" }, "
               "{ t(2, 3, 4, 5), { 5, 2, 1, 4 }, \"circular\" }, { t(2, 3, 5), { 0, 7 }, "
               "\"replicate\" }, { t(5, 4, 3):transpose(1, 3), { 1, 2, 2, 0 }, \"replicate\" }, "
               "{ t(3, 1, 4):expand(3, 2, 4), { 1, 1 }, \"circular\" }, "
               "{ t(), {} }, { t(3, 4), { -3, -1 } }, { t(0, 3, 4), { 1, 1 } }, "
               "{ t(0, 3, 4), { 1, 1 }, \"reflect\" }, { i({ 2, 3 }, 9), { 1, 1 }, "
               "{ value = 7 } }, { m(3), { 2, 2 } } }",
    .param = { { "input", OL_TENSOR },
               { "pad", OL_SIZES,
                 .doc =
                     "elements before and after: of the last dimension, of the one before it …" },
               { "mode", OL_CHOICE, true, CONSTANT,
                 .choices = "constant|reflect|replicate|circular" },
               { "value", OL_NUMBER, true, 0, .doc = "the constant" } },
    .flags = OL_OP_FUNCTION,
    .forward = pad_forward,
    .backward = pad_backward },
  { 0 }
};

const ol_family ol_pad_ops = { .name = "pad", .doc = "Padding", .ops = ops };
