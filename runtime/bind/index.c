/* index: keys that are no names. */
#include "bind/index.h"

#include <lauxlib.h>

#include "bind/call.h"
#include "bind/error.h"
#include "bind/tensor.h"
#include "ops/registry.h"

int ol_index_get(lua_State *L, ol_tensor *self) {
  (void)self;
  lua_settop(L, 2);
  lua_pushinteger(L, 1);
  lua_insert(L, 2);
  return ol_call_op(L, ol_op_find("select"), 3);
}

int ol_index_set(lua_State *L, ol_tensor *self) {
  (void)self;
  return luaL_error(L, "assignment to a part: not there");
}
