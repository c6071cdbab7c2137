/* collector: counts and feeds. */
#include "bind/collector.h"

#include "base/local.h"
#include "base/memory.h"

#define CHUNK (INT64_C(1) << 20) /* bytes that make a step worth its cost */
#define SLACK                                                                                      \
  (INT64_C(16) << 20) /* bytes of garbage that are no matter; and a quarter of what is alive */

OL_THREAD_LOCAL int64_t hungry; /* bytes counted and not yet reported */
OL_THREAD_LOCAL int64_t kept;   /* bytes alive after the last whole cycle */

void ol_count_bytes(ol_tensor *tensor) {
  if (tensor->storage->counted) return;
  tensor->storage->counted = true;
  hungry += (int64_t)tensor->storage->size;
}

/* Garbage that may gather before a cycle is over. */
static int64_t slack(void) { return SLACK + kept / 4; }

/* The step for `bytes` of tensors, in KiB: their share of Lua's heap, at most themselves. */
static int step_size(lua_State *L, int64_t bytes) {
  double heap = lua_gc(L, LUA_GCCOUNT) * 1024.0;
  double share = heap < (double)slack() ? heap / (double)slack() : 1;
  double step = (double)bytes * share / 1024;
  return step < 1 ? 1 : step > 1 << 20 ? 1 << 20 : (int)step;
}

static void feed(lua_State *L, int64_t bytes) {
  bool over = lua_gc(L, LUA_GCSTEP, step_size(L, bytes));
  int64_t alive = ol_memory_read().live_bytes;
  if (!over && alive > kept + 2 * slack() + lua_gc(L, LUA_GCCOUNT) * INT64_C(2048)) {
    lua_gc(L, LUA_GCCOLLECT);
    alive = ol_memory_read().live_bytes;
    over = true;
  }
  if (over || alive < kept) kept = alive;
}

void ol_feed_collector(lua_State *L) {
  if (hungry < CHUNK) return;
  int64_t bytes = hungry;
  hungry = 0;
  if (lua_gc(L, LUA_GCISRUNNING)) feed(L, bytes);
}
