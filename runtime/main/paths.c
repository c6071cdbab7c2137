/* paths: where require looks first.
 *
 * The library is found from the place of the executable, so that a tree can be moved:
 *   ROOT/build/optlua -> ROOT/lua            (a source tree)
 *   ROOT/bin/optlua   -> ROOT/share/lua/5.4  (an installed one)
 *   ROOT/asan/optlua  -> ROOT/../lua         (a build folder within build/) */
#include "main/paths.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>

/* Pushes the templates of a folder, or "" if its name would be read as several or as a pattern. */
static void push_templates(lua_State *L, const char *folder) {
  if (strpbrk(folder, LUA_PATH_SEP LUA_PATH_MARK) != NULL)
    lua_pushliteral(L, "");
  else
    lua_pushfstring(L, "%s/?.lua;%s/?/init.lua;", folder, folder);
}

/* Pushes the path without its last name: "a/b" -> "a", "/b" -> "", "b" -> ".". */
static const char *push_parent(lua_State *L, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? lua_pushlstring(L, path, (size_t)(slash - path)) : lua_pushstring(L, ".");
}

/* Pushes the folder of the library beside this executable; NULL and nothing if there is none. */
static const char *push_library_folder(lua_State *L) {
  static const char *const places[] = { "lua", "share/lua/5.4", "../lua" };
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) return NULL;
  self[length] = '\0';
  const char *root = push_parent(L, push_parent(L, self));
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *folder = lua_pushfstring(L, "%s/%s", root, places[i]);
    if (access(lua_pushfstring(L, "%s/optlua", folder), R_OK | X_OK) == 0) return folder;
  }
  return NULL;
}

void ol_paths_set(lua_State *L, const char *script) {
  int top = lua_gettop(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  const char *library = push_library_folder(L);
  push_templates(L, script != NULL ? push_parent(L, script) : LUA_PATH_MARK);
  push_templates(L, library != NULL ? library : LUA_PATH_MARK);
  lua_pushvalue(L, top + 2);
  lua_concat(L, 3);
  lua_setfield(L, top + 1, "path");
  lua_settop(L, top);
}
