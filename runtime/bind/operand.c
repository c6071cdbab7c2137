/* operand: numbers that stand where a tensor may stand. */
#include "bind/args.h"

#include <math.h>

/* The tensor whose dtype a number takes over: the first operand that is one, else self. */
static const ol_tensor *model(const ol_args *args) {
  const ol_param *param = args->call.op->param;
  for (int p = 0; param[p].name; p++)
    if (param[p].kind == OL_OPERAND && args->call.arg[p].tensor) return args->call.arg[p].tensor;
  return param[0].kind == OL_TENSOR ? args->call.arg[0].tensor : NULL;
}

static ol_dtype integer_dtype(int64_t value, const ol_tensor *other) {
  if (!other) return OL_I64;
  if (other->dtype == OL_U8 && (value < 0 || value > UINT8_MAX)) return OL_I64;
  return other->dtype;
}

static ol_dtype fraction_dtype(const ol_tensor *other) {
  return other && ol_dtype_is_float(other->dtype) ? other->dtype : OL_F32;
}

/* A number takes the dtype of the other operand where it fits. A fraction, and any Lua float, is no
 * integer, unless the result has to stay one because it is written in place. */
static ol_status make(ol_error *error, lua_State *L, int index, const ol_tensor *other,
                      bool in_place, ol_tensor **out) {
  ol_shape scalar = { .ndim = 0 };
  int64_t integer;
  bool whole = ol_whole(L, index, &integer) && (lua_isinteger(L, index) || in_place);
  ol_dtype dtype = whole ? integer_dtype(integer, other) : fraction_dtype(other);
  OL_TRY(ol_tensor_new(error, dtype, &scalar, out));
  if (whole)
    ol_tensor_set_integer(*out, 0, integer);
  else
    ol_tensor_set(*out, 0, lua_tonumber(L, index));
  return OL_OK;
}

ol_status ol_make_operands(ol_error *error, lua_State *L, ol_args *args) {
  if (!args->numbers) return OL_OK;
  const ol_tensor *other = model(args);
  bool in_place = args->call.op->flags & OL_OP_INPLACE;
  for (int p = 0; args->numbers >> p; p++) {
    if (!(args->numbers >> p & 1)) continue;
    OL_TRY(make(error, L, args->at[p], other, in_place, &args->call.arg[p].tensor));
    args->made |= 1u << p;
  }
  return OL_OK;
}

void ol_drop_operands(ol_args *args) {
  for (int p = 0; args->made >> p; p++)
    if (args->made >> p & 1) ol_release(args->call.arg[p].tensor);
  args->made = 0;
}
