/* cumulative: sums and products of all elements up to each, along a dimension. */
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/fold.h"
#include "ops/lastdim.h"
#include "ops/reduce.h"

/* Work on dense rows; steps are sequential within each. */
typedef struct job {
  int64_t length;
  const void *x, *g; /* g is of backward */
  void *y;
} job;

/* Integers wrap. */
#define ADD(t, x)     ((t) + (x))
#define MUL(t, x)     ((t) * (x))
#define ADD_INT(t, x) ((int64_t)((uint64_t)(t) + (uint64_t)(x)))
#define MUL_INT(t, x) ((int64_t)((uint64_t)(t) * (uint64_t)(x)))

#define DEFINE_SCAN(name, suffix, from, to, total_type, START, STEP)                               \
  static void name##_##suffix(int64_t begin, int64_t end, void *context) {                         \
    const job *j = context;                                                                        \
    for (int64_t r = begin; r < end; r++) {                                                        \
      const from *x = (const from *)j->x + r * j->length;                                          \
      to *y = (to *)j->y + r * j->length;                                                          \
      total_type total = START;                                                                    \
      for (int64_t i = 0; i < j->length; i++) y[i] = (to)(total = STEP(total, (total_type)x[i]));  \
    }                                                                                              \
  }

#define DEFINE_SCANS(name, START, STEP, STEP_INT)                                                  \
  DEFINE_SCAN(name, f32, float, float, double, START, STEP)                                        \
  DEFINE_SCAN(name, f64, double, double, double, START, STEP)                                      \
  DEFINE_SCAN(name, u8, uint8_t, int64_t, int64_t, START, STEP_INT)                                \
  DEFINE_SCAN(name, i64, int64_t, int64_t, int64_t, START, STEP_INT)                               \
  static ol_range_fn *const name[OL_DTYPES] = { name##_u8, name##_i64, NULL, name##_f32,           \
                                                name##_f64 };

DEFINE_SCANS(sums, 0, ADD, ADD_INT)
DEFINE_SCANS(products, 1, MUL, MUL_INT)

/* The slope of sums: sums of g from the end. */
#define DEFINE_SUM_SLOPE(suffix, type)                                                             \
  static void sum_slope_##suffix(int64_t begin, int64_t end, void *context) {                      \
    const job *j = context;                                                                        \
    for (int64_t r = begin; r < end; r++) {                                                        \
      const type *g = (const type *)j->g + r * j->length;                                          \
      type *z = (type *)j->y + r * j->length;                                                      \
      double total = 0;                                                                            \
      for (int64_t i = j->length - 1; i >= 0; i--) z[i] = (type)(total += (double)g[i]);           \
    }                                                                                              \
  }
DEFINE_SUM_SLOPE(f32, float)
DEFINE_SUM_SLOPE(f64, double)

/* The slope of products: at i the sum over j >= i of g[j] times the product of x[0 … j] without
 * x[i]. Up to the first zero that is the sum of g times products from the end, divided by x[i]; at
 * the first zero the product skips it; after it, everything is 0. */
#define DEFINE_PRODUCT_SLOPE(suffix, type)                                                         \
  static void product_slope_row_##suffix(int64_t length, const type *x, const type *g, type *z) {  \
    double product = 1, total = 0;                                                                 \
    int64_t zero = 0;                                                                              \
    for (; zero < length && x[zero] != 0; zero++) product *= (double)x[zero];                      \
    for (int64_t i = zero + 1; i < length; i++) z[i] = 0;                                          \
    if (zero < length) {                                                                           \
      double others = product;                                                                     \
      total = (double)g[zero] * others;                                                            \
      for (int64_t i = zero + 1; i < length; i++)                                                  \
        total += (double)g[i] * (others *= (double)x[i]);                                          \
      z[zero] = (type)total;                                                                       \
    }                                                                                              \
    total = 0;                                                                                     \
    for (int64_t i = zero - 1; i >= 0; i--) {                                                      \
      total += (double)g[i] * product;                                                             \
      product /= (double)x[i];                                                                     \
      z[i] = (type)(total / (double)x[i]);                                                         \
    }                                                                                              \
  }                                                                                                \
  static void product_slope_##suffix(int64_t begin, int64_t end, void *context) {                  \
    const job *j = context;                                                                        \
    for (int64_t r = begin; r < end; r++) {                                                        \
      int64_t at = r * j->length;                                                                  \
      product_slope_row_##suffix(j->length, (const type *)j->x + at, (const type *)j->g + at,      \
                                 (type *)j->y + at);                                               \
    }                                                                                              \
  }
DEFINE_PRODUCT_SLOPE(f32, float)
DEFINE_PRODUCT_SLOPE(f64, double)

