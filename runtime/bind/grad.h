/* grad: gradients from Lua. */
#ifndef OL_BIND_GRAD_H
#define OL_BIND_GRAD_H

#include <lua.h>
#include <stdbool.h>

/* A backward that runs, for functions of the script that it calls. */
typedef struct ol_walk {
  lua_State *L;
  bool retain; /* whether the graph is kept */
} ol_walk;

/* The innermost one, or NULL. */
const ol_walk *ol_current_walk(void);

#endif
