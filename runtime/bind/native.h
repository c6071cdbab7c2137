/* native: functions and methods that are not ops: they look at tensors, make them from Lua values,
 * or give several. Their descriptors are those of ops, so that arguments, documentation and
 * examples work alike. */
#ifndef OL_BIND_NATIVE_H
#define OL_BIND_NATIVE_H

#include <lua.h>

#include "bind/args.h"

typedef struct ol_native {
  ol_op op; /* name, doc, example, param, flags: OL_OP_FUNCTION is no method, OL_OP_HIDDEN hidden */
  lua_CFunction call;
  bool method_only; /* not a function of the module */
} ol_native;

/* A native for our own Lua: in optlua.core.hidden, not in the documentation. */
#define OL_HIDDEN(text, fn)                                                                        \
  { .op = { .name = (text), .flags = OL_OP_HIDDEN | OL_OP_FUNCTION }, .call = (fn) }

/* A file's natives, as a family. */
typedef struct ol_natives {
  const char *name, *doc;
  const ol_native *list; /* ends with a name of NULL */
} ol_natives;

/* Every list of natives, in the order of the documentation; ends with NULL. */
extern const ol_natives *const ol_all_natives[];

/* Reads the `count` values at the bottom of the stack as the arguments of the native that is
 * running, by its own descriptor. */
void ol_native_args(lua_State *L, int count, ol_args *args);

/* Adds all natives to the tables at these stack indices, as ol_bind_ops does. */
void ol_bind_natives(lua_State *L, int module, int methods, int hidden);

#endif
