/* optim_step: the transaction of a step, one at a time in a Lua state.
 *
 *   transact(function, …)      calls the function; what it began and did not commit is undone
 *   collect(group)             within it, for each group …
 *   trace(group, rule, …)      … runs the rule on symbols
 *   prepare(…), commit()
 *
 * `written` is a table: of a rule that the library made around a script's, that one, for messages.
 *
 * The functions of the script cannot yield out of it. */
#include <lauxlib.h>
#include <math.h>

#include "base/memory.h"
#include "bind/error.h"
#include "bind/optim.h"
#include "bind/symbol.h"
#include "optim/step.h"

/* Their addresses are keys of the registry. */
static const char engine_key = 'e', written_key = 'w';

typedef struct engine {
  const char *mark; /* &engine_key: scripts can call what they find with anything */
  ol_step *step;    /* made when it is first needed */
  ol_tracer *tracer;
  bool active;
} engine;

/* Upvalues of the functions here. */
#define ENGINE ((engine *)lua_touserdata(L, lua_upvalueindex(1)))
#define TRACER lua_upvalueindex(2)

/* Arguments of trace, and what it keeps behind them. */
enum { GROUP = 1, UPDATE, CACHE };

/* The engine at index 1, or NULL. A state has several where the library is loaded anew. */
static engine *to_engine(lua_State *L) {
  engine *e = lua_touserdata(L, 1);
  if (!e || lua_rawlen(L, 1) != sizeof *e) return NULL;
  return e->mark == &engine_key ? e : NULL;
}

static int free_engine(lua_State *L) {
  engine *e = to_engine(L);
  if (!e || e->active) return 0;
  ol_step_free(e->step);
  e->step = NULL;
  return 0;
}

static void refuse_in_step(lua_State *L, const engine *e, const char *what) {
  if (e->active) ol_throw(L, "%s is not possible while an optimizer takes a step", what);
}

void ol_refuse_in_step(lua_State *L, const char *what) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &engine_key);
  refuse_in_step(L, lua_touserdata(L, -1), what);
  lua_pop(L, 1);
}

ol_step **ol_check_step(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &engine_key);
  engine *e = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!e->active) luaL_error(L, "there is no transaction");
  return &e->step;
}

static void end_transaction(engine *e) {
  e->active = e->tracer->running = false;
  ol_step_abort(e->step);
}

/* __close of the engine. */
static int close_engine(lua_State *L) {
  engine *e = to_engine(L);
  if (e && e->active) end_transaction(e);
  return 0;
}

/* Calls without protection: a traceback shows where the script failed. */
static int call_plain(lua_State *L, engine *e) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_toclose(L, 1);
  e->active = true;
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

/* A coroutine that fails closes nothing by itself. */
static int call_protected(lua_State *L, engine *e) {
  e->active = true;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  end_transaction(e);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* transact(function, …): the function's results. */
static int transact(lua_State *L) {
  ol_error error;
  engine *e = ENGINE;
  refuse_in_step(L, e, "a step");
  if (!e->step) ol_check(L, ol_step_new(&error, &e->step), &error);
  ol_tracer_ready(L, e->tracer);
  bool is_main = lua_pushthread(L);
  lua_pop(L, 1);
  return is_main ? call_plain(L, e) : call_protected(L, e);
}

static engine *active(lua_State *L) {
  engine *e = ENGINE;
  if (!e->active) luaL_error(L, "there is no transaction");
  return e;
}

/* collect(group): how many of its parameters have a gradient. */
static int collect(lua_State *L) {
  ol_error error;
  int64_t count;
  engine *e = active(L);
  ol_check(L, ol_step_collect(&error, e->step, ol_check_group(L, 1), &count), &error);
  lua_pushinteger(L, count);
  return 1;
}

/* collect_awaited(group, visit): how many of its parameters the walk of a backward will bring a
 * gradient. */
static int collect_awaited(lua_State *L) {
  ol_error error;
  int64_t count;
  engine *e = active(L);
  uint64_t visit = (uint64_t)luaL_checkinteger(L, 2);
  ol_check(L, ol_step_collect_awaited(&error, e->step, ol_check_group(L, 1), visit, &count),
           &error);
  lua_pushinteger(L, count);
  return 1;
}

/* collect_updated(group): how many of its parameters were updated; what follows is no update, and
 * its rule is called without the gradient. */
static int collect_updated(lua_State *L) {
  ol_error error;
  int64_t count;
  engine *e = active(L);
  ol_check(L, ol_step_collect_updated(&error, e->step, ol_check_group(L, 1), &count), &error);
  lua_pushinteger(L, count);
  return 1;
}

/* Raises the message on top of the stack, with what was being done. */
static _Noreturn void raise_in(lua_State *L, const engine *e, const ol_member *member) {
  if (lua_type(L, -1) == LUA_TSTRING) {
    lua_getiuservalue(L, GROUP, OL_GROUP_LABEL);
    lua_pushfstring(L, "%s (%s, parameter '%s', update %I)", lua_tostring(L, -2),
                    lua_tostring(L, -1), member->name,
                    (LUAI_UACINT)member->steps + e->step->updates);
  }
  lua_error(L);
  __builtin_unreachable();
}

/* Pushes the rule as the script wrote it. */
static void push_written(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &written_key);
  lua_pushvalue(L, UPDATE);
  for (;;) {
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNIL) break;
    lua_replace(L, -2);
  }
  lua_pop(L, 1);
  lua_replace(L, -2);
}

