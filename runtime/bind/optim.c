/* optim: the table, and functions on lists of tensors. */
#include "bind/optim.h"

#include <lauxlib.h>
#include <math.h>

#include "bind/error.h"
#include "bind/symbol.h"
#include "bind/tensor.h"
#include "optim/clip.h"
#include "rule/op.h"

ol_tensor **ol_check_tensors(lua_State *L, int arg, int64_t *count) {
  luaL_checktype(L, arg, LUA_TTABLE);
  *count = (int64_t)lua_rawlen(L, arg);
  ol_tensor **list = lua_newuserdatauv(L, (size_t)*count * sizeof *list + 1, 0);
  for (int64_t i = 0; i < *count; i++) {
    lua_rawgeti(L, arg, i + 1);
    list[i] = ol_to_tensor(L, -1);
    if (!list[i]) ol_throw(L, "tensor %d is a %s", (int)i + 1, ol_type_text(L, -1));
    lua_pop(L, 1);
  }
  return list;
}

/* overlap(tensors): the places of two that share memory, or nothing. */
static int overlap(lua_State *L) {
  ol_error error;
  int64_t count, first, second;
  ol_tensor **list = ol_check_tensors(L, 1, &count);
  ol_check(L, ol_find_overlap(&error, list, count, &first, &second), &error);
  if (first < 0) return 0;
  lua_pushinteger(L, first + 1);
  lua_pushinteger(L, second + 1);
  return 2;
}

/* norm(tensors, infinity): the norm of their gradients, and the place of the first that is not
 * finite, or nothing. */
static int norm(lua_State *L) {
  ol_error error;
  int64_t count, culprit;
  double result;
  ol_tensor **list = ol_check_tensors(L, 1, &count);
  ol_check(L, ol_gradient_norm(&error, list, count, lua_toboolean(L, 2), &result, &culprit),
           &error);
  lua_pushnumber(L, result);
  if (culprit < 0) return 1;
  lua_pushinteger(L, culprit + 1);
  return 2;
}

/* taken(tensors): the place of the first whose gradients an optimizer takes during backward. */
static int taken(lua_State *L) {
  int64_t count;
  ol_tensor **list = ol_check_tensors(L, 1, &count);
  for (int64_t i = 0; i < count; i++)
    if (list[i]->taker) {
      lua_pushinteger(L, i + 1);
      return 1;
    }
  return 0;
}

/* clip(tensors, norm, max_norm): scales gradients of this norm down to max_norm. */
static int clip(lua_State *L) {
  int64_t count;
  ol_tensor **list = ol_check_tensors(L, 1, &count);
  double factor = ol_clip_factor(luaL_checknumber(L, 2), luaL_checknumber(L, 3));
  if (factor < 1) ol_gradient_scale(list, count, factor);
  return 0;
}

static void set_text(lua_State *L, const char *field, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

/* operation_list(): what there is to say of each operation, { name =, arguments =, doc = } each. */
static int operation_list(lua_State *L) {
  lua_newtable(L);
  for (int op = OL_RULE_ADD; op <= OL_RULE_T; op++) {
    const ol_rule_op_info *info = &ol_rule_op_table[op];
    lua_createtable(L, 0, 3);
    set_text(L, "name", info->name);
    set_text(L, "arguments", info->arguments);
    set_text(L, "doc", info->doc);
    lua_rawseti(L, -2, 1 + op - OL_RULE_ADD);
  }
  lua_createtable(L, 0, 3);
  set_text(L, "name", "group_add");
  set_text(L, "arguments", "name, x");
  set_text(L, "doc", "adds the sum of x over the tensor to a number of the group; gives nothing");
  lua_rawseti(L, -2, 2 + OL_RULE_T - OL_RULE_ADD);
  return 1;
}

void ol_open_optim(lua_State *L) {
  static const luaL_Reg functions[] = { { "overlap", overlap },
                                        { "norm", norm },
                                        { "clip", clip },
                                        { "taken", taken },
                                        { "operation_list", operation_list },
                                        { NULL, NULL } };
  luaL_newlib(L, functions);
  lua_newtable(L);
  ol_open_symbol(L);
  lua_setfield(L, -2, "operations");
  ol_open_group(L);
  ol_open_step(L);
  ol_open_updater(L);
}
