/* call: protected calls with a traceback, and how failures reach the user. */
#ifndef OL_MAIN_CALL_H
#define OL_MAIN_CALL_H

#include <stdbool.h>

#include <lua.h>

#define OL_PROGRAM "optlua"

/* Calls the function below its arguments, as lua_pcall does; SIGINT raises "interrupted!" in it.
 * Errors become strings: the message, or what __tostring makes of an error object; and, if traced,
 * a traceback. */
int ol_protected_call(lua_State *L, int arguments, int results, bool traced);

/* Writes "program: message" and a newline to stderr; program may be NULL. */
void ol_message(const char *program, const char *message);

/* If status is an error, writes the message on top of the stack and pops it; nothing is said where
 * nobody read what was written. Returns status. */
int ol_report(lua_State *L, int status, const char *program);

#endif
