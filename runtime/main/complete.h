/* complete: the names that can stand at the end of a piece of Lua. */
#ifndef OL_MAIN_COMPLETE_H
#define OL_MAIN_COMPLETE_H

#include <stddef.h>

#include <lua.h>

/* Pushes the sorted list of names that complete the word at the end of text: globals and keywords,
 * fields after ".", methods after ":", through tables and __index. A metatable whose __index is a
 * function may list in __names, a table, what that answers to. Returns the length of the word.
 * Names that begin with "_" are offered only to words that do. May raise errors of __index. */
size_t ol_complete(lua_State *L, const char *text, size_t length);

#endif
