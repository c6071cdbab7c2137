/* signals: SIGINT and SIGPIPE become errors in the running Lua code. */
#ifndef OL_MAIN_SIGNALS_H
#define OL_MAIN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include <lua.h>

/* What SIGINT did before a stretch of code; kept on the C stack of whoever runs that code. */
typedef struct ol_interrupts {
  lua_State *state;
  struct sigaction action;
} ol_interrupts;

/* From here on SIGINT raises "interrupted!" in L's main thread at its next instruction, call or
 * return, or when what must not stop half way has ended (bind/uninterrupted.h). It does so once;
 * the next SIGINT has its default action and ends the process. */
ol_interrupts ol_interrupts_begin(lua_State *L);

/* From here on SIGINT only makes a blocking read fail with EINTR. */
ol_interrupts ol_interrupts_wait(void);

/* Goes back to what was before. */
void ol_interrupts_end(ol_interrupts before);

/* Whether "interrupted!" was raised since the last ol_interrupts_begin. */
bool ol_interrupted(void);

/* To be called once, first. From here on a write to a closed pipe raises an error in the running
 * Lua code, where the default would end the process without a word. Processes that Lua starts keep
 * the default. SIGALRM is ours. */
void ol_signals_prepare(void);

/* The message of that error. */
#define OL_CLOSED_PIPE "write to a closed pipe"

/* Whether something was written to a closed pipe. */
bool ol_pipe_closed(void);

#endif
