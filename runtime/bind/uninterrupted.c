/* uninterrupted: what must not stop half way: signals that raise errors in Lua wait. */
#include <signal.h>

#include <lauxlib.h>

#include "bind/native.h"

enum { SIGNALS = 2 };
static const int held[SIGNALS] = { SIGINT, SIGPIPE };
static volatile sig_atomic_t came[SIGNALS];
static struct sigaction before[SIGNALS];
static int depth; /* the outermost holds and lets go */

static void note(int signal_number) { came[signal_number == held[0] ? 0 : 1] = 1; }

static void hold(void) {
  struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
  if (depth++ > 0) return;
  for (int i = 0; i < SIGNALS; i++) {
    came[i] = 0;
    sigaction(held[i], &action, &before[i]);
  }
}

static void let_go(void) {
  if (--depth > 0) return;
  for (int i = 0; i < SIGNALS; i++) {
    sigaction(held[i], &before[i], NULL);
    if (came[i]) raise(held[i]);
  }
}

/* uninterrupted(fn): calls it. Signals that come meanwhile do what they do when it has returned; so
 * do hooks, by which they raise errors. */
static int uninterrupted(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  hold();
  lua_Hook hook = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  lua_sethook(L, NULL, 0, 0);
  int status = lua_pcall(L, 0, 0, 0);
  lua_sethook(L, hook, mask, count);
  let_go();
  return status == LUA_OK ? 0 : lua_error(L);
}

const ol_natives ol_uninterrupted_natives = {
  .name = "uninterrupted",
  .list = (const ol_native[]){ OL_HIDDEN("uninterrupted", uninterrupted), { { 0 } } },
};
