/* paths: where require looks first. */
#ifndef OL_MAIN_PATHS_H
#define OL_MAIN_PATHS_H

#include <lua.h>

/* Puts two folders in front of package.path: that of the script (NULL: there is none), then that of
 * the Lua library which belongs to this executable. */
void ol_paths_set(lua_State *L, const char *script);

#endif
