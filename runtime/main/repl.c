/* repl: reads, evaluates and prints until the input ends. */
#include "main/repl.h"

#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

#include "main/call.h"
#include "main/chunks.h"
#include "main/editor.h"
#include "main/history.h"

/* ---- What is there without require ---- */

/* help(name): the documentation of a name, a line where there is none; help(): what there is. */
static int help(lua_State *L) {
  if (lua_isnoneornil(L, 1))
    puts("help \"NAME\"   describes an operation, a layer, an optimizer: help \"AdamW\"\n"
         "Tab completes names, Ctrl-C cancels, Ctrl-D leaves.\n");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "optlua.doc");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "print");
  lua_insert(L, 1);
  lua_pop(L, 1);
  if (ol_protected_call(L, lua_gettop(L) - 1, 0, false) != LUA_OK)
    ol_message(NULL, luaL_tolstring(L, -1, NULL));
  return 0;
}

/* Calls help where it is the only result, above index `below`: its name alone asks for it. */
static bool call_help(lua_State *L, int below) {
  if (lua_gettop(L) != below + 1 || lua_tocfunction(L, -1) != help) return false;
  int status = ol_protected_call(L, 0, 0, true);
  if (status != LUA_OK) ol_report(L, status, NULL);
  return true;
}

/* Sets the global optlua, or says why not. */
static void preload(lua_State *L) {
  int top = lua_gettop(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "optlua");
  if (ol_protected_call(L, 1, 1, false) == LUA_OK) {
    lua_setglobal(L, "optlua");
    return;
  }
  const char *message = lua_tostring(L, -1);
  message = lua_pushlstring(L, message, strcspn(message, "\n"));
  ol_message(NULL, lua_pushfstring(L, "note: the library is not loaded: %s", message));
  lua_settop(L, top);
}

static void set_conveniences(lua_State *L) {
  if (lua_getglobal(L, "optlua") == LUA_TNIL) preload(L);
  if (lua_getglobal(L, "help") == LUA_TNIL) lua_register(L, "help", help);
  lua_pop(L, 2);
}

/* ---- Reading ---- */

/* Pushes a line; the global that bears the prompt's name overrides the prompt. */
static ol_line push_line(lua_State *L, const char *prompt_name, const char *prompt) {
  const char *text;
  size_t length;
  lua_getglobal(L, prompt_name);
  if (lua_isstring(L, -1)) prompt = lua_tostring(L, -1);
  ol_line line = ol_editor_read(prompt, &text, &length);
  lua_pop(L, 1);
  if (line == OL_LINE_READ) lua_pushlstring(L, text, length);
  return line;
}

/* "=x" is short for "return x", as it was in older Lua. */
static ol_line push_first_line(lua_State *L) {
  ol_line line = push_line(L, "_PROMPT", "> ");
  if (line == OL_LINE_READ && lua_tostring(L, -1)[0] == '=') {
    lua_pushfstring(L, "return %s", lua_tostring(L, -1) + 1);
    lua_remove(L, -2);
  }
  return line;
}

/* ---- Loading: the text of a chunk stands at index `text`, on top ---- */

/* Pushes the function of a text, or a message. */
static int load_text(lua_State *L, int text) {
  size_t length;
  const char *chunk = lua_tolstring(L, text, &length);
  return ol_chunk_load_text(L, chunk, length, "=stdin");
}

/* Pushes the function of an expression, or nothing. */
static int load_expression(lua_State *L, int text) {
  lua_pushliteral(L, "return ");
  lua_pushvalue(L, text);
  lua_concat(L, 2);
  int status = load_text(L, text + 1);
  if (status == LUA_OK)
    lua_remove(L, text + 1);
  else
    lua_settop(L, text);
  return status;
}

/* Whether a chunk failed to load because it ends too early. */
static bool is_incomplete(lua_State *L, int status) {
  static const char end[] = "<eof>";
  size_t length, mark = sizeof end - 1;
  if (status != LUA_ERRSYNTAX) return false;
  const char *message = lua_tolstring(L, -1, &length);
  return length >= mark && strcmp(message + length - mark, end) == 0;
}

/* Pushes the function of a chunk, or a message, after reading as many more lines as it takes. */
static ol_line load_statement(lua_State *L, int text, int *status) {
  for (;;) {
    *status = load_text(L, text);
    if (!is_incomplete(L, *status)) return OL_LINE_READ;
    ol_line line = push_line(L, "_PROMPT2", ">> ");
    if (line == OL_LINE_CANCELLED) return line;
    if (line == OL_LINE_END) return OL_LINE_READ;
    lua_pushliteral(L, "\n");
    lua_replace(L, text + 1);
    lua_concat(L, 3);
  }
}

/* Reads and loads what the user enters next: its text, then its function or a message, on top. */
static ol_line read_chunk(lua_State *L, int *status) {
  ol_line line = push_first_line(L);
  if (line != OL_LINE_READ) return line;
  int text = lua_gettop(L);
  *status = load_expression(L, text);
  if (*status != LUA_OK) line = load_statement(L, text, status);
  if (line == OL_LINE_READ) ol_history_add(lua_tostring(L, text));
  return line;
}

/* ---- Evaluating and printing ---- */

/* Puts in place of the table at an index what is in it, as text, where the library is there and the
 * table has no text of its own. */
static void open_table(lua_State *L, int index) {
  int top = lua_gettop(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "optlua.shown");
  if (ol_protected_call(L, 1, 1, false) == LUA_OK) {
    lua_pushvalue(L, index);
    if (ol_protected_call(L, 1, 1, false) == LUA_OK) lua_replace(L, index);
  }
  lua_settop(L, top);
}

/* Prints the values above index `below` with the global print. */
static void print_values(lua_State *L, int below) {
  int count = lua_gettop(L) - below;
  if (count == 0) return;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  for (int i = below + 1; i <= below + count; i++)
    if (lua_istable(L, i)) open_table(L, i);
  lua_getglobal(L, "print");
  lua_insert(L, below + 1);
  if (ol_protected_call(L, count, 0, false) == LUA_OK) return;
  ol_message(NULL, lua_pushfstring(L, "error calling 'print' (%s)", lua_tostring(L, -1)));
}

/* Runs the function on top and prints its results. */
static void evaluate(lua_State *L) {
  int below = lua_gettop(L) - 1;
  int status = ol_protected_call(L, 0, LUA_MULTRET, true);
  if (status != LUA_OK)
    ol_report(L, status, NULL);
  else if (!call_help(L, below))
    print_values(L, below);
}

void ol_repl(lua_State *L, bool environment) {
  int top = lua_gettop(L), status = LUA_OK;
  set_conveniences(L);
  ol_editor_open(L, environment);
  for (ol_line line; (line = read_chunk(L, &status)) != OL_LINE_END; lua_settop(L, top)) {
    if (line == OL_LINE_CANCELLED) continue;
    if (status == LUA_OK)
      evaluate(L);
    else
      ol_report(L, status, NULL);
    fflush(stdout);
  }
  ol_editor_close();
  putchar('\n');
}
