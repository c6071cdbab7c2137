/* tensor: tensors as userdata: one pointer, one reference.
 *
 * A live tensor has one userdata, so that identity and table keys work. A tensor that an op has
 * just made is known to nobody else, so its userdata is found wherever it is used. As soon as C
 * keeps a tensor that it may hand out again (a gradient, a parameter), ol_know_tensor puts the
 * userdata on a map with weak values, where ol_push_tensor looks. */
#ifndef OL_BIND_TENSOR_H
#define OL_BIND_TENSOR_H

#include <lua.h>

#include "tensor/tensor.h"

/* Pushes a userdata without a tensor. Fill it, with one reference, through ol_fill_slot: nothing is
 * lost when something raises in between. */
void ol_push_slot(lua_State *L);

/* The same where the metatable of tensors is at hand, at stack index `at`. */
void ol_push_slot_with(lua_State *L, int at);

/* Hands tensor, with the reference that the caller owns, to the slot at index. Does not raise. */
void ol_fill_slot(lua_State *L, int index, ol_tensor *tensor);

/* Pushes the userdata of a tensor, making one (with a reference of its own) where there is none;
 * nil for NULL. Raises when memory is short: whoever calls it must not be the only owner. */
void ol_push_tensor(lua_State *L, ol_tensor *tensor);

/* Puts the userdata at index on the map: for whoever keeps its tensor beyond the call. */
void ol_know_tensor(lua_State *L, int index);

/* Whether the value at index is a userdata of ours, with or without a tensor. */
bool ol_is_tensor(lua_State *L, int index);

/* The tensor at index, borrowed; NULL when there is none. Does not raise. */
ol_tensor *ol_to_tensor(lua_State *L, int index);

/* The same, for argument `arg` of a C function; raises when there is none. */
ol_tensor *ol_check_tensor(lua_State *L, int arg);

/* Pushes the metatable. */
void ol_push_tensor_metatable(lua_State *L);

/* Makes the metatable and the map; once for each Lua state. */
void ol_open_tensor(lua_State *L);

#endif
