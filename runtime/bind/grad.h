/* grad: gradients from Lua. */
#ifndef OL_BIND_GRAD_H
#define OL_BIND_GRAD_H

#include <lua.h>
#include <stdbool.h>

#include "base/status.h"

/* A backward that runs, for functions of the script that it calls. */
typedef struct ol_walk {
  lua_State *L;
  bool retain; /* whether the graph is kept */
} ol_walk;

/* The innermost one, or NULL. */
const ol_walk *ol_current_walk(void);

/* Calls fn, with context as a light userdata, while a backward runs: protected, and without
 * recording. Its error is kept, and raised when backward has returned. */
ol_status ol_protect(ol_error *error, lua_CFunction fn, void *context);

/* Make the metatables of handles of hooks and of contexts; once for each Lua state. */
void ol_open_hook(lua_State *L);
void ol_open_func(lua_State *L);

#endif
