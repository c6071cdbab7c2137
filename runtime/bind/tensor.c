/* tensor: the userdata, its metatable, the map from tensors to userdata. */
#include "bind/tensor.h"

#include <lauxlib.h>

#include "bind/collector.h"
#include "bind/error.h"

/* What a userdata holds. Only ours bears the mark: metatables can be exchanged by scripts. */
typedef struct handle {
  ol_tensor *tensor; /* one reference; NULL: not filled yet, or released */
  const char *mark;
  bool closed; /* released for the script, though the reference is held until it is collected */
} handle;

static const char mark = 'm';      /* its address is the mark */
static const char metatable = 't'; /* addresses are keys of the registry */
static const char map = 'u';

static handle *to_handle(lua_State *L, int index) {
  handle *self = lua_touserdata(L, index);
  if (!self || lua_rawlen(L, index) != sizeof *self) return NULL; /* 0 of a light one */
  return self->mark == &mark ? self : NULL;
}

void ol_push_tensor_metatable(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable); }

static void push_handle(lua_State *L) {
  handle *self = lua_newuserdatauv(L, sizeof *self, 1);
  *self = (handle){ .mark = &mark };
}

void ol_push_slot(lua_State *L) {
  push_handle(L);
  ol_push_tensor_metatable(L);
  lua_setmetatable(L, -2);
}

void ol_push_slot_with(lua_State *L, int at) {
  push_handle(L);
  lua_pushvalue(L, at);
  lua_setmetatable(L, -2);
}

void ol_fill_slot(lua_State *L, int index, ol_tensor *tensor) {
  handle *self = lua_touserdata(L, index);
  self->tensor = tensor;
  ol_count_bytes(tensor);
}

void ol_know_tensor(lua_State *L, int index) {
  ol_tensor *tensor = ol_to_tensor(L, index);
  index = lua_absindex(L, index);
  if (!tensor) return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &map);
  lua_pushvalue(L, index);
  lua_rawsetp(L, -2, tensor);
  lua_pop(L, 1);
}

void ol_push_tensor(lua_State *L, ol_tensor *tensor) {
  luaL_checkstack(L, 4, "tensor");
  if (!tensor) {
    lua_pushnil(L);
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &map);
  lua_rawgetp(L, -1, tensor);
  lua_remove(L, -2);
  if (ol_to_tensor(L, -1) == tensor) return;
  lua_pop(L, 1);
  ol_push_slot(L);
  ol_fill_slot(L, -1, ol_retain(tensor));
  ol_know_tensor(L, -1);
}

bool ol_is_tensor(lua_State *L, int index) { return to_handle(L, index) != NULL; }

ol_tensor *ol_to_tensor(lua_State *L, int index) {
  handle *self = to_handle(L, index);
  return self && !self->closed ? self->tensor : NULL;
}

ol_tensor *ol_check_tensor(lua_State *L, int arg) {
  ol_tensor *tensor = ol_to_tensor(L, arg);
  if (!tensor) {
    const char *got = ol_type_text(L, arg);
    luaL_argerror(L, arg, lua_pushfstring(L, "tensor expected, got %s", got));
  }
  return tensor;
}

/* __gc: twice is harmless, and so is anything else as the argument. */
static int release(lua_State *L) {
  handle *self = to_handle(L, 1);
  if (!self) return 0;
  ol_tensor *tensor = self->tensor;
  self->tensor = NULL;
  ol_release(tensor);
  return 0;
}

/* __close. The collector runs finalizers of the script (in which lua_gc refuses all, since
 * Lua 5.4.4) in the middle of functions of ours that allocate; what those work on must stay. */
static int close_tensor(lua_State *L) {
  handle *self = to_handle(L, 1);
  if (!self || lua_gc(L, LUA_GCISRUNNING) >= 0) return release(L);
  self->closed = true;
  return 0;
}

static void make_map(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &map);
}

void ol_open_tensor(lua_State *L) {
  make_map(L);
  lua_newtable(L);
  lua_pushcfunction(L, release);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, close_tensor);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "tensor"); /* as Lua's own messages call it */
  lua_setfield(L, -2, "__name");
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable);
}
