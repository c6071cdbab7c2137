/* vecmath_isa: all functions of vecmath for one instruction set; a template, included once for
 * each by vecmath.c. The includer defines
 *   ISA      its name                 TARGET   the attribute that lets the compiler use it
 *   FLANES, DLANES  floats and doubles a vector      SUFFIX   how SLEEF's names end */

#if FLANES == 1
typedef float JOIN(fvector_, ISA);
typedef double JOIN(dvector_, ISA);
#else
typedef float JOIN(fvector_, ISA) __attribute__((vector_size(FLANES * sizeof(float))));
typedef double JOIN(dvector_, ISA) __attribute__((vector_size(DLANES * sizeof(double))));
#endif

/* The rest of a row: its values, then ones. */
#define PAD(type, LANES, to, from, rest)                                                           \
  type to[LANES];                                                                                  \
  for (int64_t k = 0; k < LANES; k++) to[k] = 1;                                                   \
  memcpy(to, from, (size_t)(rest) * sizeof(type));

/* A vector at a time; the tail is padded with ones, where every function here is defined. */
#define UNARY(name, width, type, LANES, vector, sleef)                                             \
  TARGET extern vector sleef(vector);                                                              \
  TARGET static void JOIN(name##_##width##_, ISA)(int64_t count, const type *x, type *y) {         \
    for (int64_t i = 0; i < count; i += LANES) {                                                   \
      vector v;                                                                                    \
      if (count - i >= LANES) {                                                                    \
        memcpy(&v, x + i, sizeof v);                                                               \
        v = sleef(v);                                                                              \
        memcpy(y + i, &v, sizeof v);                                                               \
      } else {                                                                                     \
        PAD(type, LANES, tail, x + i, count - i)                                                   \
        memcpy(&v, tail, sizeof v);                                                                \
        v = sleef(v);                                                                              \
        memcpy(y + i, &v, (size_t)(count - i) * sizeof(type));                                     \
      }                                                                                            \
    }                                                                                              \
  }

#define BINARY(name, width, type, LANES, vector, sleef)                                            \
  TARGET extern vector sleef(vector, vector);                                                      \
  TARGET static void JOIN(name##_##width##_, ISA)(int64_t count, const type *x, const type *y,     \
                                                  type *z) {                                       \
    for (int64_t i = 0; i < count; i += LANES) {                                                   \
      int64_t rest = count - i < LANES ? count - i : LANES;                                        \
      PAD(type, LANES, a, x + i, rest)                                                             \
      PAD(type, LANES, b, y + i, rest)                                                             \
      vector v, w;                                                                                 \
      memcpy(&v, a, sizeof v);                                                                     \
      memcpy(&w, b, sizeof w);                                                                     \
      v = sleef(v, w);                                                                             \
      memcpy(z + i, &v, (size_t)rest * sizeof(type));                                              \
    }                                                                                              \
  }

#define OF_FLOATS(DEFINE, name, accuracy)                                                          \
  DEFINE(name, f32, float, FLANES, JOIN(fvector_, ISA),                                            \
         JOIN6(Sleef_cinz_, name, f, FLANES, accuracy, SUFFIX))
#define OF_DOUBLES(DEFINE, name, accuracy)                                                         \
  DEFINE(name, f64, double, DLANES, JOIN(dvector_, ISA),                                           \
         JOIN6(Sleef_cinz_, name, d, DLANES, accuracy, SUFFIX))
#define FINE(name)  OF_FLOATS(UNARY, name, _u10) OF_DOUBLES(UNARY, name, _u10)
#define FAST(name)  OF_FLOATS(UNARY, name, _u35) OF_DOUBLES(UNARY, name, _u10)
#define ENTRY(name) .name##_f32 = JOIN(name##_f32_, ISA), .name##_f64 = JOIN(name##_f64_, ISA),

OL_VECMATH_FINE(FINE)
OL_VECMATH_FAST(FAST)
OF_DOUBLES(UNARY, erf, _u10)
OF_FLOATS(BINARY, pow, _u10)
OF_DOUBLES(BINARY, pow, _u10)

TARGET static void JOIN(erf_f32_, ISA)(int64_t count, const float *x, float *y) {
  OL_APART for (int64_t i = 0; i < count; i++) y[i] = (float)ol_erf_float((double)x[i]);
}

static const vecmath_table JOIN(table_, ISA) = { .isa = STRING(ISA),
                                                 OL_VECMATH_UNARY(ENTRY) ENTRY(pow) };

#undef ENTRY
#undef FAST
#undef FINE
#undef OF_DOUBLES
#undef OF_FLOATS
#undef BINARY
#undef UNARY
#undef ISA
#undef TARGET
#undef FLANES
#undef DLANES
#undef SUFFIX
