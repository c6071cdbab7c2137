/* scratch: userdata that release what they hold. */
#include "bind/scratch.h"

#include <lauxlib.h>
#include <string.h>

/* Lua aligns for its own values. */
typedef union value {
  lua_Number number;
  lua_Integer integer;
  void *address;
} value;

typedef struct body {
  const ol_scratch *kind;
  value held[];
} body;

void *ol_to_scratch(lua_State *L, int index, const ol_scratch *kind) {
  body *self = lua_touserdata(L, index);
  if (!self || lua_rawlen(L, index) != sizeof *self + kind->size) return NULL; /* 0: a light one */
  return self->kind == kind ? self->held : NULL;
}

void *ol_check_scratch(lua_State *L, int arg, const ol_scratch *kind) {
  void *held = ol_to_scratch(L, arg, kind);
  if (!held) luaL_typeerror(L, arg, kind->name);
  return held;
}

/* __gc and __close, whatever they are called with. */
static int release(lua_State *L) {
  const ol_scratch *kind = lua_touserdata(L, lua_upvalueindex(1));
  void *held = ol_to_scratch(L, 1, kind);
  if (held) kind->drop(held);
  return 0;
}

static void set_release(lua_State *L, const ol_scratch *kind, const char *event) {
  lua_pushlightuserdata(L, (void *)kind);
  lua_pushcclosure(L, release, 1);
  lua_setfield(L, -2, event);
}

void ol_push_scratch_metatable(lua_State *L, const ol_scratch *kind) {
  if (!luaL_newmetatable(L, kind->name)) return;
  set_release(L, kind, "__gc");
  set_release(L, kind, "__close");
}

void *ol_push_scratch(lua_State *L, const ol_scratch *kind, int user_values) {
  body *self = lua_newuserdatauv(L, sizeof *self + kind->size, user_values);
  memset(self, 0, sizeof *self + kind->size);
  self->kind = kind;
  ol_push_scratch_metatable(L, kind);
  lua_setmetatable(L, -2);
  return self->held;
}
