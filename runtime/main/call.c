/* call: protected calls with a traceback, and how failures reach the user. */
#include "main/call.h"

#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

#include "main/signals.h"

/* Leaves on top a string for the error object at 1; tells whether the object described itself. */
static bool make_message(lua_State *L) {
  if (lua_tostring(L, 1) != NULL) return false;
  if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return true;
  lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  return false;
}

/* Message handler: the message alone. */
static int describe(lua_State *L) {
  make_message(L);
  return 1;
}

/* Message handler: the message and a traceback, which an object that describes itself goes without.
 */
static int trace(lua_State *L) {
  if (!make_message(L)) luaL_traceback(L, L, lua_tostring(L, -1), 1);
  return 1;
}

int ol_protected_call(lua_State *L, int arguments, int results, bool traced) {
  int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, traced ? trace : describe);
  lua_insert(L, base);
  ol_interrupts before = ol_interrupts_begin(L);
  int status = lua_pcall(L, arguments, results, base);
  ol_interrupts_end(before);
  lua_remove(L, base);
  return status;
}

void ol_message(const char *program, const char *message) {
  if (program != NULL) fprintf(stderr, "%s: ", program);
  fprintf(stderr, "%s\n", message);
}

int ol_report(lua_State *L, int status, const char *program) {
  if (status == LUA_OK) return status;
  const char *message = lua_tostring(L, -1);
  if (message == NULL) message = "(error message is not a string)";
  bool unread = ol_pipe_closed() && ferror(stdout) && strstr(message, OL_CLOSED_PIPE) != NULL;
  if (!unread) ol_message(program, message);
  lua_pop(L, 1);
  return status;
}
