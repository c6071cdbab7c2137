/* kernel: instantiates the inner loops and chooses among them. */
#include "rule/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/memory.h"
#include "base/parallel.h"
#include "base/vecmath.h"
#include "rule/native.h"

enum {
  TILE = OL_MACHINE_TILE,
  BLOCK = 64,      /* elements of a loop whose length the compiler knows */
  AHEAD = 2048,    /* elements that are fetched before they are computed, of all arrays */
  LINE = 64,       /* bytes */
  COLUMNS = 16384, /* that are reduced together, at most */
  BAND = 16,       /* rows of a turned array that are read together: a cache line of floats */
};

/* An array that is not used in place. */
typedef struct ol_source {
  const char *data;
  const ol_access *access;
  int64_t count; /* elements of an array of codes */
} ol_source;

/* Blocks of codes are whole tiles, and take longer to compute than their few bytes to come. */
static bool has_codes(const ol_pass *pass) {
  for (int i = 0; i < pass->accesses; i++)
    if (pass->access[i].packing & OL_PACK_CODES) return true;
  return false;
}

/* Whether a pass takes arrays with other strides, and has rows that are worth to be gone through
 * one after the other. */
static bool goes_by_rows(const ol_code *code, const ol_pass *pass) {
  const ol_shape *shape = &code->shape[pass->shape];
  bool gathers = false;
  for (int i = 0; i < pass->accesses; i++)
    if (pass->access[i].layout == OL_ACCESS_GATHERED) gathers = true;
  return gathers && !has_codes(pass) && pass->dim < 0 && shape->ndim > 0 &&
         shape->size[shape->ndim - 1] >= TILE;
}

static bool goes_native; /* whether machine code is used where there is some */

static const ol_native *native_of(const ol_work *work) {
  const ol_native *native = goes_native ? work->pass->native : NULL;
  return native && ol_native_fits(native, work->numbers) ? native : NULL;
}

/* As many as machine code can do. */
static int64_t whole_rows(int64_t n) { return n / OL_NATIVE_ROW * OL_NATIVE_ROW; }

/* How many of the elements at … end are done in one go, natively or by the kernels. */
static int64_t next_stretch(const ol_work *work, int64_t at, int64_t end, bool *native) {
  if (native_of(work)) return ol_native_stretch(work, at, end, native);
  *native = false;
  return end - at;
}

/* Does the work if machine code can do all of it. */
static bool ran_natively(const ol_work *work) {
  const int64_t count = work->end - work->begin;
  bool native;
  if (!native_of(work) || work->pass->dim >= 0 || work->pass->accumulators > 0) return false;
  if (goes_by_rows(work->code, work->pass)) return false;
  if (next_stretch(work, work->begin, work->end, &native) < count || !native) return false;
  ol_native_run(
      native_of(work),
      &(ol_native_call){ .work = work, .at = work->begin, .count = count, .frame = work->scratch });
  return true;
}

/* A loop over elements, block after block. Operands are identical or disjoint. */
#if defined(__clang__)
#define WHOLE
#else
#define WHOLE _Pragma("GCC unroll 16")
#endif
#define EACH(n, statement)                                                                         \
  do {                                                                                             \
    if ((n) % BLOCK == 0) {                                                                        \
      for (int first_ = 0; first_ < (n); first_ += BLOCK) {                                        \
        OL_APART WHOLE for (int k = first_; k < first_ + BLOCK; k++) statement;                    \
      }                                                                                            \
    } else {                                                                                       \
      OL_APART for (int k = 0; k < (n); k++) statement;                                            \
    }                                                                                              \
  } while (0)

/* Asks for the cache line of a byte, which may lie behind the end of the array. */
#define FETCH(array, byte)                                                                         \
  __builtin_prefetch((const void *)((uintptr_t)(array) + (uintptr_t)(byte)))

#define JOIN_(a, b, c) a##_##b##_##c
#define JOIN(a, b, c)  JOIN_(a, b, c)
#define NAME(name)     JOIN(name, WIDTH, ISA)

#define ISA            plain
#define TARGET
#define VECTOR 16
#define T      float
#define WIDTH  f32
#define BITS   uint32_t
#include "rule/kernel_body.h"
#define T     double
#define WIDTH f64
#define BITS  uint64_t
#include "rule/kernel_body.h"
#undef ISA
#undef TARGET
#undef VECTOR

#if defined(__x86_64__)
#define ISA    avx
#define TARGET __attribute__((target("avx2")))
#define VECTOR 32
#define T      float
#define WIDTH  f32
#define BITS   uint32_t
#include "rule/kernel_body.h"
#define T     double
#define WIDTH f64
#define BITS  uint64_t
#include "rule/kernel_body.h"
#undef ISA
#undef TARGET
#undef VECTOR

#define ISA    avx512f
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR 64
#define T      float
#define WIDTH  f32
#define BITS   uint32_t
#include "rule/kernel_body.h"
#define T     double
#define WIDTH f64
#define BITS  uint64_t
#include "rule/kernel_body.h"
#undef ISA
#undef TARGET
#undef VECTOR
#endif

/* Which one. */

typedef struct kernel_set {
  const char *name;
  void (*run[2])(const ol_work *work); /* float32, float64 */
  void (*measure[2])(const ol_measure *measure, double *squares, double *largest);
} kernel_set;

