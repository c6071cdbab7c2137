/* hangup: SIGHUP, counted for the loop of specs, which then reads its script again. */
#include "main/hangup.h"

#include <signal.h>

#include <lauxlib.h>

static volatile sig_atomic_t count;

static void on_hangup(int signal_number) {
  (void)signal_number;
  count++;
}

/* catch_hangup(): from here on SIGHUP is counted, where its default would end the process; one that
 * is ignored (nohup) stays so. */
static int catch_hangup(lua_State *L) {
  struct sigaction now;
  (void)L;
  if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
    sigaction(SIGHUP, &(struct sigaction){ .sa_handler = on_hangup, .sa_flags = SA_RESTART }, NULL);
  return 0;
}

/* hangups(): how many came. */
static int hangups(lua_State *L) {
  lua_pushinteger(L, count);
  return 1;
}

int ol_open_hangup(lua_State *L) {
  static const luaL_Reg functions[] = { { "catch_hangup", catch_hangup },
                                        { "hangups", hangups },
                                        { NULL, NULL } };
  luaL_newlib(L, functions);
  return 1;
}
