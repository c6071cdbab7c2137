/* path: checks paths. */
#include "bind/path.h"

#include <lauxlib.h>
#include <string.h>

const char *ol_check_path(lua_State *L, int arg) {
  size_t length;
  const char *path = luaL_checklstring(L, arg, &length);
  luaL_argcheck(L, strlen(path) == length, arg, "a path has no byte 0");
  return path;
}
