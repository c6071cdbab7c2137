/* mode: whether ops are recorded, and watched, for the time of a function.
 *
 * The mode belongs to the chain of coroutines that run. A coroutine that yields from inside no_grad
 * gives its resumer the resumer's mode back, and finds its own again when it is resumed; one that
 * is resumed inside no_grad runs without recording. To see every yield, no_grad called in a
 * coroutine runs the function in a coroutine of its own. In the main coroutine nothing can yield:
 * the function is simply called, and a value that is closed on the way out restores the mode. */
#include <lauxlib.h>

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "bind/error.h"
#include "bind/mode.h"
#include "bind/native.h"

/* A mode is a set of these. */
enum { RECORDING = 1, WATCHING = 2 };

static int read_mode(void) {
  return (ol_recording() ? RECORDING : 0) | (ol_watching() ? WATCHING : 0);
}

static void set_mode(int mode) {
  ol_set_recording(mode & RECORDING);
  ol_set_watching(mode & WATCHING);
}

/* __close of the guard, which holds the mode to go back to. */
static int restore(lua_State *L) {
  set_mode((int)lua_tointeger(L, lua_upvalueindex(1)));
  return 0;
}

/* Pushes a table that, as a value to be closed, restores the present mode. */
static void push_guard(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushinteger(L, read_mode());
  lua_pushcclosure(L, restore, 1);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
}

/* Calls the function at index 1 with what lies above it. */
static int call_plain(lua_State *L, int mode) {
  push_guard(L);
  lua_insert(L, 1);
  lua_toclose(L, 1);
  set_mode(mode);
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

/* __close of the coroutine's own guard: when it is closed before its end, so are the variables of
 * the function. */
static int close_inner(lua_State *L) {
  lua_State *inner = lua_tothread(L, lua_upvalueindex(1));
  if (lua_status(inner) != LUA_YIELD || lua_resetthread(inner) == LUA_OK) return 0;
  lua_xmove(inner, L, 1);
  return lua_error(L);
}

/* Pushes a coroutine, and a table that, as a value to be closed, closes it; returns the coroutine.
 */
static lua_State *push_inner(lua_State *L) {
  lua_State *inner = lua_newthread(L);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -3);
  lua_pushcclosure(L, close_inner, 1);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  return inner;
}

/* Resumes the coroutine at index 1, of which the guard is at 2, with what lies above them, in the
 * mode that the context says. Passes on what it yields, and runs again when L is resumed. */
static int drive(lua_State *L, int status, lua_KContext mode) {
  lua_State *inner = lua_tothread(L, 1);
  int count = lua_gettop(L) - 2;
  int outer = read_mode();
  (void)status;
  if (!lua_checkstack(inner, count)) return ol_throw(L, "too many arguments");
  lua_xmove(L, inner, count);
  set_mode((int)mode);
  int result = lua_resume(inner, L, count, &count);
  set_mode(outer);
  if (result != LUA_OK && result != LUA_YIELD) {
    lua_resetthread(inner);
    lua_xmove(inner, L, 1);
    return lua_error(L);
  }
  if (!lua_checkstack(L, count)) return ol_throw(L, "too many results");
  lua_xmove(inner, L, count);
  return result == LUA_YIELD ? lua_yieldk(L, count, mode, drive) : count;
}

static int call_in_mode(lua_State *L, int mode) {
  const ol_op *op = lua_touserdata(L, lua_upvalueindex(1));
  if (lua_type(L, 1) != LUA_TFUNCTION && luaL_getmetafield(L, 1, "__call") == LUA_TNIL)
    return ol_throw(L, "%s: argument 1 (fn): function expected, got %s", op->name,
                    lua_gettop(L) ? ol_type_text(L, 1) : "no value");
  if (lua_type(L, 1) != LUA_TFUNCTION) lua_pop(L, 1);
  if (lua_pushthread(L)) {
    lua_pop(L, 1);
    return call_plain(L, mode);
  }
  lua_pop(L, 1);
  lua_State *inner = push_inner(L);
  lua_rotate(L, 1, 2);
  lua_pushvalue(L, 3);
  lua_xmove(L, inner, 1);
  lua_remove(L, 3);
  lua_toclose(L, 2);
  return drive(L, LUA_OK, mode);
}

static int no_grad(lua_State *L) { return call_in_mode(L, read_mode() & ~RECORDING); }

static int enable_grad(lua_State *L) { return call_in_mode(L, read_mode() | RECORDING); }

static int detect_anomaly(lua_State *L) { return call_in_mode(L, read_mode() | WATCHING); }

static int is_grad_enabled(lua_State *L) {
  lua_pushboolean(L, ol_recording());
  return 1;
}

void ol_call_unrecorded(lua_State *L, int count, int results) {
  bool outer = ol_recording();
  ol_set_recording(false);
  int status = lua_pcall(L, count, results, 0);
  ol_set_recording(outer);
  if (status != LUA_OK) lua_error(L);
}

#define FUNCTION                                                                                   \
  { "fn", OL_ANY, .doc = "called with the arguments that follow; its results are returned" }

static const ol_native natives[] = {
  { { .name = "no_grad",
      .doc =
          "Calls a function without recording operations, so that its results have no history and "
          "leaves can be changed in place. Holds in coroutines that the function resumes; a "
          "coroutine that yields meanwhile leaves its resumer's mode alone.",
      .example = "local w = optlua.ones(2, { requires_grad = true })\n"
                 "print(optlua.no_grad(function() return w * 2 end)) --> tensor([2., 2.])",
      .param = { FUNCTION },
      .flags = OL_OP_FUNCTION },
    no_grad },
  { { .name = "enable_grad",
      .doc = "Calls a function with recording, also inside no_grad.",
      .example = "print(optlua.no_grad(optlua.enable_grad, optlua.is_grad_enabled)) --> true",
      .param = { FUNCTION },
      .flags = OL_OP_FUNCTION },
    enable_grad },
  { { .name = "detect_anomaly",
      .doc = "Calls a function and looks at what every operation computes meanwhile, forward and "
             "backward: the first that makes a NaN, or an infinity of finite values, raises an "
             "error that names it and the script's line. Infinities that the script puts in, as "
             "masks do, may stay. All is slower meanwhile. An operation in place has written.",
      .example = "local x = optlua.zeros(2, { requires_grad = true })\n"
                 "local function slope() x:sqrt():sum():backward() end\n"
                 "local _, message = pcall(optlua.detect_anomaly, slope)\n"
                 "print(message:match \"gradient .* an infinity\")\n"
                 "--> gradient that backward computes for input 1 of sqrt has an infinity",
      .param = { FUNCTION },
      .flags = OL_OP_FUNCTION },
    detect_anomaly },
  { { .name = "is_grad_enabled",
      .doc = "Whether operations are recorded now.",
      .example = "print(optlua.no_grad(optlua.is_grad_enabled)) --> false",
      .flags = OL_OP_FUNCTION },
    is_grad_enabled },
  { { 0 } },
};

const ol_natives ol_mode_natives = { "mode", "Recording", natives };
