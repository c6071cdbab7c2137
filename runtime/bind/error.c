/* error: the texts of errors. */
#include "bind/error.h"

#include <ctype.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "autograd/anomaly.h"
#include "bind/native.h"
#include "bind/porting.h"
#include "bind/symbol.h"
#include "bind/tensor.h"

static const char kept = 'e'; /* its address is the key of the error of a script's function */

/* Where the library in Lua lies: its chunks are no scripts. A userdata-free C string, since
 * messages of failed allocations use it too. */
static char library[PATH_MAX];

/* Finds the script's line: of the innermost function that is not the library's. */
static bool find_place(lua_State *L, lua_Debug *place) {
  size_t length = strlen(library);
  for (int level = 1; length && lua_getstack(L, level, place); level++) {
    lua_getinfo(L, "Sl", place);
    if (place->currentline > 0 && strncmp(place->source, library, length) != 0) return true;
  }
  return false;
}

void ol_note_place(lua_State *L) {
  lua_Debug place;
  char text[OL_PLACE_TEXT] = "an unknown line";
  if (find_place(L, &place))
    snprintf(text, sizeof text, "%s:%d", place.short_src, place.currentline);
  ol_set_place(text);
}

/* Pushes "FILE:LINE: " of the script: of the innermost function that is not the library's; where
 * there is none, of whoever called the C function. */
static void push_place(lua_State *L) {
  lua_Debug place;
  if (find_place(L, &place))
    lua_pushfstring(L, "%s:%d: ", place.short_src, place.currentline);
  else
    luaL_where(L, 1);
}

int ol_throw(lua_State *L, const char *format, ...) {
  va_list arguments;
  push_place(L);
  va_start(arguments, format);
  lua_pushvfstring(L, format, arguments);
  va_end(arguments);
  lua_concat(L, 2);
  lua_error(L);
  __builtin_unreachable();
}

void ol_raise(lua_State *L, const ol_error *error) {
  if (error->status == OL_CALLBACK) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kept);
    ol_open_error(L);
    lua_error(L);
  }
  ol_throw(L, "%s", error->message);
}

void ol_open_error(lua_State *L) {
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kept);
}

ol_status ol_keep_error(lua_State *L, ol_error *error) {
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kept); /* the key is there: needs no memory */
  return ol_fail(error, OL_CALLBACK, "a function of the script failed");
}

const char *ol_value_text(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TNUMBER) return ol_type_text(L, index);
  lua_pushvalue(L, index);
  return lua_tostring(L, -1); /* stays on the stack, for its text */
}

const char *ol_type_text(lua_State *L, int index) {
  if (ol_is_tensor(L, index)) return ol_to_tensor(L, index) ? "tensor" : "released tensor";
  ol_symbol symbol;
  return ol_to_symbol(L, index, &symbol) ? "symbol" : luaL_typename(L, index);
}

/* Words longer than this are never near. */
#define WORD 48

static int least(int a, int b) { return a < b ? a : b; }

/* Letters to insert, delete, replace or swap with a neighbour to get from a to b. */
static int distance(const char *a, const char *b) {
  int rows[WORD + 1][WORD + 1];
  int n = (int)strlen(a), m = (int)strlen(b);
  for (int i = 0; i <= n; i++) rows[i][0] = i;
  for (int j = 0; j <= m; j++) rows[0][j] = j;
  for (int i = 1; i <= n; i++)
    for (int j = 1; j <= m; j++) {
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
      int best = least(rows[i - 1][j], rows[i][j - 1]) + 1;
      best = least(best, rows[i - 1][j - 1] + (x != y));
      if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
          y == tolower((unsigned char)a[i - 2]))
        best = least(best, rows[i - 2][j - 2] + 1);
      rows[i][j] = best;
    }
  return rows[n][m];
}

const char *ol_nearest(const char *name, const char *const *list, int count) {
  const char *found = NULL;
  int best = 0;
  if (strlen(name) > WORD) return NULL;
  for (int i = 0; i < count; i++) {
    if (strlen(list[i]) > WORD) continue;
    int d = distance(name, list[i]);
    size_t longest = strlen(name) > strlen(list[i]) ? strlen(name) : strlen(list[i]);
    if (2 * (size_t)d > longest || (found && d >= best)) continue;
    best = d;
    found = list[i];
  }
  return found;
}

void ol_raise_unknown(lua_State *L, const char *what, const char *kind, const char *name,
                      const char *const *list, int count) {
  const char *instead = ol_porting(name), *nearest = ol_nearest(name, list, count);
  luaL_Buffer text;
  push_place(L);
  luaL_buffinit(L, &text);
  lua_pushfstring(L, "%s: unknown %s \"%s\"", what, kind, name);
  luaL_addvalue(&text);
  if (instead || nearest) {
    lua_pushfstring(L, instead ? " (here: %s)" : " (did you mean \"%s\"?)",
                    instead ? instead : nearest);
    luaL_addvalue(&text);
  }
  luaL_addstring(&text, count ? "; legal: " : "; there are none");
  for (int i = 0; i < count; i++) {
    if (i) luaL_addstring(&text, ", ");
    luaL_addstring(&text, list[i]);
  }
  luaL_pushresult(&text);
  lua_concat(L, 2);
  lua_error(L);
  __builtin_unreachable();
}

/* nearest(name, list): the entry of a list of words that name was most likely meant to be, or nil.
 */
static int nearest(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int count = (int)luaL_len(L, 2);
  const char **list = lua_newuserdatauv(L, (size_t)count * sizeof *list + 1, 0);
  for (int i = 0; i < count; i++) {
    if (lua_rawgeti(L, 2, i + 1) != LUA_TSTRING)
      return luaL_argerror(L, 2, "list of words expected");
    list[i] = lua_tostring(L, -1); /* the list keeps it */
    lua_pop(L, 1);
  }
  lua_pushstring(L, ol_nearest(name, list, count));
  return 1;
}

/* set_library(prefix): chunks whose source begins so belong to the library; errors blame others. */
static int set_library(lua_State *L) {
  snprintf(library, sizeof library, "%s", luaL_checkstring(L, 1));
  return 0;
}

const ol_natives ol_error_natives = {
  .name = "error",
  .list = (const ol_native[]){ OL_HIDDEN("nearest", nearest),
                               OL_HIDDEN("set_library", set_library),
                               { { 0 } } },
};
