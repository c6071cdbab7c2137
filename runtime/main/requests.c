/* requests: signals that ask the loop of a spec for something: SIGHUP to read its script again,
 * SIGINT and SIGTERM to save and end. */
#include "main/requests.h"

#include <signal.h>
#include <stdbool.h>

#include <lauxlib.h>

static volatile sig_atomic_t hangup_count, stop_signal;
static struct sigaction before[2]; /* what SIGINT and SIGTERM did */
static bool caught;

static void on_hangup(int signal_number) {
  (void)signal_number;
  hangup_count++;
}

static void on_stop(int signal_number) { stop_signal = signal_number; }

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
  lua_pushinteger(L, hangup_count);
  return 1;
}

/* catch_stop(): from here on SIGINT and SIGTERM are noted; the second of a kind ends the process.
 */
static int catch_stop(lua_State *L) {
  const struct sigaction action = { .sa_handler = on_stop,
                                    .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };
  (void)L;
  stop_signal = 0;
  if (!caught) {
    sigaction(SIGINT, &action, &before[0]);
    sigaction(SIGTERM, &action, &before[1]);
  }
  caught = true;
  return 0;
}

/* release_stop(): the signals do what they did before catch_stop. */
static int release_stop(lua_State *L) {
  (void)L;
  if (caught) {
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
  }
  caught = false;
  return 0;
}

/* stop(): the number of the signal that came, or nil. */
static int stop(lua_State *L) {
  if (stop_signal == 0) return 0;
  lua_pushinteger(L, stop_signal);
  return 1;
}

int ol_open_requests(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "catch_hangup", catch_hangup }, { "hangups", hangups }, { "catch_stop", catch_stop },
    { "release_stop", release_stop }, { "stop", stop },       { NULL, NULL },
  };
  luaL_newlib(L, functions);
  return 1;
}