/* The same for a result of the rule that is wrong: at the line where the rule begins. */
static _Noreturn void raise_result(lua_State *L, const engine *e, const ol_member *member,
                                   const char *message) {
  lua_Debug where;
  push_written(L);
  lua_getinfo(L, ">S", &where);
  lua_pushfstring(L, "%s:%d: %s", where.short_src, where.linedefined, message);
  raise_in(L, e, member);
}

/* Calls the rule on symbols; its result stays on the stack. */
static void call_rule(lua_State *L, engine *e, const ol_member *member) {
  ol_tracer *tracer = e->tracer;
  bool updates = e->step->updates;
  lua_getiuservalue(L, GROUP, OL_GROUP_VALUES);
  lua_pushliteral(L, "step");
  lua_pushinteger(L, member->steps + updates);
  lua_rawset(L, -3);
  tracer->by_shape = false;
  tracer->running = true;
  lua_pushvalue(L, UPDATE);
  ol_push_operand(L, TRACER, 0);
  if (updates) ol_push_operand(L, TRACER, 1);
  lua_getiuservalue(L, GROUP, OL_GROUP_STATES);
  lua_rawgeti(L, -1, member->layout + 1);
  lua_replace(L, -2);
  tracer->states = lua_touserdata(L, -1);
  lua_getiuservalue(L, GROUP, OL_GROUP_H);
  lua_getiuservalue(L, GROUP, OL_GROUP_NUMBERS);
  int status = lua_pcall(L, 4 + updates, 2, 0);
  tracer->running = false;
  if (status != LUA_OK) raise_in(L, e, member);
}

static ol_symbol check_result(lua_State *L, const engine *e, const ol_member *member) {
  ol_symbol result;
  if (!lua_isnil(L, -1)) raise_result(L, e, member, "a rule returns the new p and nothing else");
  if (!ol_to_symbol(L, -2, &result)) {
    const char *got = ol_type_text(L, -2);
    raise_result(L, e, member,
                 lua_pushfstring(L, "a rule returns the new p, a symbol; got %s", got));
  }
  lua_pop(L, 2);
  return result;
}

/* trace(group, update): runs a rule for the members that were collected. Gives whether the
 * structure of the rule never repeats. */
static int trace(lua_State *L) {
  ol_error error;
  const ol_member *member;
  engine *e = active(L);
  luaL_argcheck(L, ol_check_group(L, GROUP) == e->step->group, GROUP, "not the one collected");
  lua_settop(L, UPDATE);
  lua_getiuservalue(L, GROUP, OL_GROUP_CACHE);
  ol_program_cache *cache = ol_check_cache(L, CACHE);
  lua_getiuservalue(L, GROUP, OL_GROUP_SLOTS);
  lua_setiuservalue(L, TRACER, OL_TRACER_NUMBERS);
  for (;;) {
    ol_status status = ol_step_next(&error, e->step, e->tracer->graph, &member);
    if (status != OL_OK) raise_result(L, e, member, error.message);
    if (!member) break;
    call_rule(L, e, member);
    ol_symbol result = check_result(L, e, member);
    status = ol_graph_store(&error, e->tracer->graph, 0, result);
    if (status != OL_OK) raise_result(L, e, member, error.message);
    status = ol_step_record(&error, e->step, cache, e->tracer->graph, e->tracer->by_shape);
    if (status != OL_OK) raise_result(L, e, member, error.message);
    lua_settop(L, CACHE);
  }
  lua_pushboolean(L, ol_program_cache_read(cache).restless);
  return 1;
}

