/* pointwise: promotes, broadcasts, allocates and runs. */
#include "ops/pointwise.h"

/* A tensor of dtype with x's elements: x itself where it has that dtype. One reference. */
static ol_status as_dtype(ol_error *error, ol_tensor *x, ol_dtype dtype, ol_tensor **out) {
  if (x->dtype != dtype) return ol_tensor_convert(error, x, dtype, out);
  *out = ol_retain(x);
  return OL_OK;
}

static ol_status no_rows(ol_error *error, const char *op, ol_dtype dtype) {
  if (dtype == OL_BF16)
    return ol_fail(error, OL_DTYPE, "%s: bfloat16 stores; convert with :to(\"float32\")", op);
  return ol_fail(error, OL_DTYPE, "%s: is not defined for %s", op, ol_dtype_name(dtype));
}

ol_status ol_unary(ol_error *error, const char *op, const ol_rows *rows, ol_tensor *x,
                   ol_tensor **out) {
  ol_tensor *y;
  if (!rows->of[x->dtype]) return no_rows(error, op, x->dtype);
  OL_TRY(ol_tensor_new(error, x->dtype, &x->shape, &y));
  ol_loop loop;
  ol_tensor *operands[] = { y, x };
  ol_loop_init(&loop, &x->shape, 2, operands);
  ol_loop_run(&loop, OL_GRAIN, rows->of[x->dtype], NULL);
  *out = y;
  return OL_OK;
}

/* x and y have the dtype and broadcast to shape. */
static ol_status run_binary(ol_error *error, ol_row_fn *fn, const ol_shape *shape, ol_tensor *x,
                            ol_tensor *y, ol_tensor **out) {
  ol_tensor *z;
  OL_TRY(ol_tensor_new(error, x->dtype, shape, &z));
  ol_loop loop;
  ol_tensor *operands[] = { z, x, y };
  ol_loop_init(&loop, shape, 3, operands);
  ol_loop_run(&loop, OL_GRAIN, fn, NULL);
  *out = z;
  return OL_OK;
}

ol_status ol_binary(ol_error *error, const char *op, const ol_rows *rows, ol_tensor *x,
                    ol_tensor *y, ol_tensor **out) {
  ol_shape shape;
  ol_dtype dtype = ol_dtype_promote(x->dtype, y->dtype);
  ol_tensor *a = NULL, *b = NULL;
  if (x->dtype == OL_BF16 || y->dtype == OL_BF16) dtype = OL_BF16;
  if (!rows->of[dtype]) return no_rows(error, op, dtype);
  OL_TRY(ol_shape_broadcast(error, op, &x->shape, &y->shape, &shape));
  ol_status status = as_dtype(error, x, dtype, &a);
  if (status == OL_OK) status = as_dtype(error, y, dtype, &b);
  if (status == OL_OK) status = run_binary(error, rows->of[dtype], &shape, a, b, out);
  ol_release(a);
  ol_release(b);
  return status;
}
