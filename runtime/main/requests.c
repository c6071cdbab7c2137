/* requests: signals that ask the loop of a spec for something: SIGINT and SIGTERM to save and end,
 * SIGHUP to read its script again. Meanwhile SIGPIPE does nothing. */
#include "main/requests.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <lauxlib.h>

static volatile sig_atomic_t hangup_count, stop_signal;
static int depth; /* runs within runs: the outermost catches and releases */

static void on_hangup(int signal_number) {
  (void)signal_number;
  hangup_count++;
}

enum { NOTICE = 200 };
static char notice[NOTICE]; /* said at once when a signal asks to end */
static size_t notice_length;

static void on_stop(int signal_number) {
  int before_write = errno;
  stop_signal = signal_number;
  ssize_t written = write(STDERR_FILENO, notice, notice_length);
  (void)written; /* nobody may be there to read it */
  errno = before_write;
}

/* A pipe that nobody reads any more is no reason to stop training: what is written to it fails. */
static void on_closed_pipe(int signal_number) { (void)signal_number; }

enum { SIGNALS = 4 };

/* What is caught, and what it did before. The second SIGINT or SIGTERM ends the process. */
static const int caught[SIGNALS] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
static void (*const handler[SIGNALS])(int) = { on_stop, on_stop, on_hangup, on_closed_pipe };
static struct sigaction before[SIGNALS];

/* Keeps what is said, as a line of its own: a terminal has shown ^C. */
static void keep_notice(const char *text) {
  notice_length = 0;
  if (text == NULL) return;
  int length = snprintf(notice, NOTICE, "%s%s\n", isatty(STDERR_FILENO) ? "\n" : "", text);
  notice_length = length < NOTICE ? (size_t)length : NOTICE - 1;
}

/* catch([notice]): from here on the signals are noted; one that asks to end is answered with the
 * notice on stderr, and ends the runs within that run too. What is ignored (nohup, "&") stays so.
 */
static int catch_signals(lua_State *L) {
  const char *text = luaL_optstring(L, 1, NULL);
  if (depth++ > 0) return 0;
  stop_signal = 0;
  keep_notice(text);
  for (int i = 0; i < SIGNALS; i++) {
    struct sigaction action = { .sa_handler = handler[i], .sa_flags = SA_RESTART };
    if (handler[i] == on_stop) action.sa_flags |= (int)SA_RESETHAND;
    sigaction(caught[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(caught[i], &action, NULL);
  }
  return 0;
}

/* release(): they do what they did before. */
static int release(lua_State *L) {
  (void)L;
  if (depth == 0 || --depth > 0) return 0;
  for (int i = 0; i < SIGNALS; i++) sigaction(caught[i], &before[i], NULL);
  return 0;
}

/* stop(): the number of the signal that asked to end, or nil. */
static int stop(lua_State *L) {
  if (stop_signal == 0) return 0;
  lua_pushinteger(L, stop_signal);
  return 1;
}

/* hangups(): how many came. */
static int hangups(lua_State *L) {
  lua_pushinteger(L, hangup_count);
  return 1;
}

int ol_open_requests(lua_State *L) {
  static const luaL_Reg functions[] = { { "catch", catch_signals },
                                        { "release", release },
                                        { "stop", stop },
                                        { "hangups", hangups },
                                        { NULL, NULL } };
  luaL_newlib(L, functions);
  return 1;
}
