/* error: raising errors: from core functions, and about values that a script hands over. */
#ifndef OL_BIND_ERROR_H
#define OL_BIND_ERROR_H

#include <lua.h>

#include "base/status.h"

/* As luaL_error, with the position of the script's line: functions of the library in Lua that lie
 * between are passed over. */
__attribute__((noreturn)) int ol_throw(lua_State *L, const char *format, ...);

/* Raises what a core function reported, with the position of the script's line. When a function of
 * the script failed (OL_CALLBACK), raises its own error again. */
_Noreturn void ol_raise(lua_State *L, const ol_error *error);

/* Raises when a core function failed. */
static inline void ol_check(lua_State *L, ol_status status, const ol_error *error) {
  if (status != OL_OK) ol_raise(L, error);
}

/* Keeps the value on top of the stack, which it pops, as the error of a function of the script;
 * fills *error and returns OL_CALLBACK. */
ol_status ol_keep_error(lua_State *L, ol_error *error);

/* Makes the place where that error is kept; once for each Lua state. */
void ol_open_error(lua_State *L);

/* Says to the tape where the script is, for detect_anomaly. */
void ol_note_place(lua_State *L);

/* What the value at index is, in words: "number", "no value", "released tensor". */
const char *ol_type_text(lua_State *L, int index);

/* The same, but a number says which: for messages about numbers that do not fit. May push. */
const char *ol_value_text(lua_State *L, int index);

/* The entry of list (count words) that name was most likely meant to be, or NULL when none is near.
 */
const char *ol_nearest(const char *name, const char *const *list, int count);

/* Raises `WHAT: unknown KIND "NAME" (did you mean "NEAREST"?); legal: LIST`. */
_Noreturn void ol_raise_unknown(lua_State *L, const char *what, const char *kind, const char *name,
                                const char *const *list, int count);

#endif
