/* json: values of Lua as JSON and back, through jansson: for configs, logs and the records of runs.
 */
#include <jansson.h>
#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/native.h"
#include "bind/scratch.h"
#include "io/utf8.h"

enum { DEPTH = 100 };

/* What jansson owns, in a userdata that releases it, whatever is raised. */
typedef struct holder {
  json_t *tree;
  char *text;
} holder;

static void drop(void *self) {
  holder *own = self;
  json_decref(own->tree);
  free(own->text);
  *own = (holder){ NULL, NULL };
}

static const ol_scratch kind = { "optlua.json", sizeof(holder), drop };

static holder *push_holder(lua_State *L) { return ol_push_scratch(L, &kind, 0); }

static int out_of_memory(lua_State *L) { return luaL_error(L, "out of memory: a JSON value"); }

/* Reading ------------------------------------------------------------------------------------- */

static void push_value(lua_State *L, json_t *value);

static void push_array(lua_State *L, json_t *array) {
  size_t i;
  json_t *item;
  lua_createtable(L, (int)json_array_size(array), 0);
  json_array_foreach(array, i, item) {
    push_value(L, item);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static void push_object(lua_State *L, json_t *object) {
  const char *key;
  json_t *item;
  lua_createtable(L, 0, (int)json_object_size(object));
  json_object_foreach(object, key, item) {
    push_value(L, item);
    lua_setfield(L, -2, key);
  }
}

static void push_value(lua_State *L, json_t *value) {
  luaL_checkstack(L, 4, "JSON nests too deeply");
  switch (json_typeof(value)) {
  case JSON_OBJECT: push_object(L, value); break;
  case JSON_ARRAY: push_array(L, value); break;
  case JSON_STRING: lua_pushlstring(L, json_string_value(value), json_string_length(value)); break;
  case JSON_INTEGER: lua_pushinteger(L, json_integer_value(value)); break;
  case JSON_REAL: lua_pushnumber(L, json_real_value(value)); break;
  case JSON_TRUE:
  case JSON_FALSE: lua_pushboolean(L, json_is_true(value)); break;
  case JSON_NULL: lua_pushlightuserdata(L, NULL); break;
  }
}

/* json_decode(text): the value, or nil and what is wrong; null is the light userdata NULL. */
static int decode(lua_State *L) {
  size_t size;
  json_error_t error;
  const char *text = luaL_checklstring(L, 1, &size);
  holder *own = push_holder(L);
  own->tree =
      json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
  if (!own->tree) {
    lua_pushnil(L);
    lua_pushfstring(L, "line %d, column %d: %s", error.line, error.column, error.text);
    return 2;
  }
  push_value(L, own->tree);
  return 1;
}

/* Writing ------------------------------------------------------------------------------------- */

static json_t *make_value(lua_State *L, int index, int depth);

static json_t *make_number(lua_State *L, int index) {
  if (lua_isinteger(L, index)) return json_integer(lua_tointeger(L, index));
  lua_Number number = lua_tonumber(L, index);
  if (!isfinite(number)) return json_null(); /* JSON has no word for it */
  return json_real(number);
}

static json_t *make_string(lua_State *L, int index) {
  size_t size;
  const char *text = lua_tolstring(L, index, &size);
  if (!ol_is_utf8(text, size)) luaL_error(L, "JSON: a text that is no UTF-8");
  return json_stringn_nocheck(text, size);
}

/* Adds to a tree that already hangs in the holder: what is raised below leaks nothing. */
static void fill_array(lua_State *L, int index, json_t *array, int depth) {
  lua_Integer count = (lua_Integer)lua_rawlen(L, index);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, index, i);
    json_t *item = make_value(L, lua_gettop(L), depth);
    if (json_array_append_new(array, item) != 0) out_of_memory(L);
    lua_pop(L, 1);
  }
}

/* A key; jansson's end at a byte 0. */
static const char *check_key(lua_State *L, int index) {
  size_t size;
  const char *key = lua_tolstring(L, index, &size);
  if (!ol_is_utf8(key, size)) luaL_error(L, "JSON: a key that is no UTF-8: %s", key);
  if (strlen(key) != size) luaL_error(L, "JSON: a key with a byte 0: %s", key);
  return key;
}

static void fill_object(lua_State *L, int index, json_t *object, int depth) {
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      luaL_error(L, "JSON: a key that is no text: a %s", luaL_typename(L, -2));
    const char *key = check_key(L, -2);
    json_t *item = make_value(L, lua_gettop(L), depth);
    if (json_object_set_new_nocheck(object, key, item) != 0) out_of_memory(L);
    lua_pop(L, 1);
  }
}

/* Whether a table is a list, which has no names; an empty table is an object. */
static bool is_list(lua_State *L, int index) {
  lua_Unsigned length = lua_rawlen(L, index), keys = 0;
  if (length == 0) return false;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    keys++;
  }
  if (keys > length) luaL_error(L, "JSON: a table with both a list and names");
  return true;
}

/* A table: what is below it may raise, so it waits in a holder of its own. */
static json_t *make_table(lua_State *L, int index, int depth) {
  if (depth == 0) luaL_error(L, "JSON: tables nest deeper than %d, or contain themselves", DEPTH);
  luaL_checkstack(L, 8, "JSON");
  bool list = is_list(L, index);
  holder *own = push_holder(L);
  own->tree = list ? json_array() : json_object();
  if (!own->tree) out_of_memory(L);
  if (list)
    fill_array(L, index, own->tree, depth - 1);
  else
    fill_object(L, index, own->tree, depth - 1);
  json_t *made = own->tree;
  own->tree = NULL;
  lua_pop(L, 1);
  return made;
}

static json_t *make_value(lua_State *L, int index, int depth) {
  json_t *value = NULL;
  switch (lua_type(L, index)) {
  case LUA_TTABLE: return make_table(L, index, depth);
  case LUA_TSTRING: value = make_string(L, index); break;
  case LUA_TNUMBER: value = make_number(L, index); break;
  case LUA_TBOOLEAN: value = json_boolean(lua_toboolean(L, index)); break;
  case LUA_TLIGHTUSERDATA: value = json_null(); break;
  default: luaL_error(L, "JSON: a %s cannot be written", luaL_typename(L, index));
  }
  if (!value) out_of_memory(L);
  return value;
}

/* json_encode(value, indent): numbers with 17 digits, keys sorted; indent 0 is one line. NaN and
 * infinity are null. */
static int encode(lua_State *L) {
  size_t indent = (size_t)luaL_optinteger(L, 2, 0);
  size_t flags = JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
  holder *own = push_holder(L);
  own->tree = make_value(L, 1, DEPTH);
  own->text = json_dumps(own->tree, flags | (indent ? JSON_INDENT(indent) : JSON_COMPACT));
  if (!own->text) out_of_memory(L);
  lua_pushstring(L, own->text);
  return 1;
}

const ol_natives ol_json_natives = {
  .name = "json",
  .list = (const ol_native[]){ OL_HIDDEN("json_decode", decode),
                               OL_HIDDEN("json_encode", encode),
                               { { 0 } } },
};
