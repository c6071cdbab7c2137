/* requests: signals that ask the loop of a spec for something, which it does between two updates.
 */
#ifndef OL_MAIN_REQUESTS_H
#define OL_MAIN_REQUESTS_H

#include <lua.h>

/* Opens the module optlua.signals: catch(), release(), stop(), hangups(). */
int ol_open_requests(lua_State *L);

#endif
