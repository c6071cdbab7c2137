/* call: from arguments through the tape to results. */
#include "bind/call.h"

#include <lauxlib.h>

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "bind/args.h"
#include "bind/collector.h"
#include "bind/error.h"
#include "bind/history.h"
#include "bind/tensor.h"
#include "ops/registry.h"

/* Pushes the userdata of the argument that is this very tensor; false when there is none. */
static bool push_argument(lua_State *L, const ol_args *args, const ol_tensor *tensor) {
  const ol_param *param = args->call.op->param;
  for (int p = 0; param[p].name; p++) {
    const ol_value *value = &args->call.arg[p];
    if (param[p].kind == OL_TENSOR || param[p].kind == OL_OPERAND) {
      if (value->tensor != tensor || args->numbers >> p & 1) continue;
      lua_pushvalue(L, args->at[p]);
      return true;
    }
    for (int i = 0; param[p].kind == OL_TENSORS && i < value->tensors.count; i++) {
      if (value->tensors.item[i] != tensor) continue;
      lua_rawgeti(L, args->at[p], i + 1);
      return true;
    }
  }
  return false;
}

/* Hands a result to its slot, unless it is one of the arguments and so has a userdata. */
static void take_result(lua_State *L, const ol_args *args, int slot, ol_tensor *result) {
  if (!result) {
    lua_pushnil(L);
    lua_replace(L, slot);
  } else if (result->object.references > 1 && push_argument(L, args, result)) {
    lua_replace(L, slot);
    ol_release(result);
  } else
    ol_fill_slot(L, slot, result);
}

static ol_status apply(ol_error *error, lua_State *L, ol_args *args) {
  ol_status status = ol_make_operands(error, L, args);
  if (status == OL_OK) status = ol_apply(error, args->call.op, &args->call);
  if (status == OL_OK && args->requires_grad && args->call.out[0]) {
    status = ol_set_requires_grad(error, args->call.out[0], true);
    if (status != OL_OK) ol_release(args->call.out[0]);
  }
  ol_drop_operands(args);
  return status;
}

static int outputs_of(const ol_op *op) { return op->outputs ? op->outputs : 1; }

void ol_push_slots(lua_State *L, const ol_op *op) {
  int outputs = outputs_of(op);
  luaL_checkstack(L, outputs, op->name);
  for (int i = 0; i < outputs; i++) ol_push_slot(L);
}

int ol_apply_args(lua_State *L, ol_args *args, int slot) {
  ol_error error;
  int outputs = outputs_of(args->call.op);
  if (ol_watching()) ol_note_place(L);
  ol_check(L, apply(&error, L, args), &error);
  while (outputs > 1 && !args->call.out[outputs - 1]) outputs--; /* max without a dimension */
  for (int i = 0; i < outputs; i++) take_result(L, args, slot + i, args->call.out[i]);
  if (ol_has_history()) ol_inherit(L, args, slot, outputs);
  lua_settop(L, slot + outputs - 1);
  ol_feed_collector(L);
  return outputs;
}

int ol_call_op(lua_State *L, const ol_op *op, int count) {
  ol_args args;
  int slot = lua_gettop(L) + 1;
  ol_push_slots(L, op);
  ol_read_args(L, op, count, &args);
  return ol_apply_args(L, &args, slot);
}

/* Ops are closures with two upvalues, the op and the metatable of tensors: found there it costs
 * less than in the registry. */
enum { OP = 1, METATABLE = 2 };

/* Pushes the slots of the op that is running; a C function has room for them. Returns the op. */
static const ol_op *begin(lua_State *L) {
  const ol_op *op = lua_touserdata(L, lua_upvalueindex(OP));
  for (int i = 0; i < outputs_of(op); i++) ol_push_slot_with(L, lua_upvalueindex(METATABLE));
  return op;
}

static int call_op(lua_State *L) {
  ol_args args;
  int count = lua_gettop(L);
  ol_read_args(L, begin(L), count, &args);
  return ol_apply_args(L, &args, count + 1);
}

/* Metamethods get two operands and nothing else; those of unary operators get theirs twice. */
static int call_operator(lua_State *L, int operands) {
  ol_args args;
  lua_settop(L, operands);
  ol_read_operands(L, begin(L), operands, &args);
  return ol_apply_args(L, &args, operands + 1);
}

static int call_unary(lua_State *L) { return call_operator(L, 1); }

static int call_binary(lua_State *L) { return call_operator(L, 2); }

static void set_op(lua_State *L, int table, const char *name, lua_CFunction call, const ol_op *op) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)op);
  ol_push_tensor_metatable(L);
  lua_pushcclosure(L, call, 2);
  lua_setfield(L, table, name);
}

bool ol_is_method(const ol_op *op) {
  ol_kind kind = op->param[0].kind;
  return op->param[0].name && !(op->flags & (OL_OP_FUNCTION | OL_OP_HIDDEN)) &&
         (kind == OL_TENSOR || kind == OL_OPERAND);
}

void ol_bind_ops(lua_State *L, int module, int methods, int hidden) {
  for (const ol_family *const *family = ol_families; *family; family++)
    for (const ol_op *op = (*family)->ops; op->name; op++) {
      set_op(L, op->flags & OL_OP_HIDDEN ? hidden : module, op->name, call_op, op);
      if (ol_is_method(op)) set_op(L, methods, op->name, call_op, op);
    }
}

void ol_bind_arithmetic(lua_State *L, int index) {
  static const struct {
    const char *event, *op;
    bool unary;
  } events[] = {
    { "__add", "add" },           { "__sub", "sub" },       { "__mul", "mul" },
    { "__div", "div" },           { "__mod", "remainder" }, { "__pow", "pow" },
    { "__idiv", "floor_divide" }, { "__unm", "neg", true },
  };
  for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
    const ol_op *op = ol_op_find(events[i].op);
    if (!op) continue;
    set_op(L, index, events[i].event, events[i].unary ? call_unary : call_binary, op);
  }
}
