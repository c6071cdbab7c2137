/* heap: the memory of Lua itself. */
#ifndef OL_MAIN_HEAP_H
#define OL_MAIN_HEAP_H

#include <lua.h>

/* Makes the state keep small blocks that it frees for the next ones of their size. Lua drops
 * objects by the thousand, at which malloc is slow. Meant for the one state of the process. */
void ol_heap_open(lua_State *L);

#endif
