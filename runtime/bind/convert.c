/* convert: tensors from Lua values and back. */
#include "bind/convert.h"

#include <lauxlib.h>

#include "autograd/tape.h"
#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/tensor.h"

void ol_push_element(lua_State *L, const ol_tensor *tensor, int64_t position) {
  if (ol_dtype_is_float(tensor->dtype))
    lua_pushnumber(L, ol_tensor_get(tensor, position));
  else
    lua_pushinteger(L, ol_tensor_get_integer(tensor, position));
}

/* Reading of nested tables. */

typedef struct reader {
  ol_shape shape;          /* of the first entries on every level */
  int64_t at[OL_MAX_DIMS]; /* where we are, from 1 */
  int depth;               /* how many entries of `at` hold */
  bool booleans;           /* whether elements are booleans; else they are numbers */
  ol_dtype dtype;          /* of the tensor that is filled */
  ol_tensor *tensor;       /* NULL while only the shape is measured */
  int64_t position;        /* of the next element */
} reader;

/* Pushes "[2][1]" (or "value"), where the reader is. */
static const char *path(lua_State *L, const reader *r) {
  if (r->depth == 0) return "value";
  lua_pushliteral(L, "");
  for (int d = 0; d < r->depth; d++) {
    lua_pushfstring(L, "[%I]", (LUAI_UACINT)r->at[d]);
    lua_concat(L, 2);
  }
  return lua_tostring(L, -1);
}

/* Pushes the table's entry i and goes there. */
static void enter(lua_State *L, reader *r, int table, int64_t i) {
  r->at[r->depth - 1] = i;
  lua_rawgeti(L, table, i);
}

/* The length of the table at index, which must be a list and nothing else. */
static int64_t list_length(lua_State *L, const reader *r, int table) {
  int64_t length = (int64_t)lua_rawlen(L, table), count = 0;
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    int whole;
    lua_Integer key = lua_type(L, -2) == LUA_TNUMBER ? lua_tointegerx(L, -2, &whole) : 0;
    if (key < 1 || key > length) {
      const char *name = luaL_tolstring(L, -2, NULL);
      ol_throw(L, "tensor: %s has the key %s; a list of numbers or of such lists expected",
               path(L, r), name);
    }
    count++;
  }
  if (count < length) ol_throw(L, "tensor: %s has gaps", path(L, r));
  return length;
}

/* Measures the shape along first entries. */
static void measure(lua_State *L, reader *r, int index) {
  int top = lua_gettop(L);
  lua_pushvalue(L, index);
  while (lua_type(L, -1) == LUA_TTABLE) {
    if (r->shape.ndim == OL_MAX_DIMS)
      ol_throw(L, "tensor: tables are nested more than %d deep", OL_MAX_DIMS);
    int64_t length = (int64_t)lua_rawlen(L, -1);
    r->shape.size[r->shape.ndim++] = length;
    if (length == 0) break;
    lua_rawgeti(L, -1, 1);
    lua_remove(L, -2);
  }
  r->booleans = lua_type(L, -1) == LUA_TBOOLEAN;
  lua_settop(L, top);
}

_Noreturn static void fail_element(lua_State *L, const reader *r, const char *want) {
  const char *hint = ol_is_tensor(L, -1) ? "; stack and cat join tensors" : "";
  const char *got = ol_value_text(L, -1);
  ol_throw(L, "tensor: %s: %s expected, got %s%s", path(L, r), want, got, hint);
}

/* The element on top of the stack, which must fit the dtype, goes to the next position. */
static void put_element(lua_State *L, reader *r) {
  int64_t integer;
  if (r->booleans ? lua_type(L, -1) != LUA_TBOOLEAN : lua_type(L, -1) != LUA_TNUMBER)
    fail_element(L, r, r->booleans ? "boolean" : "number");
  if (r->booleans)
    ol_tensor_set_integer(r->tensor, r->position++, lua_toboolean(L, -1));
  else if (ol_dtype_is_float(r->dtype))
    ol_tensor_set(r->tensor, r->position++, lua_tonumber(L, -1));
  else if (!ol_whole(L, -1, &integer))
    fail_element(L, r, "integer");
  else if (r->dtype == OL_U8 && (integer < 0 || integer > UINT8_MAX))
    fail_element(L, r, "integer from 0 to 255");
  else
    ol_tensor_set_integer(r->tensor, r->position++, integer);
}

static void put_table(lua_State *L, reader *r, int table);

/* The value on top of the stack lies at level r->depth: a table, or on the last level an element.
 */
