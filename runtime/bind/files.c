/* files: the readers of data files, for lua/optlua/data. */
#include <lauxlib.h>
#include <string.h>

#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/scratch.h"
#include "bind/tensor.h"
#include "io/folder.h"
#include "io/gzip.h"
#include "io/idx.h"
#include "io/utf8.h"

/* idx_read(path): the array in an IDX file. */
static int idx_read(lua_State *L) {
  ol_error error;
  ol_tensor *tensor;
  const char *path = ol_check_path(L, 1);
  ol_push_slot(L);
  ol_check(L, ol_idx_read(&error, path, &tensor), &error);
  ol_fill_slot(L, -1, tensor);
  ol_feed_collector(L);
  return 1;
}

static void drop_folder(void *folder) { ol_folder_drop(folder); }

static const ol_scratch folder_kind = { "optlua.folder", sizeof(ol_folder), drop_folder };

/* One entry as a table; true fields only. */
static void push_entry(lua_State *L, const ol_folder_entry *entry) {
  lua_createtable(L, 0, 2);
  lua_pushstring(L, entry->name);
  lua_setfield(L, -2, "name");
  const bool is[] = { entry->is_file, entry->is_folder, entry->is_link };
  static const char *const names[] = { "is_file", "is_folder", "is_link" };
  for (int i = 0; i < 3; i++)
    if (is[i]) {
      lua_pushboolean(L, true);
      lua_setfield(L, -2, names[i]);
    }
}

/* folder_list(path): a list of { name, is_file, is_folder, is_link }, sorted. */
static int folder_list(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  ol_folder *folder = ol_push_scratch(L, &folder_kind, 0);
  ol_check(L, ol_folder_read(&error, path, folder), &error);
  lua_newtable(L);
  for (size_t i = 0; i < folder->count; i++) {
    push_entry(L, &folder->entry[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  ol_folder_drop(folder);
  return 1;
}

/* Bytes of the mark that may stand before a text in UTF-8, and is no part of it. */
static size_t mark_of(const char *text, size_t size) {
  return size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Makes the units of a text: its code points, or its bytes. */
static ol_status units_of(ol_error *error, const char *text, size_t size, bool bytes,
                          ol_tensor **out) {
  if (bytes) return ol_bytes_tensor(error, text, size, out);
  return ol_utf8_decode(error, text, size, out);
}

static ol_status units_in(ol_error *error, const char *path, bool bytes, ol_tensor **out) {
  char *text;
  size_t size;
  OL_TRY(ol_gzip_read(error, path, &text, &size));
  const size_t skip = bytes ? 0 : mark_of(text, size);
  ol_status status = units_of(error, text + skip, size - skip, bytes, out);
  ol_free(text);
  return status == OL_OK ? OL_OK : ol_fail_in(error, path);
}

static int push_units(lua_State *L, ol_status status, const ol_error *error, ol_tensor *units) {
  ol_check(L, status, error);
  ol_fill_slot(L, -1, units);
  ol_feed_collector(L);
  return 1;
}

/* text_units(text, bytes): the code points of a text, or if `bytes` its bytes. */
static int text_units(lua_State *L) {
  ol_error error;
  ol_tensor *units = NULL;
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  ol_push_slot(L);
  ol_status status = units_of(&error, text, size, lua_toboolean(L, 2), &units);
  return push_units(L, status, &error, units);
}

/* file_units(path, bytes): the same of a file, decompressed where it is gzipped. */
static int file_units(lua_State *L) {
  ol_error error;
  ol_tensor *units = NULL;
  const char *path = ol_check_path(L, 1);
  ol_push_slot(L);
  ol_status status = units_in(&error, path, lua_toboolean(L, 2), &units);
  return push_units(L, status, &error, units);
}

const ol_natives ol_files_natives = {
  .name = "files",
  .list = (const ol_native[]){ OL_HIDDEN("idx_read", idx_read),
                               OL_HIDDEN("folder_list", folder_list),
                               OL_HIDDEN("text_units", text_units),
                               OL_HIDDEN("file_units", file_units),
                               { { 0 } } },
};
