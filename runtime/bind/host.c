/* host: what the library in Lua needs of the machine: clocks, terminals, orders of data. */
#include <lauxlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/rng.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/tensor.h"

/* permutation(n, seed, stream): 0 … n-1 in an order that depends on the three numbers alone. */
static int permutation(lua_State *L) {
  ol_shape shape = { .ndim = 1, .size = { luaL_checkinteger(L, 1) } };
  ol_rng rng = { .seed = (uint64_t)luaL_checkinteger(L, 2),
                 .stream = (uint32_t)luaL_checkinteger(L, 3) };
  ol_error error;
  ol_tensor *order;
  ol_push_slot(L);
  ol_check(L, ol_tensor_new(&error, OL_I64, &shape, &order), &error);
  ol_fill_slot(L, -1, order);
  int64_t *items = ol_tensor_data(order);
  for (int64_t i = 0; i < order->numel; i++) items[i] = i;
  ol_rng_shuffle(&rng, items, order->numel);
  return 1;
}

/* random_pair(seed, stream, block): two numbers in [0, 1) that depend on the three alone. */
static int random_pair(lua_State *L) {
  uint32_t bits[4], stream = (uint32_t)luaL_checkinteger(L, 2) | 1u << 31; /* not an order's */
  ol_rng_block((uint64_t)luaL_checkinteger(L, 1), stream, (uint64_t)luaL_checkinteger(L, 3), bits);
  for (int i = 0; i < 4; i += 2) lua_pushnumber(L, ol_rng_unit(bits[i], bits[i + 1]));
  return 2;
}

/* isatty(number): whether a file descriptor is a terminal. */
static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* clock(): seconds of a clock that never goes back. */
static int monotonic(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lua_pushnumber(L, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
  return 1;
}

/* time(): seconds since 1970, with their fraction. */
static int wall_time(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  lua_pushnumber(L, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
  return 1;
}

/* memory(): the counters of the allocator. */
static int memory(lua_State *L) {
  ol_memory_stats stats = ol_memory_read();
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, stats.live_bytes);
  lua_setfield(L, -2, "live_bytes");
  lua_pushinteger(L, stats.live_blocks);
  lua_setfield(L, -2, "live_blocks");
  lua_pushinteger(L, stats.total_bytes);
  lua_setfield(L, -2, "total_bytes");
  lua_pushinteger(L, stats.total_blocks);
  lua_setfield(L, -2, "total_blocks");
  return 1;
}

/* dtypes(): the bytes of an element of each dtype, by name. */
static int dtypes(lua_State *L) {
  lua_createtable(L, 0, OL_DTYPES);
  for (int dtype = 0; dtype < OL_DTYPES; dtype++) {
    lua_pushinteger(L, (lua_Integer)ol_dtype_size((ol_dtype)dtype));
    lua_setfield(L, -2, ol_dtype_name((ol_dtype)dtype));
  }
  return 1;
}

/* fail_allocations(n, persistent): for tests: n allocations succeed, and the next one (or all that
 * follow) fails; negative: none. Returns what was left of the count before. */
static int fail_allocations(lua_State *L) {
  lua_pushinteger(L, ol_memory_fail_after(luaL_checkinteger(L, 1), lua_toboolean(L, 2)));
  return 1;
}

/* poison_memory(on): for tests: new memory that is not zeroed reads as NaN. */
static int poison_memory(lua_State *L) {
  ol_memory_poison(lua_toboolean(L, 1));
  return 0;
}

/* limit_memory(bytes): for tests: larger allocations fail; 0: none for its size. */
static int limit_memory(lua_State *L) {
  ol_memory_limit((size_t)luaL_checkinteger(L, 1));
  return 0;
}

const ol_natives ol_host_natives = {
  .name = "host",
  .list = (const ol_native[]){ OL_HIDDEN("permutation", permutation),
                               OL_HIDDEN("random_pair", random_pair),
                               OL_HIDDEN("isatty", is_terminal),
                               { .op = { .name = "clock",
                                         .doc = "Seconds of a clock that never goes back, for "
                                                "differences.",
                                         .example = "local start = optlua.clock()\n"
                                                    "print(optlua.clock() - start < 60) --> true",
                                         .flags = OL_OP_FUNCTION },
                                 .call = monotonic },
                               OL_HIDDEN("time", wall_time),
                               OL_HIDDEN("memory", memory),
                               OL_HIDDEN("dtypes", dtypes),
                               OL_HIDDEN("fail_allocations", fail_allocations),
                               OL_HIDDEN("poison_memory", poison_memory),
                               OL_HIDDEN("limit_memory", limit_memory),
                               { .call = NULL } },
};
