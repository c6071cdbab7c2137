/* vecmath: errors in ulp against the long double functions of libm, values at the edges, and the
 * same bits on every instruction set: the program runs itself anew under each OPTLUA_ISA. */
#include "base/vecmath.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/erf.h"
#include "base/rng.h"
#include "check.h"

enum { COUNT = 20011 }; /* odd: vectors have tails */

/* A function, its reference and the range that its arguments are drawn from. */
typedef struct function {
  const char *name;
  void (*f32)(int64_t, const float *, float *);
  void (*f64)(int64_t, const double *, double *);
  long double (*exact)(long double);
  double low, high;
  double bound32; /* of the error in float32, in ulp; 0: 1 */
} function;

#define FUNCTION(name) #name, ol_v##name##_f32, ol_v##name##_f64, name##l
static const function functions[] = {
  { FUNCTION(exp), -87, 88 },        { FUNCTION(expm1), -80, 88 },
  { FUNCTION(log), 1e-30, 4, 3.5 },  { FUNCTION(log1p), -0.9, 9 },
  { FUNCTION(log2), 1e-30, 4, 3.5 }, { FUNCTION(log10), 1e-30, 4 },
  { FUNCTION(sin), -100, 100, 3.5 }, { FUNCTION(cos), -100, 100, 3.5 },
  { FUNCTION(tan), -100, 100, 3.5 }, { FUNCTION(asin), -1, 1, 3.5 },
  { FUNCTION(acos), -1, 1 },         { FUNCTION(atan), -20, 20, 3.5 },
  { FUNCTION(sinh), -80, 80 },       { FUNCTION(cosh), -80, 80 },
  { FUNCTION(tanh), -9, 9, 3.5 },    { FUNCTION(erf), -4, 4, 0.55 },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static double x64[COUNT], y64[COUNT], z64[COUNT];
static float x32[COUNT], y32[COUNT], z32[COUNT];

/* Half of the arguments are uniform in the range, half of them near its middle or small. */
static void draw(double low, double high, double *x64_out, float *x32_out) {
  ol_rng rng = { .seed = 1 };
  ol_rng_uniform_f64(&rng, x64_out, COUNT);
  for (int i = 0; i < COUNT; i++) {
    double width = i % 2 ? high - low : (high - low) * 1e-3;
    double begin = i % 2 || low > 0 ? low : low < 0 && high > 0 ? -width / 2 : low;
    x64_out[i] = begin + x64_out[i] * width;
    x32_out[i] = (float)x64_out[i];
    if (x32_out[i] < low || x32_out[i] > high) x32_out[i] = (float)((low + high) / 2);
  }
}

/* The distance in units of the last of `digits` binary places of the exact value. */
static double ulps(double got, long double exact, int digits, int least_exponent) {
  int exponent;
  frexpl(exact, &exponent);
  if (exponent < least_exponent) exponent = least_exponent;
  return (double)fabsl(ldexpl((long double)got - exact, digits - exponent));
}

static void errors_are_within_bounds(const function *f) {
  draw(f->low, f->high, x64, x32);
  f->f64(COUNT, x64, y64);
  f->f32(COUNT, x32, y32);
  double worst64 = 0, worst32 = 0;
  for (int i = 0; i < COUNT; i++) {
    worst64 = fmax(worst64, ulps(y64[i], f->exact(x64[i]), DBL_MANT_DIG, DBL_MIN_EXP));
    worst32 = fmax(worst32, ulps(y32[i], f->exact(x32[i]), FLT_MANT_DIG, FLT_MIN_EXP));
  }
  double bound32 = f->bound32 > 0 ? f->bound32 : 1.0;
  if (!CHECK(worst64 <= 1.0) || !CHECK(worst32 <= bound32))
    printf("  %s: %.4f ulp in float64, %.4f in float32\n", f->name, worst64, worst32);
}

static void pow_is_below_one_ulp(void) {
  draw(1e-3, 100, x64, x32);
  draw(-15, 15, y64, y32);
  ol_vpow_f64(COUNT, x64, y64, z64);
  ol_vpow_f32(COUNT, x32, y32, z32);
  double worst64 = 0, worst32 = 0;
  for (int i = 0; i < COUNT; i++) {
    worst64 = fmax(worst64, ulps(z64[i], powl(x64[i], y64[i]), DBL_MANT_DIG, DBL_MIN_EXP));
    worst32 = fmax(worst32, ulps(z32[i], powl(x32[i], y32[i]), FLT_MANT_DIG, FLT_MIN_EXP));
  }
  if (!CHECK(worst64 <= 1.0) || !CHECK(worst32 <= 1.0))
    printf("  pow: %.4f ulp in float64, %.4f in float32\n", worst64, worst32);
}

/* Of the tail of the normal distribution, whose parts gelu of floats multiplies. */
static void tails_are_within_bounds(void) {
  double bell = 0, tail = 0;
  for (int i = 0; i < COUNT; i++) {
    const float t = 13.2f * (float)i / COUNT;
    const long double exact = expl((long double)t * t / -2);
    const long double share = erfcl(t * sqrtl(0.5L)) / 2;
    bell = fmax(bell, ulps(ol_bell_float(t), exact, FLT_MANT_DIG, FLT_MIN_EXP));
    tail = fmax(tail, ulps(ol_tail_float(t), share / exact, FLT_MANT_DIG, FLT_MIN_EXP));
  }
  if (!CHECK(bell <= 1.2) || !CHECK(tail <= 3.2)) printf("  %.4f and %.4f ulp\n", bell, tail);
  CHECK(ol_bell_float(0) == 1 && ol_bell_float(13.3f) == 0 && ol_bell_float(14.5f) == 0);
  CHECK(isnan(ol_bell_float(NAN)) && ol_tail_float(0) == 0.5f);
}

static void edges(void) {
  float x[] = { 0, -INFINITY, INFINITY, NAN, 1000 }, y[5];
  ol_vexp_f32(5, x, y);
  CHECK(y[0] == 1 && y[1] == 0 && y[2] == INFINITY && isnan(y[3]) && y[4] == INFINITY);
  ol_vtanh_f32(5, x, y);
  CHECK(y[0] == 0 && y[1] == -1 && y[2] == 1 && isnan(y[3]) && y[4] == 1);
  ol_vlog_f32(5, x, y);
  CHECK(y[0] == -INFINITY && isnan(y[1]) && y[2] == INFINITY && isnan(y[3]));
  ol_verf_f32(5, x, x);
  CHECK(x[0] == 0 && x[1] == -1 && x[2] == 1 && isnan(x[3]) && x[4] == 1);
  ol_vexp_f32(0, NULL, NULL);
}

/* FNV-1a over bytes. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
  for (const unsigned char *b = bytes; size-- > 0; b++) hash = (hash ^ *b) * 0x100000001b3;
  return hash;
}

/* A hash of the bits of every function. */
static uint64_t all_bits(void) {
  uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < FUNCTIONS; i++) {
    draw(functions[i].low, functions[i].high, x64, x32);
    functions[i].f64(COUNT, x64, y64);
    functions[i].f32(COUNT, x32, y32);
    hash = mix(mix(hash, y64, sizeof y64), y32, sizeof y32);
  }
  draw(1e-3, 100, x64, x32);
  ol_vpow_f64(COUNT, x64, y64, z64);
  ol_vpow_f32(COUNT, x32, y32, z32);
  return mix(mix(hash, z64, sizeof z64), z32, sizeof z32);
}

