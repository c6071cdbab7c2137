/* scratch: userdata that release what they hold. */
#include "bind/scratch.h"

#include <lauxlib.h>
#include <string.h>

void *ol_push_scratch(lua_State *L, size_t size, const char *name, lua_CFunction drop) {
  void *scratch = lua_newuserdatauv(L, size, 0);
  memset(scratch, 0, size);
  if (luaL_newmetatable(L, name)) {
    lua_pushcfunction(L, drop);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return scratch;
}