/* Runs fn over rows x (and g, or NULL) into a new tensor of rows. */
static ol_status run(ol_error *error, ol_range_fn *fn, ol_tensor *x, ol_tensor *g, ol_dtype dtype,
                     ol_tensor **out) {
  OL_TRY(ol_tensor_new(error, dtype, &x->shape, out));
  job j = { .length = ol_row_length(x),
            .x = ol_tensor_data(x),
            .g = g ? ol_tensor_data(g) : NULL,
            .y = ol_tensor_data(*out) };
  if (x->numel > 0) ol_parallel_for(ol_row_count(x), ol_grain(8 * (double)j.length), fn, &j);
  return OL_OK;
}

static ol_status scan(ol_error *error, ol_call *call, ol_range_fn *const *fns) {
  const char *op = call->op->name;
  ol_tensor *x = call->arg[0].tensor, *rows = NULL, *y = NULL, *view = NULL;
  ol_dtype dtype = ol_dtype_computes(x->dtype) ? x->dtype : OL_I64;
  int dim;
  OL_TRY(ol_reduce_check(error, op, x->dtype, false));
  OL_TRY(ol_shape_dim(error, op, call->arg[1].integer, x->shape.ndim, &dim));
  OL_TRY(ol_move_last(error, x, dim, &rows));
  ol_status status = run(error, fns[x->dtype], rows, NULL, dtype, &y);
  if (status == OL_OK) status = ol_move_back(error, y, dim, x->shape.ndim, &view);
  if (status == OL_OK) status = ol_tensor_contiguous(error, view, &call->out[0]);
  ol_release(rows);
  ol_release(y);
  ol_release(view);
  return status;
}

/* x is NULL where fn does not read it. */
static ol_status slope(ol_error *error, ol_back *back, ol_range_fn *fn, ol_tensor *x) {
  int dim, ndim = back->shape[0]->ndim;
  ol_tensor *rows = NULL, *g = NULL, *z = NULL;
  OL_TRY(ol_shape_dim(error, back->op->name, back->arg[1].integer, ndim, &dim));
  ol_status status = ol_move_last(error, back->grad_out[0], dim, &g);
  if (status == OL_OK) status = ol_move_last(error, x ? x : back->grad_out[0], dim, &rows);
  if (status == OL_OK) status = run(error, fn, rows, g, g->dtype, &z);
  if (status == OL_OK) status = ol_move_back(error, z, dim, ndim, &back->grad[0]);
  ol_release(rows);
  ol_release(g);
  ol_release(z);
  return status;
}

static ol_status cumsum_forward(ol_error *error, ol_call *call) { return scan(error, call, sums); }

static ol_status cumsum_backward(ol_error *error, ol_back *back) {
  bool narrow = back->grad_out[0]->dtype == OL_F32;
  return slope(error, back, narrow ? sum_slope_f32 : sum_slope_f64, NULL);
}

static ol_status cumprod_forward(ol_error *error, ol_call *call) {
  return scan(error, call, products);
}

static ol_status cumprod_backward(ol_error *error, ol_back *back) {
  bool narrow = back->grad_out[0]->dtype == OL_F32;
  return slope(error, back, narrow ? product_slope_f32 : product_slope_f64, back->arg[0].tensor);
}

#define SCAN(NAME, SAVES, DOC, OUTPUT)                                                             \
  { .name = #NAME,                                                                                 \
    .doc = DOC,                                                                                    \
    .example = "print(optlua.tensor({ 1, 2, 3, 4 }):" #NAME "(1)) --> tensor([" OUTPUT "])",       \
    .samples = "{ { t(3, 4), 1 }, { t(3, 4), 2 }, { t(2, 3, 4), 2 }, { t(), 1 }, "                 \
               "{ t(4, 3):t(), 1 }, { t(3, 6):narrow(2, 2, 3), -1 }, "                             \
               "{ t(3, 1):expand(3, 4), 2 }, { t(0, 3), 1 } }",                                    \
    .param = { { "self", OL_TENSOR }, { "dim", OL_INDEX } },                                       \
    .saves = SAVES,                                                                                \
    .forward = NAME##_forward,                                                                     \
    .backward = NAME##_backward }

static const ol_op ops[] = {
  SCAN(cumsum, 0, "Sums along a dimension up to each element; integers give int64.",
       " 1.,  3.,  6., 10."),
  SCAN(cumprod, OL_SAVE_ARG(0),
       "Products along a dimension up to each element; integers give int64.", " 1.,  2.,  6., 24."),
  { 0 }
};

const ol_family ol_cumulative_ops = { .name = "cumulative",
                                      .doc = "Cumulative sums and products",
                                      .ops = ops };
