/* updates: floors of updates; see updates.h. */
#include "updates.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <stdint.h>
#include <string.h>

#include "base/parallel.h"
#include "tensor/tensor.h"

enum {
  CHUNK = 65536,
  SMALL = 16384,
  LARGE = 1000000,
  LINE = 16,
  WRITTEN = 6,
  READ = 4
}; /* elements; arrays */

typedef struct arrays {
  float *written[WRITTEN];
  const float *read[READ];
  int writes, reads;
  lua_Integer n;
} arrays;

/* The data of the tensors in the list at `arg`; the userdata on top keeps the list. */
static int take(lua_State *L, int arg, int most, float **data, lua_Integer *n) {
  int count = (int)luaL_len(L, arg);
  luaL_argcheck(L, count <= most, arg, "too many tensors");
  for (int i = 0; i < count; i++) {
    lua_geti(L, arg, i + 1);
    const ol_tensor *tensor = *(ol_tensor **)lua_touserdata(L, -1);
    *n = tensor->numel;
    data[i] = ol_tensor_data(tensor);
    lua_pop(L, 1);
  }
  lua_pushvalue(L, arg);
  lua_setiuservalue(L, -2, arg);
  return count;
}

int bench_arrays(lua_State *L) {
  float *read[READ] = { 0 };
  arrays *a = lua_newuserdatauv(L, sizeof *a, 2);
  *a = (arrays){ 0 };
  a->writes = take(L, 1, WRITTEN, a->written, &a->n);
  a->reads = take(L, 2, READ, read, &a->n);
  memcpy(a->read, read, sizeof read);
  luaL_newmetatable(L, "bench.arrays");
  lua_setmetatable(L, -2);
  return 1;
}

typedef uint32_t chunk_fn(const arrays *a, lua_Integer begin, lua_Integer end);

/* Pieces of equal size: the same ones for each thread every time, for what stays in its cache; from
 * memory, threads take one after the other. */
static void run(const arrays *a, chunk_fn *fn) {
#ifdef _OPENMP
  const int threads = omp_get_max_threads();
  omp_set_schedule(a->n > LARGE ? omp_sched_dynamic : omp_sched_static, 0);
#else
  const int threads = 1;
#endif
  const lua_Integer even = a->n / (4 * threads) / LINE * LINE + LINE;
  const lua_Integer chunk = threads == 1 || even > CHUNK ? CHUNK : even;
  uint32_t used = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(runtime) reduction(+ : used) if (a->n >= SMALL)
#endif
  for (lua_Integer i = 0; i < a->n; i += chunk)
    used += fn(a, i, a->n - i < chunk ? a->n : i + chunk);
  *(volatile uint32_t *)&used = used;
}

/* Bytes. The numbers of arrays are constants, so that each case is a loop of its own. Arrays keep
 * their values: what is added is 0, which the compiler cannot know. */

static volatile float nothing = 0;

static inline __attribute__((always_inline)) uint32_t move(const arrays *a, lua_Integer begin,
                                                           lua_Integer end, int writes, int reads) {
  float *w0 = a->written[0], *w1 = a->written[1], *w2 = a->written[2], *w3 = a->written[3],
        *w4 = a->written[4], *w5 = a->written[5];
  const float *r0 = a->read[0], *r1 = a->read[1], *r2 = a->read[2], *r3 = a->read[3];
  const float zero = nothing;
  OL_APART
  for (lua_Integer i = begin; i < end; i++) {
    float sum = reads > 0 ? r0[i] : 1;
    if (reads > 1) sum += r1[i];
    if (reads > 2) sum += r2[i];
    if (reads > 3) sum += r3[i];
    w0[i] += zero * sum;
    if (writes > 1) w1[i] += zero;
    if (writes > 2) w2[i] += zero;
    if (writes > 3) w3[i] += zero;
    if (writes > 4) w4[i] += zero;
    if (writes > 5) w5[i] += zero;
  }
  return 0;
}

static inline __attribute__((always_inline)) uint32_t look(const arrays *a, lua_Integer begin,
                                                           lua_Integer end, int reads) {
  const uint32_t *r0 = (const uint32_t *)a->read[0], *r1 = (const uint32_t *)a->read[1],
                 *r2 = (const uint32_t *)a->read[2], *r3 = (const uint32_t *)a->read[3];
  uint32_t sum = 0;
  for (lua_Integer i = begin; i < end; i++) {
    sum += r0[i];
    if (reads > 1) sum += r1[i];
    if (reads > 2) sum += r2[i];
    if (reads > 3) sum += r3[i];
  }
  return sum;
}

#define LOOK(r)                                                                                    \
  OL_KERNEL static uint32_t look_##r(const arrays *a, lua_Integer begin, lua_Integer end) {        \
    return look(a, begin, end, r);                                                                 \
  }
#define MOVE(w, r)                                                                                 \
  OL_KERNEL static uint32_t move_##w##_##r(const arrays *a, lua_Integer begin, lua_Integer end) {  \
    return move(a, begin, end, w, r);                                                              \
  }
