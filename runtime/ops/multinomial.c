/* multinomial: drawing classes with given probabilities. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/vecmath.h"
#include "ops/families.h"
#include "ops/generator.h"
#include "tensor/tensor.h"

/* One drawing: rows of weights (rows, classes), each drawn `samples` times. */
typedef struct drawing {
  int64_t rows, classes, samples;
  const double *weight; /* (rows, classes) */
  double *number;       /* scratch: random numbers, then keys or sums */
  int64_t *out;         /* (rows, samples) */
} drawing;

/* The sum of a row, or an error that names the row. */
static ol_status check_row(ol_error *error, const drawing *d, int64_t row, bool replacement) {
  int64_t positive = 0;
  for (int64_t k = 0; k < d->classes; k++) {
    double w = d->weight[row * d->classes + k];
    if (!(w >= 0) || isinf(w))
      return ol_fail(error, OL_ARGUMENT,
                     "multinomial: weight %lld of row %lld is %g; weights are finite and not "
                     "negative",
                     (long long)k + 1, (long long)row + 1, ol_shown(w));
    positive += w > 0;
  }
  if (positive == 0)
    return ol_fail(error, OL_ARGUMENT, "multinomial: all weights of row %lld are 0",
                   (long long)row + 1);
  if (!replacement && positive < d->samples)
    return ol_fail(error, OL_ARGUMENT,
                   "multinomial: %lld samples without replacement, but row %lld has %lld classes "
                   "that can be drawn",
                   (long long)d->samples, (long long)row + 1, (long long)positive);
  return OL_OK;
}

/* With replacement: the class in whose share of the running sum the number falls. */
static void draw_with(const drawing *d, int64_t row, const double *number, double *sum) {
  const double *weight = d->weight + row * d->classes;
  double total = 0;
  for (int64_t k = 0; k < d->classes; k++) sum[k] = total += weight[k];
  for (int64_t s = 0; s < d->samples; s++) {
    double at = number[row * d->samples + s] * total;
    int64_t low = 0, high = d->classes - 1; /* the first class with sum > at */
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (sum[middle] > at)
        high = middle;
      else
        low = middle + 1;
    }
    while (weight[low] == 0) low--; /* rounding may pass the last share */
    d->out[row * d->samples + s] = low;
  }
}

typedef struct key {
  double arrival;
  int64_t class;
} key;

static bool is_earlier(key x, key y) {
  return x.arrival != y.arrival ? x.arrival < y.arrival : x.class < y.class;
}

static int earlier_first(const void *a, const void *b) {
  return is_earlier(*(const key *)a, *(const key *)b) ? -1 : 1;
}

/* Moves the first `wanted` of the keys in front, in any order: Hoare's selection. */
static void select_first(key *keys, int64_t count, int64_t wanted) {
  for (int64_t low = 0, high = count - 1; low < high;) {
    key pivot = keys[low + (high - low) / 2];
    int64_t i = low, j = high;
    while (i <= j) {
      while (is_earlier(keys[i], pivot)) i++;
      while (is_earlier(pivot, keys[j])) j--;
      if (i > j) break;
      key k = keys[i];
      keys[i++] = keys[j];
      keys[j--] = k;
    }
    if (wanted - 1 <= j)
      high = j;
    else if (wanted - 1 >= i)
      low = i;
    else
      return;
  }
}

/* Without: each class arrives after an exponential time of rate weight, and the first ones are
 * taken (Efraimidis & Spirakis, 2006). */
static void draw_without(const drawing *d, int64_t row, double *number, key *keys) {
  const double *weight = d->weight + row * d->classes;
  double *u = number + row * d->classes;
  for (int64_t k = 0; k < d->classes; k++) u[k] = 1 - u[k];
  ol_vlog_f64(d->classes, u, u);
  for (int64_t k = 0; k < d->classes; k++)
    keys[k] = (key){ weight[k] > 0 ? -u[k] / weight[k] : INFINITY, k };
  select_first(keys, d->classes, d->samples);
  qsort(keys, (size_t)d->samples, sizeof *keys, earlier_first);
  for (int64_t s = 0; s < d->samples; s++) d->out[row * d->samples + s] = keys[s].class;
}

