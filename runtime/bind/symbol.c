/* symbol: metatables and operations. */
#include "bind/symbol.h"

#include <lauxlib.h>
#include <string.h>

#include "bind/error.h"

static const char tracer_key = 't', symbol_key = 's', states_key = 'u'; /* addresses, as keys */

/* Upvalues of every function here. */
#define TRACER lua_upvalueindex(1)
#define SYMBOL lua_upvalueindex(2) /* the metatable of symbols */
#define OP     lua_upvalueindex(3) /* of operations: an ol_rule_op */

void ol_push_tracer(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &tracer_key); }

void ol_tracer_ready(lua_State *L, ol_tracer *tracer) {
  ol_error error;
  if (!tracer->graph) ol_check(L, ol_graph_new(&error, &tracer->graph), &error);
}

/* __gc: scripts can call it with anything. A state has several where the library is loaded anew. */
static int free_tracer(lua_State *L) {
  ol_tracer *tracer = lua_touserdata(L, 1);
  if (!tracer || lua_rawlen(L, 1) != sizeof *tracer || tracer->mark != &tracer_key) return 0;
  if (tracer->running) return 0;
  ol_graph_free(tracer->graph);
  *tracer = (ol_tracer){ .mark = &tracer_key };
  return 0;
}

/* Symbols. */

/* What a userdata holds. Only ours bears the mark, which is quicker to look at than a metatable. */
typedef struct handle {
  const char *mark;
  ol_symbol symbol;
} handle;

/* Pushes a symbol that has no metatable yet. */
static void push_bare(lua_State *L, ol_symbol symbol) {
  *(handle *)lua_newuserdatauv(L, sizeof(handle), 0) = (handle){ &symbol_key, symbol };
}

static void push(lua_State *L, ol_symbol symbol) {
  push_bare(L, symbol);
  lua_pushvalue(L, SYMBOL);
  lua_setmetatable(L, -2);
}

bool ol_to_symbol(lua_State *L, int index, ol_symbol *out) {
  const handle *self = lua_touserdata(L, index);
  if (!self || lua_rawlen(L, index) != sizeof *self) return false; /* 0: a light one */
  if (self->mark != &symbol_key) return false;
  *out = self->symbol;
  return true;
}

void ol_push_operand(lua_State *L, int tracer, int operand) {
  ol_error error;
  ol_symbol symbol;
  ol_graph *graph = ((ol_tracer *)lua_touserdata(L, tracer))->graph;
  ol_check(L, ol_graph_read(&error, graph, operand, &symbol), &error);
  push_bare(L, symbol);
  lua_getiuservalue(L, tracer, OL_TRACER_SYMBOLS);
  lua_setmetatable(L, -2);
}

static ol_tracer *running(lua_State *L) {
  ol_tracer *tracer = lua_touserdata(L, TRACER);
  if (!tracer->running) luaL_error(L, "a symbol is used outside of the rule that it was made for");
  return tracer;
}

/* Reads a number or a symbol as an input of an operation. */
static ol_symbol check_input(lua_State *L, ol_tracer *tracer, int arg, const char *op) {
  ol_error error;
  ol_symbol symbol;
  if (ol_to_symbol(L, arg, &symbol)) return symbol;
  if (lua_type(L, arg) != LUA_TNUMBER)
    return luaL_error(L, "optim.%s: operand %d: a symbol or a number was expected, got %s", op, arg,
                      ol_type_text(L, arg));
  double value = lua_tonumber(L, arg);
  if (value != value) luaL_error(L, "optim.%s: operand %d is NaN", op, arg);
  ol_check(L, ol_graph_number(&error, tracer->graph, value, &symbol), &error);
  return symbol;
}

/* Operations. */

static ol_rule_op this_op(lua_State *L) { return (ol_rule_op)lua_tointeger(L, OP); }

static bool all_numbers(lua_State *L, int count) {
  for (int i = 1; i <= count; i++)
    if (lua_type(L, i) != LUA_TNUMBER) return false;
  return true;
}

static int apply_symbols(lua_State *L, ol_rule_op op, int count) {
  ol_error error;
  ol_symbol in[3], out;
  ol_tracer *tracer = running(L);
  for (int i = 0; i < count; i++) in[i] = check_input(L, tracer, i + 1, ol_rule_op_table[op].name);
  ol_check(L, ol_graph_apply(&error, tracer->graph, op, in, &out), &error);
  push(L, out);
  return 1;
}

static int apply(lua_State *L) {
  ol_rule_op op = this_op(L);
  int count = ol_rule_op_table[op].inputs, given = lua_gettop(L);
  if (given != count)
    return luaL_error(L, "optim.%s: %d operand%s expected, got %d", ol_rule_op_table[op].name,
                      count, count == 1 ? "" : "s", given);
  if (!all_numbers(L, count) || !ol_rule_op_is_elementwise(op)) return apply_symbols(L, op, count);
  double in[3];
  for (int i = 0; i < count; i++) in[i] = lua_tonumber(L, i + 1);
  lua_pushnumber(L, ol_rule_op_number(op, in));
  return 1;
}

