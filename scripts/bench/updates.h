/* updates: floors of updates, as functions for Lua: loops over the very arrays of an optimizer. */
#ifndef BENCH_UPDATES_H
#define BENCH_UPDATES_H

#include <lauxlib.h>

/* arrays(written, read): lists of contiguous float32 tensors of one size, at most 6 and 4. */
int bench_arrays(lua_State *L);

/* copy(arrays, times): moves their bytes, and computes almost nothing. */
int bench_copy(lua_State *L);

/* fused(name, arrays, times): an update written by hand; the arrays written are the parameter and
 * its states, the one that is read the gradient. */
int bench_fused(lua_State *L);

#endif
