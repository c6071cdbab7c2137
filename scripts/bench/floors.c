/* floors: what no implementation can go under, as a Lua module for the benchmarks: loops over the
 * same bytes, loops written by hand, the bare matrix products of a step, an empty C call. */
#include <cblas.h>
#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "tensor/tensor.h"

enum { CHUNK = 65536 };

/* Four arrays of n floats: p, g, m, v. */
typedef struct arrays {
  float *p, *g, *m, *v;
  lua_Integer n;
} arrays;

/* The elements of a contiguous tensor of float32, whose userdata begins with its address. */
static float *elements(lua_State *L, int arg, lua_Integer *n) {
  const ol_tensor *tensor = *(ol_tensor **)lua_touserdata(L, arg);
  *n = tensor->numel;
  return ol_tensor_data(tensor);
}

/* arrays(p, g, m, v): those of an optimizer, because where memory lies changes how fast it is. */
static int new_arrays(lua_State *L) {
  arrays *a = lua_newuserdatauv(L, sizeof *a, 4);
  luaL_setmetatable(L, "floors.arrays");
  float **array_of[] = { &a->p, &a->g, &a->m, &a->v };
  for (int i = 0; i < 4; i++) {
    *array_of[i] = elements(L, i + 1, &a->n);
    lua_pushvalue(L, i + 1);
    lua_setiuservalue(L, -2, i + 1);
  }
  return 1;
}

/* Reads p, g, m, v; writes p, m, v: 28 bytes an element, and almost no arithmetic. */
OL_KERNEL static void copy_chunk(float *p, const float *g, float *m, float *v, lua_Integer n) {
  OL_APART
  for (lua_Integer i = 0; i < n; i++) {
    p[i] = p[i] + g[i];
    m[i] = m[i] + 1;
    v[i] = v[i] + 1;
  }
}

/* AdamW, written by hand. */
OL_KERNEL static void adamw_chunk(float *p, const float *g, float *m, float *v, lua_Integer n) {
  const float b1 = 0.9f, b2 = 0.999f, decay = 1 - 1e-5f, rate = 1e-3f, root = 2, eps = 1e-8f;
  OL_APART
  for (lua_Integer i = 0; i < n; i++) {
    float first = b1 * m[i] + (1 - b1) * g[i], second = b2 * v[i] + (1 - b2) * (g[i] * g[i]);
    p[i] = p[i] * decay - rate * (first / (root * sqrtf(second) + eps));
    m[i] = first;
    v[i] = second;
  }
}

typedef void chunk_fn(float *, const float *, float *, float *, lua_Integer);

static void run(const arrays *a, chunk_fn *fn) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (a->n >= CHUNK)
#endif
  for (lua_Integer i = 0; i < a->n; i += CHUNK)
    fn(a->p + i, a->g + i, a->m + i, a->v + i, a->n - i < CHUNK ? a->n - i : CHUNK);
}

/* copy(arrays, times), adamw(arrays, times) */
static int copy(lua_State *L) {
  const arrays *a = luaL_checkudata(L, 1, "floors.arrays");
  for (lua_Integer k = luaL_checkinteger(L, 2); k > 0; k--) run(a, copy_chunk);
  return 0;
}

static int adamw(lua_State *L) {
  const arrays *a = luaL_checkudata(L, 1, "floors.arrays");
  for (lua_Integer k = luaL_checkinteger(L, 2); k > 0; k--) run(a, adamw_chunk);
  return 0;
}

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

/* multiply(size, times): square matrices. */
static int multiply(lua_State *L) {
  static float *block;
  static int last;
  int size = (int)luaL_checkinteger(L, 1);
  if (size > last) {
    free(block);
    block = calloc(3 * (size_t)size * (size_t)size, sizeof *block);
    last = block ? size : 0;
    if (!block) return luaL_error(L, "floors: out of memory");
  }
  float *a = block, *b = a + size * size, *c = b + size * size;
  for (lua_Integer i = luaL_checkinteger(L, 2); i > 0; i--) gemm(0, 0, size, size, size, a, b, c);
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
  static const luaL_Reg functions[] = { { "arrays", new_arrays },
                                        { "copy", copy },
                                        { "adamw", adamw },
                                        { "step_products", step_products },
                                        { "forward_products", forward_products },
                                        { "multiply", multiply },
                                        { "move", move },
                                        { "call", call },
                                        { NULL, NULL } };
  luaL_newmetatable(L, "floors.arrays");
  luaL_newlib(L, functions);
  return 1;
}