#define READS(X, w) X(w, 0) X(w, 1) X(w, 2) X(w, 3) X(w, 4)
/* clang-format off */
LOOK(1) LOOK(2) LOOK(3) LOOK(4)
READS(MOVE, 1) READS(MOVE, 2) READS(MOVE, 3)
READS(MOVE, 4) READS(MOVE, 5) READS(MOVE, 6)
/* clang-format on */

#define ENTRY(w, r) move_##w##_##r,
    static chunk_fn *const moves[WRITTEN + 1][READ + 1] = {
      { NULL, look_1, look_2, look_3, look_4 },
      { READS(ENTRY, 1) },
      { READS(ENTRY, 2) },
      { READS(ENTRY, 3) },
      { READS(ENTRY, 4) },
      { READS(ENTRY, 5) },
      { READS(ENTRY, 6) },
    };

int bench_copy(lua_State *L) {
  const arrays *a = luaL_checkudata(L, 1, "bench.arrays");
  for (lua_Integer k = luaL_checkinteger(L, 2); k > 0; k--) run(a, moves[a->writes][a->reads]);
  return 0;
}

/* Updates: p is the parameter, g its gradient, m v u its states. */

#define SIGN(x) ((float)((x) > 0) - (float)((x) < 0))
#define UPDATES(X)                                                                                 \
  X(SGD, p[i] = p[i] - rate * g[i])                                                                \
  X(momentum, m[i] = b1 * m[i] + g[i]; p[i] = p[i] - rate * m[i])                                  \
  X(Lion, p[i] = p[i] * decay - rate * SIGN(b1 * m[i] + (1 - b1) * g[i]);                          \
    m[i] = b2 * m[i] + (1 - b2) * g[i])                                                            \
  X(Adagrad, m[i] = m[i] + g[i] * g[i]; p[i] = p[i] - rate * (g[i] / (sqrtf(m[i]) + eps)))         \
  X(RMSprop, m[i] = b2 * m[i] + (1 - b2) * (g[i] * g[i]);                                          \
    p[i] = p[i] - rate * (g[i] / (sqrtf(m[i]) + eps)))                                             \
  X(AdamW, m[i] = b1 * m[i] + (1 - b1) * g[i]; v[i] = b2 * v[i] + (1 - b2) * (g[i] * g[i]);        \
    p[i] = p[i] * decay - rate * (m[i] / (root * sqrtf(v[i]) + eps)))                              \
  X(Adadelta, m[i] = b1 * m[i] + (1 - b1) * (g[i] * g[i]);                                         \
    float d = sqrtf((v[i] + eps) / (m[i] + eps)) * g[i]; v[i] = b1 * v[i] + (1 - b1) * (d * d);    \
    p[i] = p[i] - rate * d)                                                                        \
  X(AdaBelief, m[i] = b1 * m[i] + (1 - b1) * g[i]; float d = g[i] - m[i];                          \
    v[i] = b2 * v[i] + (1 - b2) * (d * d) + eps;                                                   \
    p[i] = p[i] * decay - rate * (m[i] / (root * sqrtf(v[i]) + eps)))                              \
  X(AdEMAMix, m[i] = b1 * m[i] + (1 - b1) * g[i]; u[i] = b2 * u[i] + (1 - b2) * g[i];              \
    v[i] = b2 * v[i] + (1 - b2) * (g[i] * g[i]);                                                   \
    p[i] = p[i] * decay - rate * ((root * m[i] + five * u[i]) / (root * sqrtf(v[i]) + eps)))

#define UPDATE(name, ...)                                                                          \
  OL_KERNEL static uint32_t update_##name(const arrays *a, lua_Integer begin, lua_Integer end) {   \
    const float b1 = 0.9f, b2 = 0.999f, decay = 1 - 1e-5f, rate = 1e-3f, root = 2, five = 5,       \
                eps = 1e-8f;                                                                       \
    float *p = a->written[0], *m = a->written[1], *v = a->written[2], *u = a->written[3];          \
    const float *g = a->read[0];                                                                   \
    (void)b1, (void)b2, (void)decay, (void)root, (void)five, (void)eps, (void)m, (void)v, (void)u; \
    OL_APART                                                                                       \
    for (lua_Integer i = begin; i < end; i++) { __VA_ARGS__; }                                     \
    return 0;                                                                                      \
  }
UPDATES(UPDATE)

static const struct {
  const char *name;
  chunk_fn *fn;
} updates[] = {
#define NAMED(name, ...) { #name, update_##name },
  UPDATES(NAMED)
#undef NAMED
};

int bench_fused(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  const arrays *a = luaL_checkudata(L, 2, "bench.arrays");
  size_t count = sizeof updates / sizeof *updates, i = 0;
  while (i < count && strcmp(updates[i].name, name) != 0) i++;
  luaL_argcheck(L, i < count, 1, "no such update");
  for (lua_Integer k = luaL_checkinteger(L, 3); k > 0; k--) run(a, updates[i].fn);
  return 0;
}
