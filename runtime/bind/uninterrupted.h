/* uninterrupted: what must not stop half way: hooks that raise errors, as signals do, wait. */
#ifndef OL_BIND_UNINTERRUPTED_H
#define OL_BIND_UNINTERRUPTED_H

#include <stdbool.h>

#include <lua.h>

/* Whether something runs that must not stop half way. Handlers of signals may ask. */
bool ol_is_uninterrupted(void);

/* For a hook that is about to raise an error, the one that is running: whether it has to wait. It
 * is called again then, when it may raise. */
bool ol_hook_waits(lua_State *L, lua_Debug *where);

#endif
