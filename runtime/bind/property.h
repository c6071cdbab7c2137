/* property: metamethods of tensors that are not arithmetic. */
#ifndef OL_BIND_PROPERTY_H
#define OL_BIND_PROPERTY_H

#include <lua.h>

/* Pushes a table whose keys are the names that a tensor answers to: the properties, each with a
 * sentence on it, and, through __index, the methods at an index. The REPL completes from it. */
void ol_push_tensor_names(lua_State *L, int methods);

int ol_tensor_index(lua_State *L); /* upvalue 1: the table of methods */
int ol_tensor_newindex(lua_State *L);
int ol_tensor_len(lua_State *L);
int ol_tensor_concat(lua_State *L);
int ol_tensor_less(lua_State *L);
int ol_tensor_less_equal(lua_State *L);

#endif
