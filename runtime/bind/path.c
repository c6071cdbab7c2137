/* path: checks paths. */
#include "bind/path.h"

#include <lauxlib.h>
#include <string.h>

#include "bind/error.h"

const char *ol_check_path(lua_State *L, int arg) {
  size_t length;
  if (lua_type(L, arg) != LUA_TSTRING)
    ol_throw(L, "a path: string expected, got %s", ol_type_text(L, arg));
  const char *path = lua_tolstring(L, arg, &length);
  if (strlen(path) != length) ol_throw(L, "a path has no byte 0");
  return path;
}
