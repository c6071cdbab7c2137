/* call: calls ops of the registry from Lua. */
#ifndef OL_BIND_CALL_H
#define OL_BIND_CALL_H

#include <lua.h>

#include "bind/args.h"

/* Applies op to the `count` values at the bottom of the stack and pushes its results; returns how
 * many. */
int ol_call_op(lua_State *L, const ol_op *op, int count);

/* The halves of it, for arguments that do not come from Lua: pushes a slot for each result of op;
 * then applies args->call.op to args, whose tensors stand at args->at, fills the slots from index
 * slot on and leaves them on top. */
void ol_push_slots(lua_State *L, const ol_op *op);
int ol_apply_args(lua_State *L, ol_args *args, int slot);

/* Whether op is a method of tensors: it takes one first, and is neither hidden nor a function only.
 */
bool ol_is_method(const ol_op *op);

/* Adds a function `name` for each op to the table `module`, and for each that takes a tensor first
 * a method to the table `methods` (stack indices). Ops that the documentation hides become
 * functions of the table `hidden`. */
void ol_bind_ops(lua_State *L, int module, int methods, int hidden);

/* Adds the arithmetic metamethods to the table at index. */
void ol_bind_arithmetic(lua_State *L, int index);

#endif
