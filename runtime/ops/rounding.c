/* rounding: to whole numbers. Their derivatives are 0, but for frac. */
#include "ops/unary.h"

#define FLOOR(x) (floor(x))
#define CEIL(x)  (ceil(x))
#define ROUND(x) (rint(x))
#define TRUNC(x) (trunc(x))
#define FRAC(x)  ((x) - trunc(x))
OL_NUMBERS(floor_rows, 1, FLOOR, OL_SAME)
OL_NUMBERS(ceil_rows, 1, CEIL, OL_SAME)
OL_NUMBERS(round_rows, 1, ROUND, OL_SAME)
OL_NUMBERS(trunc_rows, 1, TRUNC, OL_SAME)
OL_FLOATS(frac_rows, 1, FRAC)
OL_FLAT(floor)
OL_FLAT(ceil)
OL_FLAT(round)
OL_FLAT(trunc)
OL_FORWARD_1(frac, false)

static ol_status frac_backward(ol_error *error, ol_back *back) {
  (void)error;
  back->grad[0] = ol_retain(back->grad_out[0]);
  return OL_OK;
}

static const ol_op ops[] = {
  OL_UNARY_OPS(floor, "Rounds down.", "t", OL_NOTHING_SAVED, "1.7, -1.2", " 1., -2."),
  OL_UNARY_OPS(ceil, "Rounds up.", "t", OL_NOTHING_SAVED, "1.2, -1.7", " 2., -1."),
  OL_UNARY_OPS(round, "Rounds to the nearest whole number, halves to the even one.", "t",
               OL_NOTHING_SAVED, "0.5, 1.5, 2.6", "0., 2., 3."),
  OL_UNARY_OPS(trunc, "Rounds towards zero.", "t", OL_NOTHING_SAVED, "1.7, -1.7", " 1., -1."),
  OL_UNARY_OPS(frac, "What trunc cuts off: it has the sign of the element.", "t", OL_NOTHING_SAVED,
               "1.5, -1.5", " 0.5000, -0.5000"),
  { 0 },
};

const ol_family ol_rounding_ops = { .name = "rounding", .doc = "Rounding", .ops = ops };
