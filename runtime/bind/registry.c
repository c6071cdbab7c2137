/* registry: descriptors as tables. */
#include "bind/registry.h"

#include <lauxlib.h>

#include "bind/call.h"
#include "bind/native.h"
#include "ops/registry.h"

static const char *kind_name(ol_kind kind) {
  static const char *const names[] = {
    [OL_TENSOR] = "tensor", [OL_OPERAND] = "operand", [OL_TENSORS] = "tensors",
    [OL_NUMBER] = "number", [OL_DATA] = "data",       [OL_INDEX] = "index",
    [OL_SIZES] = "sizes",   [OL_DIMS] = "dims",       [OL_FLAG] = "flag",
    [OL_TYPE] = "dtype",    [OL_CHOICE] = "choice",
  };
  return kind == OL_ANY ? "any" : names[kind];
}

/* Sets a field of the table on top of the stack, unless text is NULL. */
static void set_text(lua_State *L, const char *field, const char *text) {
  if (!text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

static void set_flag(lua_State *L, const char *field, bool flag) {
  lua_pushboolean(L, flag);
  lua_setfield(L, -2, field);
}

static void push_param(lua_State *L, const ol_param *param) {
  lua_createtable(L, 0, 6);
  set_text(L, "name", param->name);
  set_text(L, "kind", kind_name(param->kind));
  set_text(L, "choices", param->choices);
  set_text(L, "doc", param->doc);
  set_flag(L, "optional", param->optional);
  if (!param->optional) return;
  lua_pushnumber(L, param->preset);
  lua_setfield(L, -2, "preset");
}

static void push_op(lua_State *L, const ol_op *op) {
  lua_createtable(L, 0, 14);
  set_text(L, "name", op->name);
  set_text(L, "doc", op->doc);
  set_text(L, "example", op->example);
  set_text(L, "samples", op->samples);
  lua_newtable(L);
  for (int p = 0; op->param[p].name; p++) {
    push_param(L, &op->param[p]);
    lua_rawseti(L, -2, p + 1);
  }
  lua_setfield(L, -2, "params");
  lua_pushinteger(L, op->outputs ? op->outputs : 1);
  lua_setfield(L, -2, "outputs");
  set_flag(L, "hidden", op->flags & OL_OP_HIDDEN);
  set_flag(L, "random", op->flags & OL_OP_RANDOM);
  set_flag(L, "view", op->flags & OL_OP_VIEW);
  set_flag(L, "inplace", op->flags & OL_OP_INPLACE);
  set_flag(L, "differentiable", op->backward != NULL);
}

/* Adds the op on top of the stack to the list below it. */
static void append(lua_State *L, bool method, bool module, bool native) {
  set_flag(L, "method", method);
  set_flag(L, "module", module);
  set_flag(L, "native", native);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* Pushes a family without ops, and its empty list of ops. */
static void begin_family(lua_State *L, const char *name, const char *doc) {
  lua_createtable(L, 0, 3);
  set_text(L, "name", name);
  set_text(L, "doc", doc);
  lua_newtable(L);
}

static void end_family(lua_State *L) {
  lua_setfield(L, -2, "ops");
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

int ol_registry(lua_State *L) {
  lua_newtable(L);
  for (const ol_family *const *family = ol_families; *family; family++) {
    begin_family(L, (*family)->name, (*family)->doc);
    for (const ol_op *op = (*family)->ops; op->name; op++) {
      push_op(L, op);
      append(L, ol_is_method(op), !(op->flags & OL_OP_HIDDEN), false);
    }
    end_family(L);
  }
  for (const ol_natives *const *natives = ol_all_natives; *natives; natives++) {
    begin_family(L, (*natives)->name, (*natives)->doc);
    for (const ol_native *native = (*natives)->list; native->op.name; native++) {
      bool hidden = native->op.flags & OL_OP_HIDDEN;
      push_op(L, &native->op);
      append(L, ol_is_method(&native->op), !hidden && !native->method_only, true);
    }
    end_family(L);
  }
  return 1;
}
