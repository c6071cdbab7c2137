/* scratch: what C holds while it talks to Lua, as a userdata, so that an error releases it. */
#ifndef OL_BIND_SCRATCH_H
#define OL_BIND_SCRATCH_H

#include <lua.h>
#include <stddef.h>

/* Pushes a userdata of `size` zeros, of the type `name`; `drop`, a function of Lua, releases what
 * it holds by then, and leaves zeros. */
void *ol_push_scratch(lua_State *L, size_t size, const char *name, lua_CFunction drop);

#endif