/* Runs this program with OPTLUA_ISA set; it prints the instruction set that it took and its hash.
 */
static void same_bits_under(const char *program, const char *isa) {
  char command[4096], taken[32] = "";
  unsigned long long hash = 0;
  snprintf(command, sizeof command, "OPTLUA_ISA=%s '%s' hash", isa, program);
  FILE *pipe = popen(command, "r");
  int fields = pipe ? fscanf(pipe, "%31s %llx", taken, &hash) : 0;
  if (pipe) pclose(pipe);
  CHECK_EQUAL(fields, 2);
  CHECK(hash == all_bits());
  if (strcmp(taken, isa) != 0) printf("this machine has no %s: %s was taken\n", isa, taken);
}

int main(int argc, char **argv) {
  if (argc > 1) return printf("%s %llx\n", ol_vecmath_isa(), (unsigned long long)all_bits()) < 0;
  for (int i = 0; i < FUNCTIONS; i++) errors_are_within_bounds(&functions[i]);
  pow_is_below_one_ulp();
  tails_are_within_bounds();
  edges();
  static const char *const sets[] = { "scalar", "sse2", "avx", "avx512f", "advsimd" };
  for (int i = 0; i < 5; i++) same_bits_under(argv[0], sets[i]);
  return check_summary();
}