/* prepare(grad_scale, max_norm, infinity, skip): the norm where there is a max_norm, which may be
 * infinite; with skip, nil and why when a gradient is not finite. */
static int prepare(lua_State *L) {
  ol_error error;
  engine *e = active(L);
  ol_step_options options = { .measure = !lua_isnoneornil(L, 2),
                              .infinity = lua_toboolean(L, 3),
                              .max_norm = luaL_optnumber(L, 2, HUGE_VAL),
                              .unscale = 1 / luaL_optnumber(L, 1, 1) };
  ol_status status = ol_step_prepare(&error, e->step, &options);
  if (status == OL_NONFINITE && lua_toboolean(L, 4)) {
    lua_pushnil(L);
    lua_pushstring(L, error.message);
    return 2;
  }
  ol_check(L, status, &error);
  if (!options.measure) return 0;
  lua_pushnumber(L, e->step->norm);
  return 1;
}

/* commit(). */
static int commit(lua_State *L) {
  ol_step_commit(active(L)->step);
  return 0;
}

/* A text that is freed with its userdata. */
static void drop_text(void *self) {
  char **text = self;
  ol_free(*text);
  *text = NULL;
}

static const ol_scratch text_kind = { "optlua.text", sizeof(char *), drop_text };

/* program(i, names): the i-th program of the step as text, or nil; names: of its operands. */
static int program(lua_State *L) {
  ol_error error;
  const char *names[OL_GRAPH_OPERANDS];
  ol_step *step = active(L)->step;
  lua_Integer i = luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  if (i < 1 || i > step->batches.count) return 0;
  const ol_step_batch *batch = &((ol_step_batch *)step->batches.item)[i - 1];
  luaL_checkstack(L, batch->program->operands + 4, "operands");
  for (int k = 0; k < batch->program->operands; k++) {
    lua_rawgeti(L, 2, k + 1);
    names[k] = luaL_checkstring(L, -1);
  }
  char **text = ol_push_scratch(L, &text_kind, 0);
  const double *numbers = (const double *)step->numbers.item + batch->numbers;
  ol_check(L, ol_program_text(&error, batch->program, names, numbers, text), &error);
  lua_pushstring(L, *text);
  return 1;
}

/* nature(): what the rule that was traced last does: whether it works element by element and never
 * looked at the shape, whether it multiplies matrices, whether it adds to numbers of the group. */
static int nature(lua_State *L) {
  const engine *e = active(L);
  const ol_step_batch *batches = e->step->batches.item;
  if (e->step->batches.count == 0) return 0;
  const ol_program *program = batches[e->step->batches.count - 1].program;
  lua_pushboolean(L, program->coalesces && !e->tracer->by_shape);
  lua_pushboolean(L, program->multiplies);
  lua_pushboolean(L, program->total_count > 0);
  return 3;
}

static engine *make_engine(lua_State *L) {
  engine *e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = (engine){ .mark = &engine_key };
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, free_engine);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, close_engine);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &engine_key);
  return e;
}

/* Makes `written`, whose keys are weak. */
static void add_written(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &written_key);
  lua_setfield(L, -2, "written");
}

void ol_open_step(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "transact", transact },
    { "collect", collect },
    { "collect_awaited", collect_awaited },
    { "collect_updated", collect_updated },
    { "trace", trace },
    { "prepare", prepare },
    { "commit", commit },
    { "program", program },
    { "nature", nature },
    { NULL, NULL },
  };
  add_written(L);
  engine *e = make_engine(L);
  ol_push_tracer(L);
  e->tracer = lua_touserdata(L, -1);
  luaL_setfuncs(L, functions, 2);
}
