/* build: what this build is. */
#ifndef OL_BIND_BUILD_H
#define OL_BIND_BUILD_H

#include <lua.h>

/* Adds `version` to the module's table. */
void ol_open_build(lua_State *L, int module);

#endif
