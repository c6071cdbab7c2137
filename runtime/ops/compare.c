/* compare: comparisons and logic; they give masks: uint8 tensors of 0 and 1. */
#include "ops/compare.h"

#include "ops/families.h"
#include "ops/pointwise.h"

#define EQ(x, y) ((x) == (y))
#define NE(x, y) ((x) != (y))
#define LT(x, y) ((x) < (y))
#define LE(x, y) ((x) <= (y))
#define GT(x, y) ((x) > (y))
#define GE(x, y) ((x) >= (y))
OL_MASKS(eq_rows, 2, EQ)
OL_MASKS(ne_rows, 2, NE)
OL_MASKS(lt_rows, 2, LT)
OL_MASKS(le_rows, 2, LE)
OL_MASKS(gt_rows, 2, GT)
OL_MASKS(ge_rows, 2, GE)

#define AND(x, y) ((x) != 0 && (y) != 0)
#define OR(x, y)  ((x) != 0 || (y) != 0)
#define XOR(x, y) (((x) != 0) != ((y) != 0))
#define NOT(x)    ((x) == 0)
OL_MASKS(logical_and_rows, 2, AND)
OL_MASKS(logical_or_rows, 2, OR)
OL_MASKS(logical_xor_rows, 2, XOR)
OL_MASKS(logical_not_rows, 1, NOT)

/* x - x is 0 for finite numbers alone, and x == x for all but NaN. */
#define FINITE(x) ((x) - (x) == 0)
#define IS_NAN(x) (!((x) >= (x)))
#define IS_INF(x) ((x) >= (x) && !FINITE(x))
OL_MASKS(isnan_rows, 1, IS_NAN)
OL_MASKS(isinf_rows, 1, IS_INF)
OL_MASKS(isfinite_rows, 1, FINITE)

/* s: rtol, atol, equal_nan. */
#define CLOSE(x, y)                                                                                \
  ((x) == (y) || (FINITE((x) - (y)) && fabs((x) - (y)) <= s[1] + fabs(s[0] * (y))) ||              \
   (s[2] != 0 && IS_NAN(x) && IS_NAN(y)))
OL_MAP_2(isclose_rows_f32, uint8_t, float, CLOSE)
OL_MAP_2(isclose_rows_f64, uint8_t, double, CLOSE)
OL_ROWS_OF_FLOATS(isclose_rows, .mask = true, .widen = true)

/* Whether a mask, which it releases, is 1 everywhere. */
static bool all_set(ol_tensor *mask) {
  bool set = memchr(ol_tensor_data(mask), 0, (size_t)mask->numel) == NULL;
  ol_release(mask);
  return set;
}

/* Rows of two tensors, of which bfloat16 ones are widened: whether they give 1 everywhere. */
static ol_status all_hold(ol_error *error, const char *op, const ol_rows *rows,
                          ol_tensor *const *both, const double *scalars, bool *out) {
  ol_tensor *x[2] = { NULL, NULL }, *mask;
  ol_status status = OL_OK;
  for (int k = 0; k < 2 && status == OL_OK; k++) {
    if (both[k]->dtype == OL_BF16)
      status = ol_tensor_convert(error, both[k], OL_F32, &x[k]);
    else
      x[k] = ol_retain(both[k]);
  }
  if (status == OL_OK) status = ol_map(error, op, rows, 2, x, scalars, &mask);
  if (status == OL_OK) *out = all_set(mask);
  ol_release(x[0]);
  ol_release(x[1]);
  return status;
}

ol_status ol_equal(ol_error *error, ol_tensor *x, ol_tensor *y, bool *out) {
  ol_tensor *both[] = { x, y };
  if (ol_shape_equal(&x->shape, &y->shape))
    return all_hold(error, "equal", &eq_rows, both, NULL, out);
  *out = false;
  return OL_OK;
}

ol_status ol_allclose(ol_error *error, ol_tensor *x, ol_tensor *y, double rtol, double atol,
                      bool equal_nan, bool *out) {
  ol_tensor *both[] = { x, y };
  const double s[OL_SCALARS] = { rtol, atol, equal_nan };
  return all_hold(error, "allclose", &isclose_rows, both, s, out);
}

#define FORWARD(name, count)                                                                       \
  static ol_status name##_forward(ol_error *error, ol_call *call) {                                \
    return ol_map_call(error, call, &name##_rows, count, NULL);                                    \
  }
FORWARD(eq, 2)
FORWARD(ne, 2)
FORWARD(lt, 2)
FORWARD(le, 2)
FORWARD(gt, 2)
FORWARD(ge, 2)
FORWARD(logical_and, 2)
FORWARD(logical_or, 2)
FORWARD(logical_xor, 2)
FORWARD(logical_not, 1)
FORWARD(isnan, 1)
FORWARD(isinf, 1)
FORWARD(isfinite, 1)

