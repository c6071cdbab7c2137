/* csv: tables of text, for lua/optlua/data/csv.lua. Rows and columns count from 1. */
#include "io/csv.h"

#include <lauxlib.h>

#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/scratch.h"
#include "bind/tensor.h"

static void drop(void *csv) { ol_csv_drop(csv); }

static const ol_scratch kind = { "optlua.csv", sizeof(ol_csv), drop };

static char check_letter(lua_State *L, int arg) {
  size_t length;
  const char *text = luaL_checklstring(L, arg, &length);
  luaL_argcheck(L, length == 1, arg, "one byte expected");
  return *text;
}

/* csv_read(path, delimiter, quote): the table, its rows and columns. */
static int csv_read(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  char delimiter = check_letter(L, 2), quote = check_letter(L, 3);
  ol_csv *csv = ol_push_scratch(L, &kind, 0);
  ol_check(L, ol_csv_read(&error, path, delimiter, quote, csv), &error);
  lua_pushinteger(L, (lua_Integer)csv->rows);
  lua_pushinteger(L, (lua_Integer)csv->columns);
  return 3;
}

/* A row, or with one more than there are the end of them, counted from 0. */
static size_t check_row(lua_State *L, const ol_csv *csv, size_t more) {
  lua_Integer row = luaL_checkinteger(L, 2);
  luaL_argcheck(L, row >= 1 && (size_t)row <= csv->rows + more, 2, "no such row");
  return (size_t)row - 1;
}

static size_t check_column(lua_State *L, const ol_csv *csv) {
  lua_Integer column = luaL_checkinteger(L, 3);
  bool there = column >= 1 && ((size_t)column <= csv->columns || csv->rows == 0);
  luaL_argcheck(L, there, 3, "no such column");
  return (size_t)column - 1;
}

/* csv_text(csv, row, column) */
static int csv_text(lua_State *L) {
  const ol_csv *csv = ol_check_scratch(L, 1, &kind);
  size_t row = check_row(L, csv, 0), length;
  const char *text = ol_csv_text(csv, row, check_column(L, csv), &length);
  lua_pushlstring(L, text, length);
  return 1;
}

/* csv_place(csv, row, column): line and byte. */
static int csv_place(lua_State *L) {
  const ol_csv *csv = ol_check_scratch(L, 1, &kind);
  size_t row = check_row(L, csv, 0), line, byte;
  ol_csv_place(csv, row, check_column(L, csv), &line, &byte);
  lua_pushinteger(L, (lua_Integer)line);
  lua_pushinteger(L, (lua_Integer)byte);
  return 2;
}

/* The list of texts at index 4 as marks; those texts stay in it. */
static ol_csv_marks check_marks(lua_State *L, bool of_texts) {
  luaL_checktype(L, 4, LUA_TTABLE);
  size_t count = lua_rawlen(L, 4);
  const char **text = lua_newuserdatauv(L, (count + 1) * sizeof *text, 0);
  for (size_t i = 0; i < count; i++) {
    luaL_argcheck(L, lua_rawgeti(L, 4, (lua_Integer)i + 1) == LUA_TSTRING, 4, "strings expected");
    text[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  return (ol_csv_marks){ .text = text, .count = count, .of_texts = of_texts };
}

/* csv_kind(csv, first, column, marks): "integer", "float" or "text". */
static int csv_kind(lua_State *L) {
  static const char *const names[] = { "integer", "float", "text" };
  const ol_csv *csv = ol_check_scratch(L, 1, &kind);
  size_t first = check_row(L, csv, 1), column = check_column(L, csv);
  ol_csv_marks marks = check_marks(L, false);
  lua_pushstring(L, names[ol_csv_kind_of(csv, first, column, &marks)]);
  return 1;
}

static int push_column(lua_State *L, ol_status status, const ol_error *error, ol_tensor *column) {
  ol_check(L, status, error);
  ol_fill_slot(L, -1, column);
  ol_feed_collector(L);
  return 1;
}

/* csv_missing(csv, first, column, marks, of_texts): a mask of rows. */
static int csv_missing(lua_State *L) {
  ol_error error;
  ol_tensor *mask = NULL;
  const ol_csv *csv = ol_check_scratch(L, 1, &kind);
  size_t first = check_row(L, csv, 1), column = check_column(L, csv);
  ol_csv_marks marks = check_marks(L, lua_toboolean(L, 5));
  ol_push_slot(L);
  ol_status status = ol_csv_missing(&error, csv, first, column, &marks, &mask);
  return push_column(L, status, &error, mask);
}

/* csv_numbers(csv, first, column, marks, whole): int64 if whole, else float64. */
static int csv_numbers(lua_State *L) {
  ol_error error;
  ol_tensor *numbers = NULL;
  const ol_csv *csv = ol_check_scratch(L, 1, &kind);
  size_t first = check_row(L, csv, 1), column = check_column(L, csv);
  ol_csv_marks marks = check_marks(L, false);
  ol_csv_kind type = lua_toboolean(L, 5) ? OL_CSV_INTEGER : OL_CSV_FLOAT;
  ol_push_slot(L);
  ol_status status = ol_csv_numbers(&error, csv, first, column, type, &marks, &numbers);
  return push_column(L, status, &error, numbers);
}

const ol_natives ol_csv_natives = {
  .name = "csv",
  .list = (const ol_native[]){ OL_HIDDEN("csv_read", csv_read),
                               OL_HIDDEN("csv_text", csv_text),
                               OL_HIDDEN("csv_place", csv_place),
                               OL_HIDDEN("csv_kind", csv_kind),
                               OL_HIDDEN("csv_missing", csv_missing),
                               OL_HIDDEN("csv_numbers", csv_numbers),
                               { { 0 } } },
};
