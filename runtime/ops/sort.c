/* sort: order along a dimension: sort, argsort, topk. NaN is greater than every number. */
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/gather.h"

/* ---- one line ---- */

/* An element: what it is compared by, and where it stood. */
typedef struct pair {
  uint64_t key; /* in the order of the values; equal for equal values */
  int64_t index;
} pair;

/* Keys of fractions: the bits, turned so that their order is that of the values. -0 equals 0, and
 * all NaN are equal. */
static inline uint64_t key_f32(float x) {
  uint32_t bits;
  x += 0.0f;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return UINT32_MAX;
  return bits >> 31 ? (uint32_t)~bits : bits | 0x80000000u;
}

static inline uint64_t key_f64(double x) {
  uint64_t bits;
  x += 0.0;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return UINT64_MAX;
  return bits >> 63 ? ~bits : bits | 0x8000000000000000u;
}

#define KEY_U8(x)  (x)
#define KEY_I64(x) ((uint64_t)(x) ^ 0x8000000000000000u)

/* Reads a line of n elements that lie stride apart; flip is all ones for descending order. */
#define DEFINE_LOAD(suffix, type, key_of)                                                          \
  static void load_##suffix(const void *line, int64_t stride, int64_t n, uint64_t flip,            \
                            pair *pairs) {                                                         \
    const type *x = line;                                                                          \
    for (int64_t i = 0; i < n; i++) pairs[i] = (pair){ key_of(x[i * stride]) ^ flip, i };          \
  }
DEFINE_LOAD(u8, uint8_t, KEY_U8)
DEFINE_LOAD(i64, int64_t, KEY_I64)
DEFINE_LOAD(f32, float, key_f32)
DEFINE_LOAD(f64, double, key_f64)

typedef void load_fn(const void *line, int64_t stride, int64_t n, uint64_t flip, pair *pairs);
static load_fn *const loads[OL_DTYPES] = {
  [OL_U8] = load_u8, [OL_I64] = load_i64, [OL_F32] = load_f32, [OL_F64] = load_f64
};

/* Brings the k least of n pairs to the front, in order; of equal ones the earlier first. */
static void keep_least(pair *pairs, int64_t n, int64_t k) {
  for (int64_t i = 0; i < n; i++) {
    pair own = pairs[i];
    int64_t at = i < k ? i : k;
    if (i >= k && own.key >= pairs[k - 1].key) continue;
    if (i >= k) at = k - 1;
    for (; at > 0 && pairs[at - 1].key > own.key; at--) pairs[at] = pairs[at - 1];
    pairs[at] = own;
  }
}

enum { DIGITS = 8, VALUES = 256 };

/* Moves pairs into `to` in the order of one digit, keeping that of equal ones. */
static void deal(const pair *from, pair *to, int64_t n, int digit, const int64_t *count) {
  int64_t start[VALUES] = { 0 };
  for (int v = 1; v < VALUES; v++) start[v] = start[v - 1] + count[v - 1];
  for (int64_t i = 0; i < n; i++) to[start[from[i].key >> 8 * digit & 255]++] = from[i];
}

/* Sorts by keys, digit after digit from the last; spare has room for n. Returns pairs or spare,
 * whichever holds the result. */
static pair *sort_pairs(pair *pairs, pair *spare, int64_t n) {
  int64_t count[DIGITS][VALUES] = { { 0 } };
  for (int64_t i = 0; i < n; i++)
    for (int d = 0; d < DIGITS; d++) count[d][pairs[i].key >> 8 * d & 255]++;
  for (int d = 0; d < DIGITS; d++) {
    if (count[d][pairs[0].key >> 8 * d & 255] == n) continue; /* all the same */
    deal(pairs, spare, n, d, count[d]);
    pair *swap = pairs;
    pairs = spare;
    spare = swap;
  }
  return pairs;
}

enum { FEW = 64 }; /* up to which moving neighbours beats dealing */

static const pair *least(pair *pairs, pair *spare, int64_t n, int64_t k) {
  if (k > FEW) return sort_pairs(pairs, spare, n);
  if (k > 0) keep_least(pairs, n, k);
  return pairs;
}

/* ---- all lines ---- */

typedef struct job {
  const ol_tensor *x;
  ol_tensor *values, *indices; /* values may be NULL */
  int dim;
  int64_t n, k, lines;
  uint64_t flip;
  int64_t workers; /* each has 2n pairs of scratch */
  pair *scratch;
} job;

