/* core: puts the module together. */
#include "bind/core.h"

#include <lauxlib.h>

#include "bind/build.h"
#include "bind/call.h"
#include "bind/error.h"
#include "bind/grad.h"
#include "bind/history.h"
#include "bind/index.h"
#include "bind/native.h"
#include "bind/optim.h"
#include "bind/print.h"
#include "bind/property.h"
#include "bind/registry.h"
#include "bind/tensor.h"

/* Fills the metatable of tensors; the methods are at index `methods`. */
static void open_metatable(lua_State *L, int methods) {
  static const luaL_Reg events[] = {
    { "__newindex", ol_tensor_newindex },
    { "__len", ol_tensor_len },
    { "__lt", ol_tensor_less },
    { "__le", ol_tensor_less_equal },
    { "__tostring", ol_tensor_tostring },
    { "__concat", ol_tensor_concat },
    { NULL, NULL },
  };
  ol_push_tensor_metatable(L);
  luaL_setfuncs(L, events, 0);
  lua_pushvalue(L, methods);
  lua_pushcclosure(L, ol_tensor_index, 1);
  lua_setfield(L, -2, "__index");
  ol_push_tensor_names(L, methods);
  lua_setfield(L, -2, "__names");
  ol_bind_arithmetic(L, lua_gettop(L));
  lua_pop(L, 1);
}

int luaopen_optlua_core(lua_State *L) {
  luaL_checkversion(L);
  ol_open_error(L);
  ol_open_history(L);
  ol_open_tensor(L);
  ol_open_hook(L);
  ol_open_func(L);
  ol_open_index();
  lua_settop(L, 0);
  lua_newtable(L); /* 1: the module */
  lua_newtable(L); /* 2: the methods of tensors */
  lua_newtable(L); /* 3: what only the library uses */
  ol_bind_ops(L, 1, 2, 3);
  ol_bind_natives(L, 1, 2, 3);
  open_metatable(L, 2);
  ol_open_build(L, 1);
  ol_open_optim(L);
  lua_setfield(L, 3, "optim");
  lua_pushvalue(L, 3);
  lua_setfield(L, 1, "hidden");
  lua_settop(L, 1);
  lua_pushcfunction(L, ol_registry);
  lua_setfield(L, 1, "registry");
  return 1;
}
