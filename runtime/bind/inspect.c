/* inspect: methods that tell about a tensor. */
#include <lauxlib.h>

#include "autograd/tape.h"
#include "bind/convert.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/sizes.h"
#include "bind/tensor.h"
#include "ops/compare.h"

static int numel(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  lua_pushinteger(L, args.call.arg[0].tensor->numel);
  return 1;
}

static int dim(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  lua_pushinteger(L, args.call.arg[0].tensor->shape.ndim);
  return 1;
}

/* All of list, or the entry that the second argument names. */
static int one_or_all(lua_State *L, const ol_args *args, const int64_t *list) {
  const ol_tensor *x = args->call.arg[0].tensor;
  ol_error error;
  int at;
  if (!args->call.arg[1].given) {
    ol_push_sizes(L, list, x->shape.ndim);
    return 1;
  }
  if (x->shape.ndim == 0)
    return ol_throw(L, "%s: a tensor of 0 dimensions has none", args->call.op->name);
  ol_check(L,
           ol_shape_dim(&error, args->call.op->name, args->call.arg[1].integer, x->shape.ndim, &at),
           &error);
  lua_pushinteger(L, list[at]);
  return 1;
}

static int size(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  return one_or_all(L, &args, args.call.arg[0].tensor->shape.size);
}

static int stride(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  return one_or_all(L, &args, args.call.arg[0].tensor->stride);
}

static int is_contiguous(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  lua_pushboolean(L, ol_tensor_is_contiguous(args.call.arg[0].tensor));
  return 1;
}

static int is_floating_point(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  lua_pushboolean(L, ol_dtype_is_float(args.call.arg[0].tensor->dtype));
  return 1;
}

static int is_tensor(lua_State *L) {
  lua_pushboolean(L, ol_to_tensor(L, 1) != NULL);
  return 1;
}

static int item(lua_State *L) {
  ol_args args;
  char shape[OL_SHAPE_TEXT];
  ol_native_args(L, lua_gettop(L), &args);
  const ol_tensor *x = args.call.arg[0].tensor;
  if (x->numel != 1)
    return ol_throw(L, "item: a tensor of one element expected, got shape %s",
                    ol_shape_text(&x->shape, shape));
  ol_push_element(L, x, 0);
  return 1;
}

static int allclose(lua_State *L) {
  ol_args args;
  ol_error error;
  bool close = false;
  char left[OL_SHAPE_TEXT], right[OL_SHAPE_TEXT];
  ol_native_args(L, lua_gettop(L), &args);
  const ol_value *arg = args.call.arg;
  if (!ol_shape_equal(&arg[0].tensor->shape, &arg[1].tensor->shape))
    return ol_throw(L, "allclose: shapes %s and %s differ",
                    ol_shape_text(&arg[0].tensor->shape, left),
                    ol_shape_text(&arg[1].tensor->shape, right));
  ol_check(L,
           ol_allclose(&error, arg[0].tensor, arg[1].tensor, arg[2].number, arg[3].number,
                       arg[4].flag, &close),
           &error);
  lua_pushboolean(L, close);
  return 1;
}

static int equal(lua_State *L) {
  ol_args args;
  ol_error error;
  bool same = false;
  ol_native_args(L, lua_gettop(L), &args);
  ol_check(L, ol_equal(&error, args.call.arg[0].tensor, args.call.arg[1].tensor, &same), &error);
  lua_pushboolean(L, same);
  return 1;
}

#define SELF { "self", OL_TENSOR }
#define DIM  { "dim", OL_INDEX, true, .doc = "one dimension; without it, all of them as a list" }

static const ol_native natives[] = {
  { { .name = "numel",
      .doc = "The number of elements.",
      .example = "print(optlua.zeros(2, 3):numel()) --> 6",
      .param = { SELF } },
    numel },
  { { .name = "dim",
      .doc = "The number of dimensions, as the property ndim.",
      .example = "print(optlua.zeros(2, 3):dim()) --> 2",
      .param = { SELF } },
    dim,
    true },
  { { .name = "size",
      .doc = "The sizes as a list, or the size of one dimension.",
      .example = "print(optlua.zeros(2, 3):size(-1)) --> 3",
      .param = { SELF, DIM } },
    size,
    true },
  { { .name = "stride",
      .doc = "How many elements lie between neighbours, for each dimension or for one.",
      .example = "print(optlua.zeros(2, 3):stride(1)) --> 3",
      .param = { SELF, DIM } },
    stride,
    true },
  { { .name = "is_contiguous",
      .doc = "Whether the elements follow each other in row-major order without gaps.",
      .example = "print(optlua.zeros(2, 3):t():is_contiguous()) --> false",
      .param = { SELF } },
    is_contiguous,
    true },
  { { .name = "is_floating_point",
      .doc = "Whether the elements are fractions: float32, float64, bfloat16.",
      .example = "print(optlua.arange(3):is_floating_point()) --> false",
      .param = { SELF } },
    is_floating_point },
  { { .name = "is_tensor",
      .doc = "Whether a value of any type is a tensor (one that was not released).",
      .example = "print(optlua.is_tensor(optlua.ones(2)), optlua.is_tensor(2)) --> true false",
      .param = { { "value", OL_ANY } },
      .flags = OL_OP_FUNCTION },
    is_tensor },
  { { .name = "item",
      .doc = "The only element, as a number: an integer for int64 and uint8.",
      .example = "print(optlua.tensor({ 2.5 }):item()) --> 2.5",
      .param = { SELF } },
    item,
    true },
  { { .name = "allclose",
      .doc = "Whether |self - other| <= atol + rtol * |other| for all elements; the shapes must be "
             "the same.",
      .example = "print(optlua.ones(2):allclose(optlua.ones(2) + 1e-9)) --> true",
      .param = { SELF,
                 { "other", OL_TENSOR },
                 { "rtol", OL_NUMBER, true, 1e-5, .doc = "relative tolerance" },
                 { "atol", OL_NUMBER, true, 1e-8, .doc = "absolute tolerance" },
                 { "equal_nan", OL_FLAG, true, .doc = "whether NaN is close to NaN" } } },
    allclose },
  { { .name = "equal",
      .doc = "Whether the shapes are the same and all elements equal, whatever the dtypes.",
      .example = "print(optlua.ones(2):equal(optlua.ones(3))) --> false",
      .param = { SELF, { "other", OL_TENSOR } } },
    equal },
  { { 0 } },
};

const ol_natives ol_inspect_natives = { "inspect", "Looking at tensors", natives };
