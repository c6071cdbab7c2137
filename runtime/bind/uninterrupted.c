/* uninterrupted: what must not stop half way: hooks that raise errors, as signals do, wait.
 *
 * A hook that is there is taken away meanwhile. One that the handler of a signal sets, at any time,
 * asks ol_hook_waits. No system call is made. */
#include "bind/uninterrupted.h"

#include <signal.h>

#include <lauxlib.h>

#include "bind/native.h"

static volatile sig_atomic_t depth; /* what runs within what; the outermost lets hooks go */

static struct {
  lua_Hook hook; /* NULL: none waits */
  int mask, count;
} waiting;

bool ol_is_uninterrupted(void) { return depth > 0; }

/* Takes the hook away, to come back. */
static void put_aside(lua_State *L) {
  waiting.hook = lua_gethook(L);
  waiting.mask = lua_gethookmask(L);
  waiting.count = lua_gethookcount(L);
  lua_sethook(L, NULL, 0, 0);
}

static void hold(lua_State *L) {
  if (depth++ == 0 && lua_gethook(L) != NULL) put_aside(L);
}

/* A hook that has just been set is that of a signal. */
static void let_go(lua_State *L) {
  if (--depth > 0 || waiting.hook == NULL) return;
  if (lua_gethook(L) == NULL) lua_sethook(L, waiting.hook, waiting.mask, waiting.count);
  waiting.hook = NULL;
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* uninterrupted(fn, …): what the function returns; it cannot yield. */
static int uninterrupted(lua_State *L) {
  luaL_checkany(L, 1);
  hold(L);
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  let_go(L);
  if (status == LUA_OK) return lua_gettop(L);
  lua_pushcfunction(L, nothing); /* when it returns hooks come, before the error goes on */
  lua_call(L, 0, 0);
  return lua_error(L);
}

/* __close of a list of one function. */
static int close(lua_State *L) {
  lua_rawgeti(L, 1, 1);
  lua_replace(L, 1);
  return uninterrupted(L);
}

/* closing(fn): a value that calls the function when it is closed, whatever comes; given the error
 * that has led there, or nil. */
static int closing(lua_State *L) {
  luaL_checkany(L, 1);
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, 1);
  if (luaL_newmetatable(L, "optlua.closing")) {
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__close");
  }
  lua_setmetatable(L, -2);
  return 1;
}

/* Whether a function in C is about to begin: it may be one that closes something, and then has to
 * run. Hooks come again when it returns, if not before. */
static bool begins_in_c(lua_State *L, lua_Debug *where) {
  if (where->event != LUA_HOOKCALL) return false;
  lua_getinfo(L, "f", where);
  bool is_in_c = lua_iscfunction(L, -1);
  lua_pop(L, 1);
  return is_in_c;
}

bool ol_hook_waits(lua_State *L, lua_Debug *where) {
  if (depth == 0) return begins_in_c(L, where);
  put_aside(L);
  return true;
}

const ol_natives ol_uninterrupted_natives = {
  .name = "uninterrupted",
  .list = (const ol_native[]){ OL_HIDDEN("uninterrupted", uninterrupted),
                               OL_HIDDEN("closing", closing),
                               { { 0 } } },
};
