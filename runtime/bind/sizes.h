/* sizes: the lists of sizes that tensors hand out. */
#ifndef OL_BIND_SIZES_H
#define OL_BIND_SIZES_H

#include <stdint.h>

#include <lua.h>

/* Pushes a list of integers that prints as "(2, 3)" and is otherwise like any: getmetatable gives
 * false. */
void ol_push_sizes(lua_State *L, const int64_t *size, int count);

#endif
