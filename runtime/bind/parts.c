/* parts: methods that give several views as a list. */
#include <lauxlib.h>

#include "bind/call.h"
#include "bind/collector.h"
#include "bind/error.h"
#include "bind/history.h"
#include "bind/native.h"
#include "bind/tensor.h"
#include "ops/registry.h"

/* Dimension `dim` of the tensor, which must have one. */
static int part_dim(lua_State *L, const ol_args *args, int64_t dim) {
  const ol_tensor *x = args->call.arg[0].tensor;
  const char *name = args->call.op->name;
  ol_error error;
  int at;
  if (x->shape.ndim == 0) ol_throw(L, "%s: a tensor of 0 dimensions has no parts", name);
  ol_check(L, ol_shape_dim(&error, name, dim, x->shape.ndim, &at), &error);
  return at;
}

/* Pushes the view that op (narrow or select) makes of the tensor that stands at self. */
static void push_part(lua_State *L, const ol_args *of, const ol_op *op, int dim, int64_t start,
                      int64_t length) {
  ol_args args = { .call = { .op = op }, .at = { of->at[0] } };
  int slot = lua_gettop(L) + 1;
  args.call.arg[0] = of->call.arg[0];
  args.call.arg[1] = (ol_value){ .given = true, .integer = dim };
  args.call.arg[2] = (ol_value){ .given = true, .integer = start };
  if (op->param[3].name) args.call.arg[3] = (ol_value){ .given = true, .integer = length };
  luaL_checkstack(L, 4, op->name);
  ol_push_slots(L, op);
  ol_apply_args(L, &args, slot);
}

/* Pushes the list of parts of `size` (the last may be smaller). */
static int even_parts(lua_State *L, const ol_args *args, int dim, int64_t size) {
  const ol_op *narrow = ol_op_find("narrow");
  int64_t total = args->call.arg[0].tensor->shape.size[dim], count = 0;
  lua_newtable(L);
  for (int64_t start = 0; start < total || count == 0; start += size) {
    int64_t length = total - start < size ? total - start : size;
    push_part(L, args, narrow, dim, start, length);
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

/* Pushes the list of parts of the sizes that the list at index gives. */
static int listed_parts(lua_State *L, const ol_args *args, int dim, int index) {
  const ol_op *narrow = ol_op_find("narrow");
  int64_t total = args->call.arg[0].tensor->shape.size[dim], start = 0, size = 0;
  int count = (int)lua_rawlen(L, index);
  lua_createtable(L, count, 0);
  for (int i = 1; i <= count; i++, start += size) {
    lua_rawgeti(L, index, i);
    if (!ol_whole(L, -1, &size) || size < 0 || size > total - start)
      ol_throw(L, "split: sizes that add up to %I expected; entry %d is %s", (LUAI_UACINT)total, i,
               ol_value_text(L, -1));
    lua_pop(L, 1);
    push_part(L, args, narrow, dim, start, size);
    lua_rawseti(L, -2, i);
  }
  if (start != total)
    ol_throw(L, "split: sizes that add up to %I expected, got %I", (LUAI_UACINT)total,
             (LUAI_UACINT)start);
  return 1;
}

static int split(lua_State *L) {
  ol_args args;
  int64_t size;
  ol_native_args(L, lua_gettop(L), &args);
  int dim = part_dim(L, &args, args.call.arg[2].integer);
  if (lua_type(L, args.at[1]) == LUA_TTABLE) return listed_parts(L, &args, dim, args.at[1]);
  if (!ol_whole(L, args.at[1], &size) || size < 1)
    return ol_throw(L,
                    "split: argument 2 (split_size): a positive integer or a list of integers "
                    "expected, got %s",
                    ol_value_text(L, args.at[1]));
  return even_parts(L, &args, dim, size);
}

static int chunk(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  int dim = part_dim(L, &args, args.call.arg[2].integer);
  int64_t total = args.call.arg[0].tensor->shape.size[dim], chunks = args.call.arg[1].integer;
  if (chunks < 1)
    return ol_throw(L, "chunk: argument 2 (chunks): a positive integer expected, got %I",
                    (LUAI_UACINT)chunks);
  int64_t size = total / chunks + (total % chunks != 0);
  return even_parts(L, &args, dim, size ? size : 1);
}

static int unbind(lua_State *L) {
  ol_args args;
  const ol_op *select = ol_op_find("select");
  ol_native_args(L, lua_gettop(L), &args);
  int dim = part_dim(L, &args, args.call.arg[1].integer);
  int64_t total = args.call.arg[0].tensor->shape.size[dim];
  lua_newtable(L);
  for (int64_t i = 0; i < total; i++) {
    push_part(L, &args, select, dim, i, 0);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

#define SELF { "self", OL_TENSOR }
#define DIM  { "dim", OL_INDEX, true, 1, .doc = "the dimension that is cut" }

static const ol_native natives[] = {
  { { .name = "split",
      .doc = "A list of views of parts along one dimension: of a size (the last part may be "
             "smaller), or of the sizes in a list.",
      .example = "print(optlua.arange(5):split(2)[3]) --> tensor([4])",
      .param = { SELF, { "split_size", OL_ANY, .doc = "an integer or a list of integers" }, DIM } },
    split },
  { { .name = "chunk",
      .doc =
          "A list of at most `chunks` views of parts along one dimension, equal but for the last.",
      .example = "print(#optlua.arange(5):chunk(2)) --> 2",
      .param = { SELF, { "chunks", OL_DATA }, DIM } },
    chunk },
  { { .name = "unbind",
      .doc = "A list of the views at each position of one dimension, which they do not have; "
             "ipairs over it visits the rows.",
      .example = "print(optlua.tensor({ { 1, 2 }, { 3, 4 } }):unbind()[2]) --> tensor([3., 4.])",
      .param = { SELF, DIM } },
    unbind },
  { { 0 } },
};

const ol_natives ol_parts_natives = { "parts", "Parts as lists", natives };
