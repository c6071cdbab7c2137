/* tokens: files of token ids, for lua/optlua/data/tokens.lua. */
#include "io/tokens.h"

#include <lauxlib.h>

#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/scratch.h"
#include "bind/tensor.h"

static void drop(void *tokens) { ol_tokens_close(tokens); }

static const ol_scratch kind = { "optlua.tokens", sizeof(ol_tokens), drop };

/* tokens_open(path, format, dtype): the file, how many tokens it has, its format and dtype. */
static int tokens_open(lua_State *L) {
  static const char *const formats[] = { "any", "llmc", "nanogpt", NULL };
  static const char *const dtypes[] = { "any", "uint16", "uint32", NULL };
  ol_error error;
  const char *path = ol_check_path(L, 1);
  ol_tokens_format format = (ol_tokens_format)luaL_checkoption(L, 2, "any", formats);
  size_t width = 2 * (size_t)luaL_checkoption(L, 3, "any", dtypes);
  ol_tokens *tokens = ol_push_scratch(L, &kind, 0);
  ol_check(L, ol_tokens_open(&error, path, format, width, tokens), &error);
  lua_pushinteger(L, tokens->count);
  lua_pushstring(L, formats[tokens->format]);
  lua_pushstring(L, dtypes[tokens->width / 2]);
  return 4;
}

/* tokens_read(tokens, starts, length): starts (B) from 0 -> int64 (B, length). */
static int tokens_read(lua_State *L) {
  ol_error error;
  ol_tensor *ids = NULL;
  const ol_tokens *tokens = ol_check_scratch(L, 1, &kind);
  const ol_tensor *starts = ol_check_tensor(L, 2);
  int64_t length = luaL_checkinteger(L, 3);
  ol_push_slot(L);
  ol_check(L, ol_tokens_read(&error, tokens, starts, length, &ids), &error);
  ol_fill_slot(L, -1, ids);
  ol_feed_collector(L);
  return 1;
}

const ol_natives ol_tokens_natives = {
  .name = "tokens",
  .list = (const ol_native[]){ OL_HIDDEN("tokens_open", tokens_open),
                               OL_HIDDEN("tokens_read", tokens_read),
                               { { 0 } } },
};
