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
        type tail[LANES];                                                                          \
        for (int64_t k = 0; k < LANES; k++) tail[k] = i + k < count ? x[i + k] : 1;                \
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
      type a[LANES], b[LANES];                                                                     \
      for (int64_t k = 0; k < LANES; k++) {                                                        \
        a[k] = k < rest ? x[i + k] : 1;                                                            \
        b[k] = k < rest ? y[i + k] : 1;                                                            \
      }                                                                                            \
      vector v, w;                                                                                 \
      memcpy(&v, a, sizeof v);                                                                     \
      memcpy(&w, b, sizeof w);                                                                     \
      v = sleef(v, w);                                                                             \
      memcpy(z + i, &v, (size_t)rest * sizeof(type));                                              \
    }                                                                                              \
  }

#define OF_FLOATS(DEFINE, name)                                                                    \
  DEFINE(name, f32, float, FLANES, JOIN(fvector_, ISA), JOIN5(Sleef_cinz_, name, f, FLANES, SUFFIX))
#define OF_DOUBLES(DEFINE, name)                                                                   \
  DEFINE(name, f64, double, DLANES, JOIN(dvector_, ISA),                                           \
         JOIN5(Sleef_cinz_, name, d, DLANES, SUFFIX))
#define UNARY_F32(name) OF_FLOATS(UNARY, name)
#define UNARY_F64(name) OF_DOUBLES(UNARY, name)
#define ENTRY_F32(name) .name##_f32 = JOIN(name##_f32_, ISA),
#define ENTRY_F64(name) .name##_f64 = JOIN(name##_f64_, ISA),

OL_VECMATH_SLEEF(UNARY_F32)
OL_VECMATH_UNARY(UNARY_F64)
OF_FLOATS(BINARY, pow)
OF_DOUBLES(BINARY, pow)

/* clang-format off */
static const vecmath_table JOIN(table_, ISA) = {
  .isa = STRING(ISA),
  OL_VECMATH_SLEEF(ENTRY_F32)
  OL_VECMATH_UNARY(ENTRY_F64)
  ENTRY_F32(pow)
  ENTRY_F64(pow)
};
/* clang-format on */

#undef ENTRY_F64
#undef ENTRY_F32
#undef UNARY_F64
#undef UNARY_F32
#undef OF_DOUBLES
#undef OF_FLOATS
#undef BINARY
#undef UNARY
#undef ISA
#undef TARGET
#undef FLANES
#undef DLANES
#undef SUFFIX