/* Metamethods: the operands are two, whatever the operation takes. */
static int add(lua_State *L) { return apply_symbols(L, OL_RULE_ADD, 2); }
static int subtract(lua_State *L) { return apply_symbols(L, OL_RULE_SUB, 2); }
static int multiply(lua_State *L) { return apply_symbols(L, OL_RULE_MUL, 2); }
static int divide(lua_State *L) { return apply_symbols(L, OL_RULE_DIV, 2); }
static int power(lua_State *L) { return apply_symbols(L, OL_RULE_POW, 2); }
static int negate(lua_State *L) { return apply_symbols(L, OL_RULE_NEG, 1); }

/* A dimension, typed from 1. */
static int64_t check_dim(lua_State *L, int arg, const char *op) {
  int whole;
  lua_Integer dim = lua_tointegerx(L, arg, &whole);
  if (!whole || dim == 0)
    luaL_error(L, "optim.%s: the dimension is an integer from 1, or from the end (-1), not %s", op,
               ol_value_text(L, arg));
  return dim > 0 ? dim - 1 : dim;
}

static int reduce(lua_State *L) {
  ol_error error;
  ol_symbol out;
  ol_rule_op op = this_op(L);
  const char *name = ol_rule_op_table[op].name;
  if (lua_gettop(L) > 2) return luaL_error(L, "optim.%s: takes a symbol and a dimension", name);
  bool whole = lua_isnoneornil(L, 2);
  int64_t dim = whole ? 0 : check_dim(L, 2, name);
  ol_tracer *tracer = running(L);
  ol_symbol in = check_input(L, tracer, 1, name);
  ol_check(L, ol_graph_reduce(&error, tracer->graph, op, in, whole ? NULL : &dim, &out), &error);
  push(L, out);
  return 1;
}

/* Raises for the key at 2, which is not in a table from names to small integers. */
static _Noreturn void raise_unknown(lua_State *L, int table, const char *what, const char *kind) {
  const char *by_number[OL_GRAPH_OPERANDS] = { NULL }, *names[OL_GRAPH_OPERANDS];
  int count = 0;
  const char *name = luaL_tolstring(L, 2, NULL);
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
    by_number[lua_tointeger(L, -1) % OL_GRAPH_OPERANDS] = lua_tostring(L, -2);
  for (int i = 0; i < OL_GRAPH_OPERANDS; i++)
    if (by_number[i]) names[count++] = by_number[i];
  ol_raise_unknown(L, what, kind, name, names, count);
}

static int group_add(lua_State *L) {
  ol_error error;
  ol_tracer *tracer = running(L);
  lua_settop(L, 2);
  lua_insert(L, 1); /* the name is at 2, where raise_unknown looks */
  if (lua_getiuservalue(L, TRACER, OL_TRACER_NUMBERS) != LUA_TTABLE)
    return luaL_error(L, "optim.group_add: the class declares no numbers of the group");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 3) != LUA_TNUMBER)
    raise_unknown(L, 3, "optim.group_add", "number of the group");
  int slot = (int)lua_tointeger(L, -1);
  ol_symbol value = check_input(L, tracer, 1, "group_add");
  ol_check(L, ol_graph_add_total(&error, tracer->graph, slot, value), &error);
  return 0;
}

/* Fields of symbols. */

static void push_shape(lua_State *L, const ol_shape *shape) {
  lua_createtable(L, shape->ndim, 0);
  for (int d = 0; d < shape->ndim; d++) {
    lua_pushinteger(L, shape->size[d]);
    lua_rawseti(L, -2, d + 1);
  }
}

static int index_symbol(lua_State *L) {
  ol_error error;
  ol_tracer *tracer = running(L);
  const ol_shape *shape, scalar = { .ndim = 0 };
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  ol_symbol symbol;
  if (!ol_to_symbol(L, 1, &symbol)) return luaL_error(L, "a symbol expected");
  ol_check(L, ol_graph_shape_of(&error, tracer->graph, symbol, &shape), &error);
  if (!shape) shape = &scalar;
  tracer->by_shape = true;
  if (strcmp(key, "shape") == 0)
    push_shape(L, shape);
  else if (strcmp(key, "ndim") == 0)
    lua_pushinteger(L, shape->ndim);
  else if (strcmp(key, "numel") == 0)
    lua_pushinteger(L, ol_shape_numel(shape));
  else
    return luaL_error(L,
                      "a symbol has no field '%s'; it has shape, ndim, numel; operations are "
                      "functions, optim.sqrt(x), and have no methods",
                      luaL_tolstring(L, 2, NULL));
  return 1;
}

static int refuse_assignment(lua_State *L) {
  return luaL_error(L, "a symbol has no fields to assign to; a rule assigns to s.NAME");
}

