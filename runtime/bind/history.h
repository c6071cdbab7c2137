/* history: what of Lua a recorded graph needs to stay alive: contexts of functions that the user
 * wrote, and hooks.
 *
 * The tape knows them by number only; a table with weak values leads from numbers to tables. They
 * are kept alive by the tensors from which backward can reach them: the user value of a userdata is
 * its history, a table whose keys are such tables and other histories; the result of a recorded op
 * inherits the histories of its operands. So closures hang on tensors and on nothing else, and a
 * cycle through a closure (closure, tensor, history, closure) is garbage like any other. */
#ifndef OL_BIND_HISTORY_H
#define OL_BIND_HISTORY_H

#include <lua.h>
#include <stdbool.h>

#include "bind/args.h"

/* Whether any history was ever made in this process; ops skip inheritance until then. */
bool ol_has_history(void);

/* Gives the results of a call (`outputs` userdata from index slot on) the histories of its
 * operands, where they were recorded. */
void ol_inherit(lua_State *L, const ol_args *args, int slot, int outputs);

/* Gives the table on top of the stack a number, under which ol_push_remembered finds it while it is
 * alive. Leaves it there. */
lua_Integer ol_remember(lua_State *L);

/* Pushes the table of that number, or nil when it is no more. */
void ol_push_remembered(lua_State *L, lua_Integer number);

/* Keeps the table at index `table` alive for as long as the userdata at index `tensor` or what is
 * computed from it from now on. Earlier histories are kept too. */
void ol_attach_history(lua_State *L, int tensor, int table);

/* Makes the weak table; once for each Lua state. */
void ol_open_history(lua_State *L);

#endif
