/* script: what the command line runs, one after the other. */
#include "main/script.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "main/call.h"
#include "main/chunks.h"

void ol_script_set_arg(lua_State *L, char **argv, int argc, int script) {
  if (script == argc) script = 0;
  lua_createtable(L, argc - script, script + 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

/* Pushes the elements of the global `arg`, which scripts and options may have changed. */
static int push_arguments(lua_State *L) {
  if (lua_getglobal(L, "arg") != LUA_TTABLE) luaL_error(L, "'arg' is not a table");
  int table = lua_gettop(L);
  int count = (int)luaL_len(L, table);
  luaL_checkstack(L, count + 3, "too many arguments to script");
  for (int i = 1; i <= count; i++) lua_rawgeti(L, table, i);
  lua_remove(L, table);
  return count;
}

/* Runs a chunk that was loaded with this status; its results are dropped. */
static int run_loaded(lua_State *L, int status) {
  if (status == LUA_OK) status = ol_protected_call(L, 0, 0, true);
  return ol_report(L, status, OL_PROGRAM);
}

static int run_text(lua_State *L, const char *text, const char *name) {
  return run_loaded(L, ol_chunk_load_text(L, text, strlen(text), name));
}

int ol_script_run_init(lua_State *L) {
  const char *name = "=LUA_INIT_5_4";
  const char *init = getenv(name + 1);
  if (init == NULL) init = getenv((name = "=LUA_INIT") + 1);
  if (init == NULL) return LUA_OK;
  if (init[0] == '@') return run_loaded(L, ol_chunk_load_file(L, init + 1));
  return run_text(L, init, name);
}

/* GLOBAL=NAME, or NAME, whose version after a "-" is no part of the global's name. */
static int require_library(lua_State *L, const char *value) {
  const char *equals = strchr(value, '=');
  lua_getglobal(L, "require");
  lua_pushstring(L, equals != NULL ? equals + 1 : value);
  int status = ol_protected_call(L, 1, 1, true);
  if (status != LUA_OK) return ol_report(L, status, OL_PROGRAM);
  lua_pushglobaltable(L);
  lua_pushlstring(L, value, strcspn(value, equals != NULL ? "=" : "-"));
  lua_pushvalue(L, -3);
  lua_settable(L, -3);
  lua_pop(L, 2);
  return LUA_OK;
}

int ol_script_run_options(lua_State *L, char **argv) {
  int index = 1, status = LUA_OK;
  ol_option option = ol_option_read(argv, &index);
  for (; option.kind != OL_OPTION_END; option = ol_option_read(argv, &index)) {
    if (option.kind == OL_OPTION_EXECUTE) status = run_text(L, option.value, "=(command line)");
    if (option.kind == OL_OPTION_LIBRARY) status = require_library(L, option.value);
    if (option.kind == OL_OPTION_WARNINGS) lua_warning(L, "@on", 0);
    if (status != LUA_OK) break;
  }
  return status;
}

/* Calls the run hook of the first result of a script, if it has one. The results stand at `first`
 * and above; they are dropped. */
static int run_result(lua_State *L, int first, bool with_arguments) {
  if (lua_gettop(L) < first || luaL_getmetafield(L, first, "__optlua_run") == LUA_TNIL) {
    lua_settop(L, first - 1);
    return LUA_OK;
  }
  lua_insert(L, first);
  lua_settop(L, first + 1);
  int arguments = with_arguments ? push_arguments(L) : 0;
  return ol_protected_call(L, 1 + arguments, 0, true);
}

static int run_file(lua_State *L, const char *file, bool with_arguments) {
  int first = lua_gettop(L) + 1;
  int status = ol_chunk_load_file(L, file);
  if (status == LUA_OK) {
    int arguments = with_arguments ? push_arguments(L) : 0;
    status = ol_protected_call(L, arguments, LUA_MULTRET, true);
  }
  if (status == LUA_OK) status = run_result(L, first, with_arguments);
  return ol_report(L, status, OL_PROGRAM);
}

int ol_script_run_file(lua_State *L, const char *file) { return run_file(L, file, true); }

int ol_script_run_input(lua_State *L) { return run_file(L, NULL, false); }

/* Upvalues: module, function. Calls the function with all arguments. */
static int call_module(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 1, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_gettable(L, -2);
  lua_insert(L, 1);
  lua_pop(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

int ol_script_run_command(lua_State *L, const ol_command *command) {
  lua_pushstring(L, command->module);
  lua_pushstring(L, command->function);
  lua_pushcclosure(L, call_module, 2);
  int status = ol_protected_call(L, push_arguments(L), 0, false);
  return ol_report(L, status, OL_PROGRAM);
}
