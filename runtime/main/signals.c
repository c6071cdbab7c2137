/* signals: SIGINT and SIGPIPE become errors in the running Lua code.
 *
 * A handler sets a debug hook, which Lua allows at any time; the hook raises the error, or waits
 * for the end of what must not stop half way. Handlers are without SA_RESTART, so that a script
 * that waits in a read is interrupted too. */
#include "main/signals.h"

#include <stddef.h>
#include <sys/time.h>

#include <lauxlib.h>

#include "bind/uninterrupted.h"

#define EVERYTHING (LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT)

static lua_State *volatile running; /* where errors are raised; NULL while no Lua code runs */
static volatile sig_atomic_t interrupted, pipe_closed;

static void on_alarm(int signal_number) { (void)signal_number; }

/* SIGINT may come just before a read blocks: alarms follow, and make it fail, until they are off.
 */
static void set_alarms(bool on) {
  const struct timeval pause = { .tv_usec = on ? 20000 : 0 };
  setitimer(ITIMER_REAL, &(struct itimerval){ pause, pause }, NULL);
}

static void raise_interrupted(lua_State *L, lua_Debug *where) {
  if (ol_hook_waits(L, where)) return;
  lua_sethook(L, NULL, 0, 0);
  set_alarms(false);
  interrupted = true;
  luaL_error(L, "interrupted!");
}

static void raise_closed_pipe(lua_State *L, lua_Debug *where) {
  if (ol_hook_waits(L, where)) return;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, OL_CLOSED_PIPE);
}

static void on_interrupt(int signal_number) {
  signal(signal_number, SIG_DFL);
  if (running != NULL) lua_sethook(running, raise_interrupted, EVERYTHING, 1);
  set_alarms(!ol_is_uninterrupted());
}

static void on_interrupt_waiting(int signal_number) {
  (void)signal_number;
  set_alarms(true);
}

static void on_closed_pipe(int signal_number) {
  (void)signal_number;
  pipe_closed = true;
  if (running != NULL) lua_sethook(running, raise_closed_pipe, EVERYTHING, 1);
}

/* A SIGINT that is ignored (of a shell's "&") stays so. */
static ol_interrupts handle_interrupts(lua_State *L, void (*handler)(int)) {
  ol_interrupts before = { .state = running };
  struct sigaction action = { .sa_handler = handler };
  running = L;
  sigaction(SIGINT, NULL, &before.action);
  if (before.action.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
  return before;
}

ol_interrupts ol_interrupts_begin(lua_State *L) {
  interrupted = false;
  return handle_interrupts(L, on_interrupt);
}

ol_interrupts ol_interrupts_wait(void) { return handle_interrupts(NULL, on_interrupt_waiting); }

/* A hook that came too late to fire must not fire in the next call. */
void ol_interrupts_end(ol_interrupts before) {
  sigaction(SIGINT, &before.action, NULL);
  set_alarms(false);
  lua_Hook hook = running != NULL ? lua_gethook(running) : NULL;
  if (hook == raise_interrupted || hook == raise_closed_pipe) lua_sethook(running, NULL, 0, 0);
  running = before.state;
}

bool ol_interrupted(void) { return interrupted; }
bool ol_pipe_closed(void) { return pipe_closed; }

void ol_signals_prepare(void) {
  sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
  sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = on_closed_pipe }, NULL);
}
