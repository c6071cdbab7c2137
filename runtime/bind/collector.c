/* collector: counts and feeds. */
#include "bind/collector.h"

#define CHUNK (INT64_C(1) << 20) /* bytes that make a step worth its cost */

static _Thread_local int64_t hungry; /* bytes counted and not yet reported */

void ol_count_bytes(const ol_tensor *tensor) {
  if (tensor->storage->object.references == 1) hungry += (int64_t)tensor->storage->size;
}

void ol_feed_collector(lua_State *L) {
  if (hungry < CHUNK) return;
  int64_t kilobytes = hungry >> 10;
  hungry = 0;
  if (lua_gc(L, LUA_GCISRUNNING))
    lua_gc(L, LUA_GCSTEP, (int)(kilobytes < 1 << 20 ? kilobytes : 1 << 20));
}