/* The address of the first element of a line. */
static char *line_of(const ol_tensor *x, int dim, int64_t line) {
  int64_t offset = 0;
  for (int d = x->shape.ndim - 1; d >= 0; d--) {
    if (d == dim) continue;
    offset += line % x->shape.size[d] * x->stride[d];
    line /= x->shape.size[d];
  }
  return (char *)ol_tensor_data(x) + offset * (int64_t)ol_dtype_size(x->dtype);
}

static int64_t stride_of(const ol_tensor *x, int dim) { return x->shape.ndim ? x->stride[dim] : 1; }

static void store(const job *j, int64_t line, const pair *sorted) {
  int64_t *indices = (int64_t *)line_of(j->indices, j->dim, line);
  int64_t stride = stride_of(j->indices, j->dim);
  for (int64_t i = 0; i < j->k; i++) indices[i * stride] = sorted[i].index;
  if (!j->values) return;
  size_t size = ol_dtype_size(j->x->dtype);
  int64_t from = stride_of(j->x, j->dim) * (int64_t)size, to = stride * (int64_t)size;
  const char *x = line_of(j->x, j->dim, line);
  char *values = line_of(j->values, j->dim, line);
  for (int64_t i = 0; i < j->k; i++) memcpy(values + i * to, x + sorted[i].index * from, size);
}

/* One worker's share of the lines. */
static void work(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  for (int64_t worker = begin; worker < end; worker++) {
    pair *pairs = j->scratch + 2 * j->n * worker;
    int64_t last = j->lines * (worker + 1) / j->workers;
    for (int64_t line = j->lines * worker / j->workers; line < last; line++) {
      loads[j->x->dtype](line_of(j->x, j->dim, line), stride_of(j->x, j->dim), j->n, j->flip,
                         pairs);
      store(j, line, least(pairs, pairs + j->n, j->n, j->k));
    }
  }
}

static ol_status run(ol_error *error, job *j) {
  void *scratch;
  size_t bytes;
  j->lines = j->n ? j->x->numel / j->n : 0;
  j->workers = j->x->numel < OL_GRAIN / 8 ? 1 : ol_threads();
  if (j->lines < j->workers) j->workers = j->lines ? j->lines : 1;
  if (__builtin_mul_overflow((size_t)(2 * j->workers) * sizeof(pair), (size_t)j->n, &bytes))
    return ol_fail(error, OL_MEMORY, "out of memory: sorting %lld elements", (long long)j->n);
  OL_TRY(ol_alloc_for(error, bytes, "sorting", &scratch));
  j->scratch = scratch;
  ol_parallel_for(j->workers, 1, work, j);
  ol_free(scratch);
  return OL_OK;
}

/* What the ops ask for: k elements (-1: all) of each line along dim. */
typedef struct request {
  const char *op;
  int64_t dim, k;
  bool descending, values;
} request;

static ol_status make_outputs(ol_error *error, const request *r, const ol_tensor *x, job *j) {
  ol_shape shape = x->shape;
  if (shape.ndim > 0) shape.size[j->dim] = j->k;
  OL_TRY(ol_tensor_new(error, OL_I64, &shape, &j->indices));
  if (!r->values) return OL_OK;
  ol_status status = ol_tensor_new(error, x->dtype, &shape, &j->values);
  if (status != OL_OK) ol_release(j->indices);
  return status;
}

static ol_status order(ol_error *error, const request *r, const ol_tensor *x, ol_tensor **values,
                       ol_tensor **indices) {
  job j = { .x = x, .flip = r->descending ? UINT64_MAX : 0 };
  if (!loads[x->dtype])
    return ol_fail(error, OL_DTYPE, "%s: bfloat16 stores; convert with :to(\"float32\")", r->op);
  OL_TRY(ol_shape_dim(error, r->op, r->dim, x->shape.ndim, &j.dim));
  j.n = x->shape.ndim ? x->shape.size[j.dim] : 1;
  j.k = r->k == -1 ? j.n : r->k;
  if (j.k < 0 || j.k > j.n || (x->shape.ndim == 0 && j.k == 0))
    return ol_fail(error, OL_RANGE, "%s: k is %lld for dimension %d of size %lld", r->op,
                   (long long)j.k, j.dim + 1, (long long)j.n);
  OL_TRY(make_outputs(error, r, x, &j));
  ol_status status = run(error, &j);
  if (status == OL_OK) {
    if (r->values) *values = j.values;
    *indices = j.indices;
    return OL_OK;
  }
  ol_release(j.values);
  ol_release(j.indices);
  return status;
}

/* ---- ops ---- */