static void put(lua_State *L, reader *r) {
  if (r->depth == r->shape.ndim)
    put_element(L, r);
  else if (lua_type(L, -1) == LUA_TTABLE)
    put_table(L, r, lua_gettop(L));
  else
    fail_element(L, r, "list");
}

static void put_table(lua_State *L, reader *r, int table) {
  int64_t length = list_length(L, r, table), wanted = r->shape.size[r->depth];
  luaL_checkstack(L, 4, "tensor");
  if (length != wanted)
    ol_throw(L, "tensor: %s has length %I where %I was expected", path(L, r), (LUAI_UACINT)length,
             (LUAI_UACINT)wanted);
  r->depth++;
  for (int64_t i = 1; i <= length; i++) {
    enter(L, r, table, i);
    put(L, r);
    lua_pop(L, 1);
  }
  r->depth--;
}

/* Fills the slot at index `slot` from the Lua value at index. */
static void read_value(lua_State *L, int index, int slot, const ol_value *dtype) {
  ol_error error;
  reader r = { .shape = { .ndim = 0 } };
  measure(L, &r, index);
  r.dtype = dtype->given ? dtype->dtype : r.booleans ? OL_U8 : OL_F32;
  ol_check(L, ol_tensor_new(&error, r.dtype, &r.shape, &r.tensor), &error);
  ol_fill_slot(L, slot, r.tensor);
  lua_pushvalue(L, index);
  put(L, &r);
  lua_pop(L, 1);
}

/* Fills the slot with a copy of a tensor. */
static void copy(lua_State *L, const ol_tensor *source, int slot, const ol_value *dtype) {
  ol_error error;
  ol_tensor *target;
  ol_dtype own = dtype->given ? dtype->dtype : source->dtype;
  ol_check(L, ol_tensor_convert(&error, source, own, &target), &error);
  ol_fill_slot(L, slot, target);
}

static int tensor(lua_State *L) {
  ol_args args;
  ol_error error;
  int slot = lua_gettop(L) + 1;
  ol_push_slot(L);
  ol_native_args(L, slot - 1, &args);
  const ol_value *dtype = &args.call.arg[1];
  const ol_tensor *source = ol_to_tensor(L, args.at[0]);
  if (source)
    copy(L, source, slot, dtype);
  else
    read_value(L, args.at[0], slot, dtype);
  if (args.call.arg[2].flag)
    ol_check(L, ol_set_requires_grad(&error, ol_to_tensor(L, slot), true), &error);
  lua_settop(L, slot);
  ol_feed_collector(L);
  return 1;
}

/* totable */

static void push_table(lua_State *L, const ol_tensor *x, int depth, int64_t *position) {
  if (depth == x->shape.ndim) {
    ol_push_element(L, x, (*position)++);
    return;
  }
  int64_t size = x->shape.size[depth];
  luaL_checkstack(L, 2, "totable");
  lua_createtable(L, size < INT32_MAX ? (int)size : INT32_MAX, 0);
  for (int64_t i = 1; i <= size; i++) {
    push_table(L, x, depth + 1, position);
    lua_rawseti(L, -2, i);
  }
}

static int totable(lua_State *L) {
  ol_args args;
  int64_t position = 0;
  ol_native_args(L, lua_gettop(L), &args);
  push_table(L, args.call.arg[0].tensor, 0, &position);
  return 1;
}

static const ol_native natives[] = {
  { { .name = "tensor",
      .doc =
          "A new tensor with the numbers of a nested table, or one number, or a copy of a tensor. "
          "Numbers become float32 and booleans uint8, unless dtype says otherwise.",
      .example = "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = \"int64\" }):sum():item()) "
                 "--> 10",
      .param = { { "data", OL_ANY, .doc = "every table on a level has the same length" },
                 { "dtype", OL_TYPE, true },
                 { "requires_grad", OL_FLAG, true,
                   .doc = "whether it is a leaf that wants a "
                          "gradient" } },
      .flags = OL_OP_FUNCTION },
    tensor },
  { { .name = "totable",
      .doc =
          "The elements as nested tables; of a 0-dimensional tensor, a number. Elements of int64 "
          "and uint8 are integers.",
      .example = "print(table.concat(optlua.arange(3):totable(), \" \")) --> 0 1 2",
      .param = { { "self", OL_TENSOR } } },
    totable,
    true },
  { { 0 } },
};

const ol_natives ol_convert_natives = { "convert", "Tensors from Lua values and back", natives };
