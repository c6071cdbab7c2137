/* sizes: the lists of sizes that tensors hand out. */
#include "bind/sizes.h"

#include <stdbool.h>

#include <lauxlib.h>

#define METATABLE "optlua.sizes"

/* __tostring: what the list holds now, which a script may have changed. */
static int to_text(lua_State *L) {
  luaL_Buffer text;
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_buffinit(L, &text);
  luaL_addchar(&text, '(');
  lua_Integer count = (lua_Integer)lua_rawlen(L, 1);
  for (lua_Integer i = 1; i <= count; i++) {
    if (i > 1) luaL_addlstring(&text, ", ", 2);
    lua_rawgeti(L, 1, i);
    luaL_tolstring(L, -1, NULL);
    lua_remove(L, -2);
    luaL_addvalue(&text);
  }
  luaL_addchar(&text, ')');
  luaL_pushresult(&text);
  return 1;
}

static void push_metatable(lua_State *L) {
  if (luaL_newmetatable(L, METATABLE)) {
    lua_pushcfunction(L, to_text);
    lua_setfield(L, -2, "__tostring");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
  }
}

void ol_push_sizes(lua_State *L, const int64_t *size, int count) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    lua_pushinteger(L, size[i]);
    lua_rawseti(L, -2, i + 1);
  }
  push_metatable(L);
  lua_setmetatable(L, -2);
}
