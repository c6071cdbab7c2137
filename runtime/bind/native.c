/* native: the list of natives, and binding them. */
#include "bind/native.h"

#include "bind/call.h"

/* To add a file of natives, add it here. */
#define NATIVES(X)                                                                                 \
  X(convert)                                                                                       \
  X(inspect)                                                                                       \
  X(parts)                                                                                         \
  X(grad)                                                                                          \
  X(mode)                                                                                          \
  X(hook)                                                                                          \
  X(func)                                                                                          \
  X(print)                                                                                         \
  X(generator)                                                                                     \
  X(build)                                                                                         \
  X(npy)                                                                                           \
  X(safetensors)                                                                                   \
  X(files)                                                                                         \
  X(csv)                                                                                           \
  X(disk)                                                                                          \
  X(json)                                                                                          \
  X(events)                                                                                        \
  X(image)                                                                                         \
  X(tokens)                                                                                        \
  X(error)                                                                                         \
  X(porting)                                                                                       \
  X(uninterrupted)                                                                                 \
  X(host)

#define DECLARE(name) extern const ol_natives ol_##name##_natives;
NATIVES(DECLARE)

#define ENTRY(name) &ol_##name##_natives,
const ol_natives *const ol_all_natives[] = { NATIVES(ENTRY) NULL };

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
      if (ol_is_method(&native->op)) set(L, methods, native);
    }
}
