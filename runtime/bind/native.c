/* native: the list of natives, and binding them. */
#include "bind/native.h"

extern const ol_natives ol_inspect_natives, ol_convert_natives, ol_parts_natives, ol_grad_natives,
    ol_print_natives, ol_host_natives;

const ol_natives *const ol_all_natives[] = {
  &ol_convert_natives,
  &ol_inspect_natives,
  &ol_parts_natives,
  &ol_grad_natives,
  &ol_print_natives,
  &ol_host_natives,
  NULL,
};

void ol_native_args(lua_State *L, int count, ol_args *args) {
  ol_read_args(L, lua_touserdata(L, lua_upvalueindex(1)), count, args);
}

static void set(lua_State *L, int table, const ol_native *native) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)&native->op);
  lua_pushcclosure(L, native->call, 1);
  lua_setfield(L, table, native->op.name);
}

void ol_bind_natives(lua_State *L, int module, int methods, int hidden) {
  for (const ol_natives *const *natives = ol_all_natives; *natives; natives++)
    for (const ol_native *native = (*natives)->list; native->op.name; native++) {
      if (native->op.flags & OL_OP_HIDDEN)
        set(L, hidden, native);
      else if (!native->method_only)
        set(L, module, native);
      if (!(native->op.flags & (OL_OP_HIDDEN | OL_OP_FUNCTION))) set(L, methods, native);
    }
}
