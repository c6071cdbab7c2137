/* floors: what no implementation can go under, as a Lua module for the benchmarks: loops over the
 * same bytes, loops written by hand, the bare matrix products of a step, an empty C call. */
#include <cblas.h>
#include <lauxlib.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "updates.h"

enum { CHUNK = 65536 };

/* step_products(times): the five products of a training step of 64-64-10 with batch 32, and
 * forward_products(times): the two of a forward pass with batch 1. */
static float x[32 * 64], w1[64 * 64], h[32 * 64], w2[10 * 64], y[32 * 10];

static void gemm(int ta, int tb, int m, int n, int k, const float *a, const float *b, float *c) {
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n,
              k, 1, a, ta ? m : k, b, tb ? k : n, 0, c, n);
}

static int step_products(lua_State *L) {
  static float g1[64 * 64], g2[10 * 64], gh[32 * 64];
  for (lua_Integer i = luaL_checkinteger(L, 1); i > 0; i--) {
    gemm(0, 1, 32, 64, 64, x, w1, h);
    gemm(0, 1, 32, 10, 64, h, w2, y);
    gemm(1, 0, 10, 64, 32, y, h, g2);
    gemm(0, 0, 32, 64, 10, y, w2, gh);
    gemm(1, 0, 64, 64, 32, gh, x, g1);
  }
  return 0;
}

static int forward_products(lua_State *L) {
  for (lua_Integer i = luaL_checkinteger(L, 1); i > 0; i--) {
    gemm(0, 1, 1, 64, 64, x, w1, h);
    gemm(0, 1, 1, 10, 64, h, w2, y);
  }
  return 0;
}

/* multiply(m, n, k, times): (m,n) = (m,k) (k,n). */
static int multiply(lua_State *L) {
  static float *block;
  static size_t last;
  int m = (int)luaL_checkinteger(L, 1), n = (int)luaL_checkinteger(L, 2);
  int k = (int)luaL_checkinteger(L, 3);
  size_t a = (size_t)m * (size_t)k, b = (size_t)k * (size_t)n, c = (size_t)m * (size_t)n;
  if (a + b + c > last) {
    free(block);
    block = calloc(a + b + c, sizeof *block);
    last = block ? a + b + c : 0;
    if (!block) return luaL_error(L, "floors: out of memory");
  }
  for (lua_Integer i = luaL_checkinteger(L, 4); i > 0; i--)
    gemm(0, 0, m, n, k, block, block + a, block + a + b);
  return 0;
}

/* move(bytes, times): half of the bytes are read, and the other half written. */
OL_KERNEL static void move_chunk(float *to, const float *from, lua_Integer n) {
  OL_APART for (lua_Integer i = 0; i < n; i++) to[i] = from[i] + 1;
}

static int move(lua_State *L) {
  static float *block;
  static lua_Integer last;
  lua_Integer n = luaL_checkinteger(L, 1) / 8;
  if (n > last) {
    free(block);
    block = calloc(2 * (size_t)n, sizeof *block);
    last = block ? n : 0;
    if (!block) return luaL_error(L, "floors: out of memory");
  }
  for (lua_Integer k = luaL_checkinteger(L, 2); k > 0; k--) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (n >= CHUNK)
#endif
    for (lua_Integer i = 0; i < n; i += CHUNK)
      move_chunk(block + i, block + last + i, n - i < CHUNK ? n - i : CHUNK);
  }
  return 0;
}

/* call(): an empty C function. */
static int call(lua_State *L) {
  (void)L;
  return 0;
}

__attribute__((visibility("default"))) int luaopen_floors(lua_State *L);

int luaopen_floors(lua_State *L) {
  static const luaL_Reg functions[] = { { "arrays", bench_arrays },
                                        { "copy", bench_copy },
                                        { "fused", bench_fused },
                                        { "step_products", step_products },
                                        { "forward_products", forward_products },
                                        { "multiply", multiply },
                                        { "move", move },
                                        { "call", call },
                                        { NULL, NULL } };
  luaL_newlib(L, functions);
  return 1;
}
