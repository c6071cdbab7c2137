/* safetensors: files of named tensors, for lua/optlua/safetensors.lua. */
#include "io/safetensors.h"

#include <lauxlib.h>
#include <string.h>

#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/scratch.h"
#include "bind/tensor.h"

static void drop(void *file) { ol_safetensors_close(file); }

static const ol_scratch kind = { "optlua.safetensors", sizeof(ol_safetensors), drop };

/* A text without a byte 0 inside. */
static const char *check_text(lua_State *L, int index, const char *what) {
  size_t length;
  if (lua_type(L, index) != LUA_TSTRING)
    ol_throw(L, "%s: string expected, got %s", what, ol_type_text(L, index));
  const char *text = lua_tolstring(L, index, &length);
  if (strlen(text) != length) ol_throw(L, "%s has no byte 0", what);
  return text;
}

/* ---- reading ---- */

static ol_safetensors *check_file(lua_State *L) {
  ol_safetensors *file = ol_check_scratch(L, 1, &kind);
  if (!file->stream) ol_throw(L, "the file is closed");
  return file;
}

static int close_file(lua_State *L) {
  ol_safetensors_close(ol_check_scratch(L, 1, &kind));
  return 0;
}

/* open(path): the file, to be closed. */
static int open_file(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  ol_safetensors *file = ol_push_scratch(L, &kind, 0);
  ol_check(L, ol_safetensors_open(&error, path, file), &error);
  return 1;
}

static void push_stored(lua_State *L, const ol_stored *stored) {
  lua_createtable(L, 0, 4);
  lua_pushstring(L, stored->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, stored->element->name);
  lua_setfield(L, -2, "stored");
  if (stored->element->held) {
    lua_pushstring(L, ol_dtype_name(stored->element->dtype));
    lua_setfield(L, -2, "dtype");
  }
  lua_createtable(L, stored->shape.ndim > 0 ? stored->shape.ndim : 0, 0);
  for (int d = 0; d < stored->shape.ndim; d++) {
    lua_pushinteger(L, stored->shape.size[d]);
    lua_rawseti(L, -2, d + 1);
  }
  lua_setfield(L, -2, "shape");
}

/* list(file): { name, stored (type in the file), dtype (nil: tensors hold no such), shape } for
 * each tensor, and the metadata by key. */
static int list_file(lua_State *L) {
  const ol_safetensors *file = check_file(L);
  lua_createtable(L, (int)file->count, 0);
  for (int64_t i = 0; i < file->count; i++) {
    push_stored(L, &file->tensor[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_createtable(L, 0, (int)file->notes);
  for (int64_t i = 0; i < file->notes; i++) {
    lua_pushstring(L, file->note[i].value);
    lua_setfield(L, -2, file->note[i].key);
  }
  return 2;
}

static ol_dtype check_dtype(lua_State *L, int index) {
  ol_dtype dtype;
  if (!ol_dtype_parse(luaL_checkstring(L, index), &dtype)) luaL_argerror(L, index, "unknown dtype");
  return dtype;
}

/* read(file, i, dtype): tensor i of the list, as that dtype. */
static int read_file(lua_State *L) {
  ol_error error;
  ol_tensor *tensor;
  ol_safetensors *file = check_file(L);
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i <= file->count, 2, "no such tensor");
  ol_dtype dtype = check_dtype(L, 3);
  ol_push_slot(L);
  ol_check(L, ol_safetensors_read(&error, file, &file->tensor[i - 1], dtype, &tensor), &error);
  ol_fill_slot(L, -1, tensor);
  ol_feed_collector(L);
  return 1;
}

/* converts(stored, dtype): whether a type in files can become a dtype; nil: there is no such type.
 */
static int converts(lua_State *L) {
  const ol_element *element = ol_element_find(luaL_checkstring(L, 1));
  if (element)
    lua_pushboolean(L, ol_element_converts(element, check_dtype(L, 2)));
  else
    lua_pushnil(L);
  return 1;
}

/* ---- writing ---- */

/* The strings of the lists at `keys` and `values`, as notes; the lists keep them. */
static ol_note *check_notes(lua_State *L, int keys, int values, int64_t *count) {
  *count = (int64_t)lua_rawlen(L, keys);
  ol_note *notes = lua_newuserdatauv(L, (size_t)*count * sizeof *notes + 1, 0);
  for (int64_t i = 0; i < *count; i++) {
    lua_rawgeti(L, keys, i + 1);
    lua_rawgeti(L, values, i + 1);
    notes[i].key = check_text(L, -2, "a key of the metadata");
    notes[i].value = check_text(L, -1, "a value of the metadata");
    lua_pop(L, 2);
  }
  return notes;
}

/* write(path, names, tensors, keys, values): lists of names and their tensors; of the metadata's
 * keys and values. */
static int write_file(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  for (int list = 2; list <= 5; list++) luaL_checktype(L, list, LUA_TTABLE);
  int64_t count = (int64_t)lua_rawlen(L, 2), note_count;
  ol_named *named = lua_newuserdatauv(L, (size_t)count * sizeof *named + 1, 0);
  for (int64_t i = 0; i < count; i++) {
    lua_rawgeti(L, 2, i + 1);
    lua_rawgeti(L, 3, i + 1);
    named[i].name = check_text(L, -2, "a tensor's name");
    named[i].tensor = ol_check_tensor(L, -1);
    lua_pop(L, 2);
  }
  ol_note *notes = check_notes(L, 4, 5, &note_count);
  ol_check(L, ol_safetensors_write(&error, path, named, count, notes, note_count), &error);
  return 0;
}

const ol_natives ol_safetensors_natives = {
  .name = "safetensors",
  .list = (const ol_native[]){ OL_HIDDEN("safetensors_open", open_file),
                               OL_HIDDEN("safetensors_close", close_file),
                               OL_HIDDEN("safetensors_list", list_file),
                               OL_HIDDEN("safetensors_read", read_file),
                               OL_HIDDEN("safetensors_converts", converts),
                               OL_HIDDEN("safetensors_write", write_file),
                               { { 0 } } },
};
