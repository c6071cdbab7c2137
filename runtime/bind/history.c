/* history: inheritance, and the table from numbers to what they stand for. */
#include "bind/history.h"

#include <lauxlib.h>

#include "autograd/tape.h"
#include "base/local.h"
#include "bind/tensor.h"

static bool any;                    /* whether a history exists anywhere */
static const char remembered = 'r'; /* its address is the key of the weak table */
OL_THREAD_LOCAL lua_Integer count;  /* numbers given out */

bool ol_has_history(void) { return any; }

/* Adds the history of the userdata at index to the one at index `sum`: nil, a history that operands
 * share, or (*own) a table made here. */
static void merge(lua_State *L, int index, int sum, bool *own) {
  if (!ol_is_tensor(L, index)) return;
  if (lua_getiuservalue(L, index, 1) != LUA_TTABLE) {
    lua_pop(L, 1);
    return;
  }
  if (lua_isnil(L, sum) || lua_rawequal(L, sum, -1)) {
    lua_replace(L, sum);
    return;
  }
  if (!*own) {
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, sum);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    lua_replace(L, sum);
    *own = true;
  }
  lua_pushboolean(L, true);
  lua_rawset(L, sum);
}

static void merge_list(lua_State *L, int list, int sum, bool *own) {
  lua_Integer length = (lua_Integer)lua_rawlen(L, list);
  for (lua_Integer i = 1; i <= length; i++) {
    lua_rawgeti(L, list, i);
    merge(L, lua_gettop(L), sum, own);
    lua_pop(L, 1);
  }
}

void ol_inherit(lua_State *L, const ol_args *args, int slot, int outputs) {
  const ol_param *param = args->call.op->param;
  const ol_tensor *first = ol_to_tensor(L, slot);
  bool own = false;
  if (!first || ol_is_leaf(first)) return;
  luaL_checkstack(L, 6, "history");
  lua_pushnil(L);
  int sum = lua_gettop(L);
  for (int p = 0; param[p].name; p++) {
    if (!args->at[p]) continue;
    if (param[p].kind == OL_TENSORS)
      merge_list(L, args->at[p], sum, &own);
    else
      merge(L, args->at[p], sum, &own);
  }
  for (int i = 0; !lua_isnil(L, sum) && i < outputs; i++) {
    lua_pushvalue(L, sum);
    if (!ol_is_tensor(L, slot + i) || !lua_setiuservalue(L, slot + i, 1)) lua_pop(L, 1);
  }
  lua_settop(L, sum - 1);
}

lua_Integer ol_remember(lua_State *L) {
  any = true;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &remembered);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, ++count);
  lua_pop(L, 1);
  return count;
}

void ol_push_remembered(lua_State *L, lua_Integer number) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &remembered);
  lua_rawgeti(L, -1, number);
  lua_remove(L, -2);
}

/* Whether the history of a tensor has the table among its keys. */
static bool holds(lua_State *L, int tensor, int table) {
  bool found = false;
  if (lua_getiuservalue(L, tensor, 1) == LUA_TTABLE) {
    lua_pushvalue(L, table);
    found = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return found;
}

void ol_attach_history(lua_State *L, int tensor, int table) {
  table = lua_absindex(L, table);
  tensor = lua_absindex(L, tensor);
  if (holds(L, tensor, table)) return;
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, table);
  lua_pushboolean(L, true);
  lua_rawset(L, -3);
  if (lua_getiuservalue(L, tensor, 1) == LUA_TTABLE) {
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
  } else
    lua_pop(L, 1);
  lua_setiuservalue(L, tensor, 1);
}

void ol_open_history(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &remembered);
}