static int refuse_order(lua_State *L) {
  return luaL_error(L,
                    "symbols have no order while a rule is run: optim.lt, le, gt, ge give 1 or 0 "
                    "for each element, optim.where(condition, x, y) chooses");
}

static int refuse_equality(lua_State *L) {
  return luaL_error(L,
                    "symbols cannot be compared while a rule is run: optim.eq, ne give 1 or 0 for "
                    "each element, optim.where(condition, x, y) chooses");
}

/* States. */

/* The operand that the key at 2 names. */
static int check_state(lua_State *L, const ol_tracer *tracer) {
  if (tracer->states != lua_touserdata(L, 1))
    luaL_error(L, "the states of a rule are used outside of the call that they were given to");
  lua_getiuservalue(L, 1, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, -2) != LUA_TNUMBER) {
    lua_pop(L, 1);
    raise_unknown(L, lua_gettop(L), "a rule", "state");
  }
  return (int)lua_tointeger(L, -1);
}

static int index_states(lua_State *L) {
  ol_error error;
  ol_symbol symbol;
  ol_tracer *tracer = running(L);
  int operand = check_state(L, tracer);
  ol_check(L, ol_graph_read(&error, tracer->graph, operand, &symbol), &error);
  push(L, symbol);
  return 1;
}

static int assign_state(lua_State *L) {
  ol_error error;
  ol_tracer *tracer = running(L);
  int operand = check_state(L, tracer);
  lua_settop(L, 3);
  bool number = lua_type(L, 3) == LUA_TNUMBER;
  ol_symbol symbol;
  if (!number && !ol_to_symbol(L, 3, &symbol))
    return luaL_error(L, "s.%s: a symbol or a number was expected, got %s", lua_tostring(L, 2),
                      ol_type_text(L, 3));
  if (number && lua_tonumber(L, 3) != lua_tonumber(L, 3))
    return luaL_error(L, "s.%s: NaN is assigned", lua_tostring(L, 2));
  if (!number && !ol_graph_owns(tracer->graph, symbol))
    return luaL_error(L, "s.%s: a symbol of an earlier call of a rule is assigned",
                      lua_tostring(L, 2));
  ol_symbol value = check_input(L, tracer, 3, lua_tostring(L, 2));
  if (ol_graph_store(&error, tracer->graph, operand, value) != OL_OK)
    return luaL_error(L, "s.%s: %s", lua_tostring(L, 2), error.message);
  return 0;
}

void ol_push_states(lua_State *L, int names) {
  names = lua_absindex(L, names);
  lua_newuserdatauv(L, 0, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &states_key);
  lua_setmetatable(L, -2);
  lua_newtable(L);
  int count = (int)lua_rawlen(L, names);
  for (int i = 1; i <= count; i++) {
    lua_rawgeti(L, names, i);
    lua_pushinteger(L, 1 + i);
    lua_rawset(L, -3);
  }
  lua_setiuservalue(L, -2, 1);
}

/* Opening. At this point the stack holds: the module, the tracer, the metatable of symbols. */

static void set(lua_State *L, int table, const char *name, lua_CFunction function, int op) {
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_pushinteger(L, op);
  lua_pushcclosure(L, function, 3);
  lua_setfield(L, table, name);
}

static void set_operations(lua_State *L) {
  for (int op = OL_RULE_ADD; op <= OL_RULE_T; op++)
    set(L, 1, ol_rule_op_table[op].name, ol_rule_op_is_reduction(op) ? reduce : apply, op);
  set(L, 1, "group_add", group_add, 0);
}

static void set_metamethods(lua_State *L) {
  static const luaL_Reg list[] = {
    { "__add", add },
    { "__sub", subtract },
    { "__mul", multiply },
    { "__div", divide },
    { "__pow", power },
    { "__unm", negate },
    { "__index", index_symbol },
    { "__newindex", refuse_assignment },
    { "__lt", refuse_order },
    { "__le", refuse_order },
    { "__eq", refuse_equality },
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) set(L, 3, list[i].name, list[i].func, 0);
}

static void make_metatable(lua_State *L, const char *name) {
  lua_newtable(L);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__name");
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
}

static void make_tracer(lua_State *L) {
  *(ol_tracer *)lua_newuserdatauv(L, sizeof(ol_tracer), 2) = (ol_tracer){ .mark = &tracer_key };
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, free_tracer);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &tracer_key);
}

static int open_symbol(lua_State *L) {
  make_tracer(L);
  make_metatable(L, "symbol");
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 2, OL_TRACER_SYMBOLS);
  set_operations(L);
  set_metamethods(L);
  make_metatable(L, "states");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &states_key);
  set(L, 4, "__index", index_states, 0);
  set(L, 4, "__newindex", assign_state, 0);
  return 0;
}

void ol_open_symbol(lua_State *L) {
  lua_pushcfunction(L, open_symbol);
  lua_pushvalue(L, -2);
  lua_call(L, 1, 0);
}
