/* hangup: SIGHUP, counted. */
#ifndef OL_MAIN_HANGUP_H
#define OL_MAIN_HANGUP_H

#include <lua.h>

/* Opens the module optlua.signals: catch_hangup(), hangups(). */
int ol_open_hangup(lua_State *L);

#endif
