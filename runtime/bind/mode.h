/* mode: whether ops are recorded, for the time of a function. */
#ifndef OL_BIND_MODE_H
#define OL_BIND_MODE_H

#include <lua.h>

/* As lua_call, without recording; the mode is restored also when the function raises. */
void ol_call_unrecorded(lua_State *L, int count, int results);

#endif