#define SET(name, isa)                                                                             \
  {                                                                                                \
    name, { run_f32_##isa, run_f64_##isa }, { measure_f32_##isa, measure_f64_##isa }               \
  }

#if defined(__x86_64__)
static const kernel_set sets[] = { SET("avx512f", avx512f), SET("avx", avx), SET("sse2", plain) };

static bool is_supported(const char *name) {
  __builtin_cpu_init();
  if (strcmp(name, "avx512f") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return strcmp(name, "avx") != 0 || __builtin_cpu_supports("avx2");
}
#else
static const kernel_set sets[] = { SET("default", plain) };

static bool is_supported(const char *name) { return name != NULL; }
#endif

enum { SETS = sizeof sets / sizeof *sets };

static const kernel_set *chosen = &sets[SETS - 1];
static const char *names[SETS + 2];

/* The best way that there is, or the one that OPTLUA_ISA names; where it names one that is not here
 * ("scalar"), the plainest. */
__attribute__((constructor)) static void choose(void) {
  int count = 0;
  if (ol_native_is_supported()) names[count++] = "native";
  for (int i = 0; i < SETS; i++)
    if (is_supported(sets[i].name)) names[count++] = sets[i].name;
  const char *wanted = getenv("OPTLUA_ISA");
  if (!wanted || !*wanted || strcmp(wanted, "native") == 0) wanted = names[0];
  if (!ol_machine_set_isa(wanted)) ol_machine_set_isa(names[count - 1]);
}

const char *ol_machine_isa(void) { return goes_native ? "native" : chosen->name; }

const char *const *ol_machine_isas(void) { return names; }

bool ol_machine_set_isa(const char *name) {
  const bool native = strcmp(name, "native") == 0;
  if (native && !ol_native_is_supported()) return false;
  for (int i = 0; i < SETS; i++) {
    if (!(native || strcmp(sets[i].name, name) == 0) || !is_supported(sets[i].name)) continue;
    goes_native = native;
    chosen = &sets[i];
    return true;
  }
  return false;
}

bool ol_kernel_goes_native(void) { return goes_native; }

void ol_kernel_run(ol_dtype dtype, const ol_work *work) { chosen->run[dtype == OL_F64](work); }

void ol_kernel_measure(const ol_measure *measure, double squares[OL_LANES], double *largest) {
  chosen->measure[measure->dtype == OL_F64](measure, squares, largest);
}

/* Memory of a thread. */

static size_t take(size_t *end, size_t size) {
  size_t begin = *end;
  *end += (size + OL_ALIGNMENT - 1) / OL_ALIGNMENT * OL_ALIGNMENT;
  return begin;
}

ol_scratch ol_kernel_layout(const ol_code *code, const ol_pass *pass, size_t width) {
  size_t end = 0, bands = 0, slots = (size_t)pass->slots;
  const ol_shape *shape = &code->shape[pass->shape];
  for (int i = 0; i < pass->accesses; i++)
    if (pass->access[i].layout == OL_ACCESS_TURNED)
      bands += width * BAND * (size_t)(shape->size[1] + BAND);
  const int64_t columns = pass->dim < 0 ? 0 : ol_kernel_units(shape, pass->dim, 1).width;
  take(&end, width * TILE * (size_t)pass->tiles);
  ol_scratch layout = {
    .lanes = take(&end, sizeof(double[OL_LANES]) * (size_t)pass->accumulators),
    .ops = take(&end, sizeof(op_f64_plain) * (size_t)(pass->instructions + 1)),
    .frame = take(&end, ol_native_frame(pass->native)),
    .streams = take(&end, sizeof(ol_stream) * (slots + (size_t)pass->accesses)),
    .band = take(&end, bands),
    .band_row = take(&end, sizeof(int64_t) * (size_t)pass->accesses),
    .total = take(&end, sizeof(double) * (size_t)columns),
    .row_at = take(&end, sizeof(int64_t) * (size_t)pass->accesses),
  };
  layout.size = end;
  return layout;
}

size_t ol_kernel_scratch(const ol_code *code, ol_dtype dtype) {
  size_t most = 0;
  for (int i = 0; i < code->passes; i++) {
    size_t size = ol_kernel_layout(code, &code->pass[i], ol_dtype_size(dtype)).size;
    if (size > most) most = size;
  }
  return most;
}

ol_units ol_kernel_units(const ol_shape *shape, int dim, int threads) {
  ol_units units = { .outer = 1, .size = 1, .inner = 1, .blocks = 1 };
  for (int d = 0; d < shape->ndim; d++)
    *(d < dim ? &units.outer : d == dim ? &units.size : &units.inner) *= shape->size[d];
  const int64_t tiles = (units.inner + TILE - 1) / TILE;
  if (tiles > 1) {
    const int64_t least = (units.inner + COLUMNS - 1) / COLUMNS;
    int64_t blocks = units.outer < threads ? threads : 1;
    if (blocks < least) blocks = least;
    units.width = (tiles + blocks - 1) / blocks * TILE;
    units.blocks = (units.inner + units.width - 1) / units.width;
  } else {
    units.width = units.inner;
  }
  units.count = units.outer * units.blocks * (units.inner > 0);
  units.elements = units.size * (units.width < units.inner ? units.width : units.inner);
  return units;
}
