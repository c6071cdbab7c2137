/* chunks: loading Lua as text; bytecode, which Lua cannot check, is refused everywhere. */
#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

#include "main/chunks.h"

#define REFUSAL "bytecode is refused; load text"

/* Puts our words in the place of Lua's when a load failed because its chunk was binary. */
static int explain_refusal(lua_State *L, int status, const char *file) {
  static const char binary[] = "attempt to load a binary chunk";
  const char *message = status == LUA_ERRSYNTAX ? lua_tostring(L, -1) : NULL;
  if (message == NULL || strncmp(message, binary, sizeof binary - 1) != 0) return status;
  if (file != NULL)
    lua_pushfstring(L, "%s: " REFUSAL, file);
  else
    lua_pushliteral(L, REFUSAL);
  lua_replace(L, -2);
  return status;
}

int ol_chunk_load_file(lua_State *L, const char *file) {
  return explain_refusal(L, luaL_loadfilex(L, file, "t"), file != NULL ? file : "stdin");
}

int ol_chunk_load_text(lua_State *L, const char *text, size_t length, const char *name) {
  return explain_refusal(L, luaL_loadbufferx(L, text, length, name, "t"), NULL);
}

/* The mode at an index as Lua's own function shall see it, or NULL if it asks for bytecode only. */
static const char *text_mode(lua_State *L, int index) {
  return strchr(luaL_optstring(L, index, "bt"), 't') != NULL ? "t" : NULL;
}

static int fail(lua_State *L, const char *message) {
  luaL_pushfail(L);
  lua_pushstring(L, message);
  return 2;
}

/* load(chunk [, name [, mode [, env]]]); upvalue 1 is Lua's load. */
static int load_text(lua_State *L) {
  if (!lua_isstring(L, 1)) luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_optstring(L, 2, NULL);
  const char *mode = text_mode(L, 3);
  if (mode == NULL) return fail(L, REFUSAL);
  if (lua_gettop(L) < 3) lua_settop(L, 3);
  lua_pushstring(L, mode);
  lua_replace(L, 3);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_isnil(L, 1)) explain_refusal(L, LUA_ERRSYNTAX, NULL);
  return lua_gettop(L);
}

/* loadfile([file [, mode [, env]]]) */
static int load_text_file(lua_State *L) {
  const char *file = luaL_optstring(L, 1, NULL);
  bool has_environment = !lua_isnone(L, 3);
  if (text_mode(L, 2) == NULL) return fail(L, REFUSAL);
  if (ol_chunk_load_file(L, file) != LUA_OK) return fail(L, lua_tostring(L, -1));
  if (has_environment) {
    lua_pushvalue(L, 3);
    if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
  }
  return 1;
}

static int results_of_file(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L) - 1;
}

/* dofile([file]) */
static int run_text_file(lua_State *L) {
  const char *file = luaL_optstring(L, 1, NULL);
  lua_settop(L, 1);
  if (ol_chunk_load_file(L, file) != LUA_OK) return lua_error(L);
  lua_callk(L, 0, LUA_MULTRET, 0, results_of_file);
  return results_of_file(L, LUA_OK, 0);
}

/* Searcher of require: a loader and its file, or a message. Upvalue 1 is the table `package`. */
static int search_text_file(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "searchpath");
  lua_pushvalue(L, 1);
  if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
    return luaL_error(L, "'package.path' must be a string");
  lua_call(L, 2, 2);
  const char *file = lua_tostring(L, -2);
  if (file == NULL) return 1;
  if (ol_chunk_load_file(L, file) != LUA_OK)
    return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, file,
                      lua_tostring(L, -1));
  lua_pushstring(L, file);
  return 2;
}

void ol_chunks_text_only(lua_State *L) {
  lua_getglobal(L, "load");
  lua_pushcclosure(L, load_text, 1);
  lua_setglobal(L, "load");
  lua_register(L, "loadfile", load_text_file);
  lua_register(L, "dofile", run_text_file);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, search_text_file, 1);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}
