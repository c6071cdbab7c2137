/* complete: the names that can stand at the end of a piece of Lua. */
#include "main/complete.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

#define INDEX_DEPTH 16 /* how many tables are followed through __index */

static const char *const keywords[] = { "and",   "break", "do",       "else", "elseif", "end",
                                        "false", "for",   "function", "goto", "if",     "in",
                                        "local", "nil",   "not",      "or",   "repeat", "return",
                                        "then",  "true",  "until",    "while" };

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t name_length(const char *text) {
  size_t length = 0;
  while (is_name(text[length])) length++;
  return length;
}

/* Whether a line ends inside a string or a comment, where no names are completed. */
static bool ends_in_literal(const char *text) {
  char quote = '\0';
  for (; *text != '\0'; text++) {
    if (quote != '\0') {
      if (*text == '\\' && text[1] != '\0')
        text++;
      else if (*text == quote)
        quote = '\0';
    } else if (*text == '"' || *text == '\'') {
      quote = *text;
    } else if (text[0] == '-' && text[1] == '-') {
      return true;
    }
  }
  return quote != '\0';
}

/* Where the chain at the end of a text begins: a.b[1]:c, and not ..c */
static const char *chain_begin(const char *text) {
  const char *at = text + strlen(text);
  while (at > text) {
    char c = at[-1];
    if (c == ']') {
      do at--;
      while (at > text && isdigit((unsigned char)at[-1]));
      if (at == text || at[-1] != '[') return NULL;
    } else if (!is_name(c) && (c != '.' || (at - text > 1 && at[-2] == '.')) && c != ':') {
      return at;
    }
    at--;
  }
  return at;
}

/* Adds a name to the sorted list at index `list`, unless it is there. */
static void add(lua_State *L, int list, const char *name) {
  lua_Integer last = (lua_Integer)lua_rawlen(L, list), at = last;
  int order = 1;
  for (; at > 0; at--) {
    lua_rawgeti(L, list, at);
    order = strcmp(lua_tostring(L, -1), name);
    lua_pop(L, 1);
    if (order <= 0) break;
  }
  if (at > 0 && order == 0) return;
  for (lua_Integer i = last; i > at; i--) {
    lua_rawgeti(L, list, i);
    lua_rawseti(L, list, i + 1);
  }
  lua_pushstring(L, name);
  lua_rawseti(L, list, at + 1);
}

/* Whether a name completes a word. */
static bool completes(const char *name, const char *word) {
  size_t length = name_length(name);
  if (length == 0 || name[length] != '\0' || isdigit((unsigned char)name[0])) return false;
  return strncmp(name, word, strlen(word)) == 0 && (name[0] != '_' || word[0] == '_');
}

static bool is_callable(lua_State *L, int index) {
  if (lua_isfunction(L, index)) return true;
  if (luaL_getmetafield(L, index, "__call") == LUA_TNIL) return false;
  lua_pop(L, 1);
  return true;
}

/* Adds the keys of the table on top that complete the word. */
static void add_keys(lua_State *L, int list, const char *word, bool callable) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (completes(name, word) && (!callable || is_callable(L, -1))) add(L, list, name);
    lua_pop(L, 1);
  }
}

/* Adds the names that the value on top answers to: its keys, and those of its __names or, without
 * it, its __index, and so on. */
static void add_fields(lua_State *L, int list, const char *word, bool callable) {
  for (int depth = 0; depth < INDEX_DEPTH; depth++) {
    if (lua_istable(L, -1)) add_keys(L, list, word, callable);
    if (luaL_getmetafield(L, -1, "__names") == LUA_TNIL &&
        luaL_getmetafield(L, -1, "__index") == LUA_TNIL)
      return;
  }
}

/* Steps from the value on top over a[1][2]. Returns what follows. */
static const char *step_elements(lua_State *L, const char *at) {
  while (*at == '[') {
    lua_Unsigned element = 0;
    for (at++; isdigit((unsigned char)*at); at++)
      element = 10 * element + (lua_Unsigned)(*at - '0');
    lua_geti(L, -1, (lua_Integer)element);
    lua_remove(L, -2);
    at++;
  }
  return at;
}

/* Steps from the globals, on top, to the value whose fields are wanted. Returns the last word of
 * the chain and what stands before it, or NULL where the chain is none. */
static const char *step_chain(lua_State *L, const char *at, char *separator) {
  for (;;) {
    size_t length = name_length(at);
    if (at[length] == '\0') return at;
    if (length == 0) return NULL;
    lua_pushlstring(L, at, length);
    lua_gettable(L, -2);
    lua_remove(L, -2);
    at = step_elements(L, at + length);
    *separator = *at++;
    if (*separator != '.' && *separator != ':') return NULL;
  }
}

size_t ol_complete(lua_State *L, const char *text, size_t length) {
  char separator = '\0';
  luaL_checkstack(L, INDEX_DEPTH + LUA_MINSTACK, "to complete a name");
  lua_newtable(L);
  int list = lua_gettop(L);
  text = lua_pushlstring(L, text, length);
  const char *word = ends_in_literal(text) ? NULL : chain_begin(text);
  lua_pushglobaltable(L);
  if (word != NULL) word = step_chain(L, word, &separator);
  if (word != NULL) add_fields(L, list, word, separator == ':');
  for (size_t i = 0; word != NULL && separator == '\0' && i < sizeof keywords / sizeof *keywords;
       i++)
    if (completes(keywords[i], word)) add(L, list, keywords[i]);
  lua_settop(L, list);
  return word != NULL ? length - (size_t)(word - text) : 0;
}
