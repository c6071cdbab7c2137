/* repl: reads, evaluates and prints until the input ends. */
#ifndef OL_MAIN_REPL_H
#define OL_MAIN_REPL_H

#include <stdbool.h>

#include <lua.h>

/* Runs what the user enters: an expression prints its values, an incomplete line is continued,
 * errors and SIGINT lead back to the prompt. With `environment`, the history file is used. Sets the
 * globals `optlua` and `help` if they are free. */
void ol_repl(lua_State *L, bool environment);

#endif