static int64_t dim_or_last(const ol_value *value) { return value->given ? value->integer : -1; }

static ol_status sort_forward(ol_error *error, ol_call *call) {
  request r = { .op = "sort", .dim = dim_or_last(&call->arg[1]), .k = -1, .values = true };
  r.descending = call->arg[2].flag;
  return order(error, &r, call->arg[0].tensor, &call->out[0], &call->out[1]);
}

static ol_status argsort_forward(ol_error *error, ol_call *call) {
  request r = { .op = "argsort", .dim = dim_or_last(&call->arg[1]), .k = -1 };
  r.descending = call->arg[2].flag;
  return order(error, &r, call->arg[0].tensor, NULL, &call->out[0]);
}

static ol_status topk_forward(ol_error *error, ol_call *call) {
  request r = { .op = "topk", .dim = dim_or_last(&call->arg[2]), .k = call->arg[1].integer };
  r.descending = !call->arg[3].given || call->arg[3].flag;
  r.values = true;
  if (r.k < 0) return ol_fail(error, OL_RANGE, "topk: k is %lld", (long long)r.k);
  return order(error, &r, call->arg[0].tensor, &call->out[0], &call->out[1]);
}

/* The gradient goes back to where the values came from. */
static ol_status back_along(ol_error *error, ol_back *back, int64_t along) {
  int dim;
  if (!back->grad_out[0]) return OL_OK;
  OL_TRY(ol_shape_dim(error, back->op->name, along, back->shape[0]->ndim, &dim));
  return ol_gather_back(error, back->op->name, back->grad_out[0], back->shape[0], dim, back->out[1],
                        &back->grad[0]);
}

static ol_status sort_back(ol_error *error, ol_back *back) {
  return back_along(error, back, dim_or_last(&back->arg[1]));
}

static ol_status topk_back(ol_error *error, ol_back *back) {
  return back_along(error, back, dim_or_last(&back->arg[2]));
}

const ol_family ol_sort_ops = {
  .name = "sort",
  .doc = "Order along a dimension",
  .ops =
      (const ol_op[]){
          { .name = "sort",
            .doc = "Values in order along dim, and their positions, from 0. Equal ones keep their "
                   "order; NaN is greater than every number.",
            .example = "print(optlua.tensor({ 3, 1, 2 }):sort()) "
                       "--> tensor([1., 2., 3.])\ttensor([1, 2, 0])",
            .samples = "{ { t(3, 5) }, { t(3, 5), 1 }, { t(5, 3):t(), -1, true }, { t() }, "
                       "{ t(0, 3) }, { t(3, 0), 2 }, { t(70) } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_INDEX, true, -1 },
                       { "descending", OL_FLAG, true, 0 },
                       { "stable", OL_FLAG, true, 0, .doc = "it always is" } },
            .outputs = 2,
            .saves = OL_SAVE_OUT(1),
            .forward = sort_forward,
            .backward = sort_back },
          { .name = "argsort",
            .doc = "The positions, from 0, that sort the tensor along dim.",
            .example = "print(optlua.tensor({ 3, 1, 2 }):argsort()) --> tensor([1, 2, 0])",
            .samples = "{ { t(3, 5) }, { t(3, 5), 1 }, { t(5, 3):t(), -1, true }, { t() }, "
                       "{ t(0, 3) }, { i({ 20 }, 9), 1 } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_INDEX, true, -1 },
                       { "descending", OL_FLAG, true, 0 },
                       { "stable", OL_FLAG, true, 0, .doc = "it always is" } },
            .forward = argsort_forward },
          { .name = "topk",
            .doc = "The k greatest (or least) values along dim, in order, and their positions, "
                   "from 0.",
            .example = "print(optlua.tensor({ 3, 1, 2 }):topk(2)) "
                       "--> tensor([3., 2.])\ttensor([0, 2])",
            .samples = "{ { t(3, 5), 2 }, { t(5, 3), 4, 1, false }, { t(5, 3):t(), 3, -1, true }, "
                       "{ t(), 1 }, { t(0, 3), 2 }, { t(3), 0 }, { t(100), 70 } }",
            .param = { { "self", OL_TENSOR },
                       { "k", OL_DATA, .doc = "how many" },
                       { "dim", OL_INDEX, true, -1 },
                       { "largest", OL_FLAG, true, 1 },
                       { "sorted", OL_FLAG, true, 1, .doc = "they always are" } },
            .outputs = 2,
            .saves = OL_SAVE_OUT(1),
            .forward = topk_forward,
            .backward = topk_back },
          { 0 } },
};