static ol_status isclose_forward(ol_error *error, ol_call *call) {
  const double s[OL_SCALARS] = { call->arg[2].number, call->arg[3].number, call->arg[4].flag };
  return ol_map_call(error, call, &isclose_rows, 2, s);
}

#define SELF_OTHER                                                                                 \
  { "self", OL_OPERAND, .doc = "a tensor or number" },                                             \
      { "other", OL_OPERAND, .doc = "broadcasts with self" }
#define PAIR_SAMPLES                                                                               \
  "{ { i({ 4, 5 }, 3), i({ 4, 5 }, 3) }, { i({ 3, 1 }, 3), i({ 2, 1, 4 }, 3) }, { c(), c() },"     \
  "  { c(0, 3), c(3) }, { c(4, 3):t(), c(3, 4) }, { i({ 4, 5 }, 3), i({}, 3) },"                   \
  "  { m(2, 3), i({ 2, 3 }, 2) }, { c(2, 3), i({ 2, 3 }, 2) } }"
#define ONE_SAMPLES                                                                                \
  "{ { c(3, 4) }, { c() }, { c(0, 3) }, { c(4, 3):t() }, { i({ 3 }, 2) }, { m(3, 4) },"            \
  "  { optlua.tensor({ 0, 1 / 0, -1 / 0, 0 / 0 }) } }"

#define PAIR(n, sentence, output)                                                                  \
  { .name = #n,                                                                                    \
    .doc = sentence,                                                                               \
    .example =                                                                                     \
        "print(optlua.tensor({ 0, 1, 2 }):" #n "(1)) --> tensor([" output "], dtype=uint8)",       \
    .samples = PAIR_SAMPLES,                                                                       \
    .param = { SELF_OTHER },                                                                       \
    .forward = n##_forward }
#define ONE(n, sentence, output)                                                                   \
  { .name = #n,                                                                                    \
    .doc = sentence,                                                                               \
    .example = "print(optlua.tensor({ 0, 1 / 0, 0 / 0 }):" #n "()) --> tensor([" output            \
               "], dtype=uint8)",                                                                  \
    .samples = ONE_SAMPLES,                                                                        \
    .param = { { "self", OL_TENSOR } },                                                            \
    .forward = n##_forward }

static const ol_op ops[] = {
  PAIR(eq, "The mask of elements that are equal.", "0, 1, 0"),
  PAIR(ne, "The mask of elements that differ.", "1, 0, 1"),
  PAIR(lt, "The mask of elements of self that are less.", "1, 0, 0"),
  PAIR(le, "The mask of elements of self that are less or equal.", "1, 1, 0"),
  PAIR(gt, "The mask of elements of self that are greater.", "0, 0, 1"),
  PAIR(ge, "The mask of elements of self that are greater or equal.", "0, 1, 1"),
  PAIR(logical_and, "The mask of where both are not 0.", "0, 1, 1"),
  PAIR(logical_or, "The mask of where one or both are not 0.", "1, 1, 1"),
  PAIR(logical_xor, "The mask of where exactly one is not 0.", "1, 0, 0"),
  ONE(logical_not, "The mask of elements that are 0.", "1, 0, 0"),
  ONE(isnan, "The mask of elements that are not a number.", "0, 0, 1"),
  ONE(isinf, "The mask of elements that are infinite.", "0, 1, 0"),
  ONE(isfinite, "The mask of elements that are neither infinite nor NaN.", "1, 0, 0"),
  { .name = "isclose",
    .doc = "The mask of where |self - other| <= atol + rtol * |other|.",
    .example = "local t = optlua.tensor({ 1, 2 })\n"
               "print(t:isclose(optlua.tensor({ 1.000001, 2.1 }))) --> tensor([1, 0], dtype=uint8)",
    .samples = "{ { c(2, 3), c(2, 3) }, { c(2, 3), c(3), 0.5, 0.1 }, { c(), c() }, { c(0, 3), c(3) "
               "},  { c(4, 3):t(), c(3, 4), 0.5 }, { i({ 3 }, 2), i({ 3 }, 2) } }",
    .param = { SELF_OTHER,
               { "rtol", OL_NUMBER, .optional = true, .preset = 1e-5, .doc = "relative tolerance" },
               { "atol", OL_NUMBER, .optional = true, .preset = 1e-8, .doc = "absolute tolerance" },
               { "equal_nan", OL_FLAG, .optional = true, .doc = "whether NaN is close to NaN" } },
    .forward = isclose_forward },
  { 0 },
};

const ol_family ol_compare_ops = { .name = "compare", .doc = "Comparisons and logic", .ops = ops };
