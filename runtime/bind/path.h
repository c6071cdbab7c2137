/* path: names of files that a script hands over. */
#ifndef OL_BIND_PATH_H
#define OL_BIND_PATH_H

#include <lua.h>

/* The path that argument `arg` of a C function is, without a byte 0 inside; raises when it is none.
 */
const char *ol_check_path(lua_State *L, int arg);

#endif
