/* core: the C half of the library, as the module optlua.core. */
#ifndef OL_BIND_CORE_H
#define OL_BIND_CORE_H

#include <lua.h>

/* Opens the module and pushes its table. */
__attribute__((visibility("default"))) int luaopen_optlua_core(lua_State *L);

#endif
