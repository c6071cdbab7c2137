/* vecmath: chooses SLEEF's functions for the instruction set of the machine. */
#include "base/vecmath.h"

#include <stdlib.h>
#include <string.h>

#include "base/erf.h"
#include "base/parallel.h"

/* The functions of one instruction set. */
typedef struct vecmath_table {
  const char *isa;
#define MEMBER(name)                                                                               \
  void (*name##_f32)(int64_t, const float *, float *);                                             \
  void (*name##_f64)(int64_t, const double *, double *);
  OL_VECMATH_UNARY(MEMBER)
#undef MEMBER
  void (*pow_f32)(int64_t, const float *, const float *, float *);
  void (*pow_f64)(int64_t, const double *, const double *, double *);
} vecmath_table;

#define JOIN_(a, b)              a##b
#define JOIN(a, b)               JOIN_(a, b)
#define JOIN6_(a, b, c, d, e, f) a##b##c##d##e##f
#define JOIN6(a, b, c, d, e, f)  JOIN6_(a, b, c, d, e, f)
#define STRING_(a)               #a
#define STRING(a)                STRING_(a)

#define ISA                      scalar
#define TARGET
#define FLANES 1
#define DLANES 1
#define SUFFIX purec
#include "base/vecmath_isa.h"

#if defined(__x86_64__)
#define ISA sse2
#define TARGET
#define FLANES 4
#define DLANES 2
#define SUFFIX sse2
#include "base/vecmath_isa.h"

#define ISA    avx
#define TARGET __attribute__((target("avx")))
#define FLANES 8
#define DLANES 4
#define SUFFIX avx
#include "base/vecmath_isa.h"

#define ISA    avx512f
#define TARGET __attribute__((target("avx512f")))
#define FLANES 16
#define DLANES 8
#define SUFFIX avx512fnofma
#include "base/vecmath_isa.h"

static const vecmath_table *const tables[] = { &table_avx512f, &table_avx, &table_sse2,
                                               &table_scalar };

static int supported(const vecmath_table *t) {
  __builtin_cpu_init();
  if (t == &table_avx512f) return __builtin_cpu_supports("avx512f");
  if (t == &table_avx) return __builtin_cpu_supports("avx");
  return 1;
}

#elif defined(__aarch64__)
#define ISA advsimd
#define TARGET
#define FLANES 4
#define DLANES 2
#define SUFFIX advsimdnofma
#include "base/vecmath_isa.h"

static const vecmath_table *const tables[] = { &table_advsimd, &table_scalar };

static int supported(const vecmath_table *t) { return t != NULL; }

#else
static const vecmath_table *const tables[] = { &table_scalar };

static int supported(const vecmath_table *t) { return t != NULL; }
#endif

static const vecmath_table *chosen = &table_scalar;

/* Takes the best supported table; the environment variable OPTLUA_ISA names a lesser one ("native"
 * speaks of update rules only: see rule/machine.h). */
__attribute__((constructor)) static void choose(void) {
  const char *wanted = getenv("OPTLUA_ISA");
  if (wanted && (!*wanted || strcmp(wanted, "native") == 0)) wanted = NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    if (!supported(tables[i]) || (wanted && strcmp(wanted, tables[i]->isa) != 0)) continue;
    chosen = tables[i];
    return;
  }
}

const char *ol_vecmath_isa(void) { return chosen->isa; }

#define DEFINE(name)                                                                               \
  void ol_v##name##_f32(int64_t count, const float *x, float *y) {                                 \
    chosen->name##_f32(count, x, y);                                                               \
  }                                                                                                \
  void ol_v##name##_f64(int64_t count, const double *x, double *y) {                               \
    chosen->name##_f64(count, x, y);                                                               \
  }
OL_VECMATH_UNARY(DEFINE)

void ol_vpow_f32(int64_t count, const float *x, const float *y, float *z) {
  chosen->pow_f32(count, x, y, z);
}

void ol_vpow_f64(int64_t count, const double *x, const double *y, double *z) {
  chosen->pow_f64(count, x, y, z);
}
