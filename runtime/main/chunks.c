/* chunks: loading Lua as text; bytecode, which Lua cannot check, is refused everywhere. */
#include "main/chunks.h"

#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

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

/* What load and loadfile return for a chunk that was loaded with this status; the environment at
 * index env (0: none) becomes the chunk's first upvalue. */
static int return_loaded(lua_State *L, int status, int env) {
  if (status != LUA_OK) {
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (env == 0) return 1;
  lua_pushvalue(L, env);
  if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
  return 1;
}

/* Whether the mode at an index allows text; if not, what load returns is pushed. */
static bool accepts_text(lua_State *L, int index) {
  if (strchr(luaL_optstring(L, index, "t"), 't') != NULL) return true;
  luaL_pushfail(L);
  lua_pushliteral(L, REFUSAL);
  return false;
}

enum { CHUNK = 1, NAME, MODE, ENV, PIECE }; /* the arguments of load, and a slot */

/* A lua_Reader that calls the function at CHUNK and keeps its last piece at PIECE. */
static const char *read_piece(lua_State *L, void *unused, size_t *size) {
  (void)unused;
  luaL_checkstack(L, 2, "too many nested functions");
  lua_pushvalue(L, CHUNK);
  lua_call(L, 0, 1);
  if (!lua_isnil(L, -1) && !lua_isstring(L, -1))
    luaL_error(L, "reader function must return a string");
  lua_replace(L, PIECE);
  return lua_tolstring(L, PIECE, size);
}

/* load(chunk [, name [, mode [, env]]]) */
static int load_text(lua_State *L) {
  size_t length;
  const char *text = lua_tolstring(L, CHUNK, &length);
  const char *name = luaL_optstring(L, NAME, text != NULL ? text : "=(load)");
  int env = lua_isnone(L, ENV) ? 0 : ENV;
  if (!accepts_text(L, MODE)) return 2;
  if (text != NULL) return return_loaded(L, ol_chunk_load_text(L, text, length, name), env);
  luaL_checktype(L, CHUNK, LUA_TFUNCTION);
  lua_settop(L, PIECE);
  int status = lua_load(L, read_piece, NULL, name, "t");
  return return_loaded(L, explain_refusal(L, status, NULL), env);
}

/* loadfile([file [, mode [, env]]]) */
static int load_text_file(lua_State *L) {
  const char *file = luaL_optstring(L, 1, NULL);
  int env = lua_isnone(L, 3) ? 0 : 3;
  if (!accepts_text(L, 2)) return 2;
  return return_loaded(L, ol_chunk_load_file(L, file), env);
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
  lua_register(L, "load", load_text);
  lua_register(L, "loadfile", load_text_file);
  lua_register(L, "dofile", run_text_file);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, search_text_file, 1);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}