/* Draws all rows with scratch for the random numbers and for one row. */
static ol_status draw_rows(ol_error *error, drawing *d, bool replacement) {
  int64_t count = d->rows * (replacement ? d->samples : d->classes);
  void *number = NULL, *row = NULL;
  OL_TRY(ol_alloc_for(error, (size_t)count * sizeof(double), "multinomial", &number));
  ol_status status = ol_alloc_for(error, (size_t)d->classes * sizeof(key), "multinomial", &row);
  if (status == OL_OK) {
    ol_rng_uniform_f64(ol_generator(), number, count);
    for (int64_t i = 0; i < d->rows; i++)
      replacement ? draw_with(d, i, number, row) : draw_without(d, i, number, row);
  }
  ol_free(number);
  ol_free(row);
  return status;
}

static ol_status draw(ol_error *error, const ol_tensor *x, int64_t samples, bool replacement,
                      ol_tensor **out) {
  int last = x->shape.ndim - 1;
  ol_shape shape = x->shape;
  ol_tensor *weights;
  shape.size[last] = samples;
  OL_TRY(ol_tensor_convert(error, x, OL_F64, &weights));
  drawing d = { .classes = x->shape.size[last],
                .samples = samples,
                .weight = ol_tensor_data(weights) };
  d.rows = last > 0 ? x->shape.size[0] : 1;
  ol_status status = OL_OK;
  for (int64_t i = 0; status == OL_OK && i < d.rows; i++)
    status = check_row(error, &d, i, replacement);
  if (status == OL_OK) status = ol_tensor_new(error, OL_I64, &shape, out);
  if (status == OL_OK) {
    d.out = ol_tensor_data(*out);
    status = draw_rows(error, &d, replacement);
  }
  ol_release(weights);
  return status;
}

static ol_status multinomial_forward(ol_error *error, ol_call *call) {
  const ol_tensor *x = call->arg[0].tensor;
  char text[OL_SHAPE_TEXT];
  if (x->shape.ndim != 1 && x->shape.ndim != 2)
    return ol_fail(error, OL_SHAPE,
                   "multinomial: weights have shape (classes) or (rows, classes), not %s",
                   ol_shape_text(&x->shape, text));
  if (!ol_dtype_computes(x->dtype))
    return ol_fail(error, OL_DTYPE, "multinomial: weights are float32 or float64, not %s",
                   ol_dtype_name(x->dtype));
  if (call->arg[1].integer < 1)
    return ol_fail(error, OL_ARGUMENT, "multinomial: num_samples must be at least 1");
  return draw(error, x, call->arg[1].integer, call->arg[2].flag, &call->out[0]);
}

static const ol_op ops[] = {
  { .name = "multinomial",
    .doc = "Draws num_samples classes, counted from 0, for each row of weights, which need not sum "
           "to 1; a class of weight 0 is never drawn.",
    .example = "print(optlua.tensor({ 0, 1, 0 }):multinomial(2, true)) --> tensor([1, 1])",
    .samples = "{ { c(3, 4):abs(), 2 }, { c(5):abs(), 3 }, { c(3, 4):abs(), 9, true },"
               "  { c(4, 3):abs():t(), 2 }, { c(0, 3), 2 } }",
    .param = { { "self", OL_TENSOR, .doc = "weights (classes) or (rows, classes)" },
               { "num_samples", OL_DATA, .doc = "how many for each row" },
               { "replacement", OL_FLAG, .optional = true,
                 .doc = "whether a class may be drawn again" } },
    .flags = OL_OP_RANDOM,
    .forward = multinomial_forward },
  { 0 },
};

const ol_family ol_multinomial_ops = { .name = "multinomial",
                                       .doc = "Drawing classes",
                                       .ops = ops };
