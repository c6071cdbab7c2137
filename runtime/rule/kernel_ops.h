/* kernel_ops: forms and plain instructions, on a tile; part of the template kernel_body.h. */

/* Elementwise arithmetic, as op.h says. */

#define ADD(l, r)         ((l) + (r))
#define SUB(l, r)         ((l) - (r))
#define MUL(l, r)         ((l) * (r))
#define DIV(l, r)         ((l) / (r))
#define SQRT(v)           NAME(root)(v)
#define MIN(l, r)         NAME(smaller)(l, r)
#define MAX(l, r)         NAME(larger)(l, r)
#define LT(l, r)          ((l) < (r) ? (T)1 : (T)0)
#define GT(l, r)          ((l) > (r) ? (T)1 : (T)0)
#define ABS(v)            NAME(size_of)(v)
#define SIGN(v)           NAME(sign)(v)
#define LERP(l, r, at)    NAME(lerp)(l, r, at)
#define CLAMP(v, l, h)    NAME(clamped)(v, l, h)
#define WHERE(v, yes, no) ((v) != 0 ? (yes) : (no))

TARGET static inline T NAME(root)(T v) {
  return sizeof(T) == sizeof(float) ? (T)__builtin_sqrtf((float)v) : (T)__builtin_sqrt(v);
}
TARGET static inline T NAME(size_of)(T v) {
  return sizeof(T) == sizeof(float) ? (T)__builtin_fabsf((float)v) : (T)__builtin_fabs(v);
}
/* The first line is one instruction: l where they are equal or one is NaN. Where r is a number of
 * the rule, the compiler asks outside the loop whether that is NaN. */
TARGET static inline T NAME(smaller)(T l, T r) {
  T smaller = r < l ? r : l;
  return r != r ? r : smaller;
}
TARGET static inline T NAME(larger)(T l, T r) {
  T larger = r > l ? r : l;
  return r != r ? r : larger;
}
TARGET static inline T NAME(clamped)(T v, T low, T high) {
  return NAME(smaller)(NAME(larger)(v, low), high);
}
TARGET static inline T NAME(sign)(T v) {
  T one = sizeof(T) == sizeof(float) ? (T)__builtin_copysignf(1, (float)v)
                                     : (T)__builtin_copysign(1, v);
  return ((v < 0) | (v > 0)) ? one : (T)0;
}
TARGET static inline T NAME(lerp)(T l, T r, T w) {
  T near_l = l + w * (r - l), near_r = r - (r - l) * ((T)1 - w);
  return NAME(size_of)(w) < (T)0.5 ? near_l : near_r;
}

/* The result and the operands of an instruction. */
#define OPERANDS(s, op)                                                                            \
  T *out = NAME(at)(s, (op)->place[0]);                                                            \
  const T *x = NAME(at)(s, (op)->place[1]), *y = NAME(at)(s, (op)->place[2]),                      \
          *z = NAME(at)(s, (op)->place[3]), *w = NAME(at)(s, (op)->place[4]);                      \
  (void)y, (void)z, (void)w

/* The forms. */

#define FORM(name, expression)                                                                     \
  TARGET static inline T NAME(value_##name)(const T *number, T x, T y, T z, T w) {                 \
    T a = number[0], b = number[1], c = number[2], d = number[3], e = number[4], f = number[5],    \
      g = number[6];                                                                               \
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g;                                 \
    (void)x, (void)y, (void)z, (void)w;                                                            \
    return expression;                                                                             \
  }                                                                                                \
  TARGET static void NAME(form_##name)(NAME(state) * s, const NAME(op) * op, int n) {              \
    OPERANDS(s, op);                                                                               \
    T number[OL_FORM_NUMBERS];                                                                     \
    memcpy(number, op->number, sizeof number);                                                     \
    EACH(n, out[k] = NAME(value_##name)(number, x[k], y[k], z[k], w[k]));                          \
  }
OL_FORMS(FORM)
#undef FORM

/* Plain instructions. */

#define PLAIN_OPS(X)                                                                               \
  X(ADD, x[k] + y[k])                                                                              \
  X(SUB, x[k] - y[k])                                                                              \
  X(MUL, x[k] * y[k])                                                                              \
  X(DIV, x[k] / y[k])                                                                              \
  X(NEG, -x[k])                                                                                    \
  X(SQRT, SQRT(x[k]))                                                                              \
  X(RSQRT, (T)1 / SQRT(x[k]))                                                                      \
  X(ABS, ABS(x[k]))                                                                                \
  X(SIGN, SIGN(x[k]))                                                                              \
  X(MIN, MIN(x[k], y[k]))                                                                          \
  X(MAX, MAX(x[k], y[k]))                                                                          \
  X(LT, LT(x[k], y[k]))                                                                            \
  X(LE, x[k] <= y[k] ? (T)1 : (T)0)                                                                \
  X(GT, GT(x[k], y[k]))                                                                            \
  X(GE, x[k] >= y[k] ? (T)1 : (T)0)                                                                \
  X(EQ, x[k] == y[k] ? (T)1 : (T)0)                                                                \
  X(NE, x[k] != y[k] ? (T)1 : (T)0)                                                                \
  X(CLAMP, CLAMP(x[k], y[k], z[k]))                                                                \
  X(LERP, LERP(x[k], y[k], z[k]))                                                                  \
  X(WHERE, WHERE(x[k], y[k], z[k]))

#define PLAIN(name, expression)                                                                    \
  TARGET static void NAME(plain_##name)(NAME(state) * s, const NAME(op) * op, int n) {             \
    OPERANDS(s, op);                                                                               \
    EACH(n, out[k] = (expression));                                                                \
  }
PLAIN_OPS(PLAIN)
PLAIN(SQUARE, x[k] * x[k])
PLAIN(CUBE, x[k] * x[k] * x[k])
PLAIN(INVERSE, (T)1 / x[k])
#undef PLAIN

/* Functions of base/vecmath. */
#define FUNCTIONS(X) X(EXP, vexp) X(LOG, vlog) X(TANH, vtanh)

#define FUNCTION(name, function)                                                                   \
  TARGET static void NAME(plain_##name)(NAME(state) * s, const NAME(op) * op, int n) {             \
    OPERANDS(s, op);                                                                               \
    JOIN(ol, function, WIDTH)(n, x, out);                                                          \
  }
FUNCTIONS(FUNCTION)
#undef FUNCTION

TARGET static void NAME(plain_POW)(NAME(state) * s, const NAME(op) * op, int n) {
  OPERANDS(s, op);
  JOIN(ol, vpow, WIDTH)(n, x, y, out);
}

/* A power. Numbers as exponents have exact short cuts. */
TARGET static NAME(action) * NAME(power)(const T *number) {
  if (!number) return NAME(plain_POW);
  if (*number == (T)2) return NAME(plain_SQUARE);
  if (*number == (T)3) return NAME(plain_CUBE);
  if (*number == (T)0.5) return NAME(plain_SQRT);
  if (*number == (T)-0.5) return NAME(plain_RSQRT);
  if (*number == (T)-1) return NAME(plain_INVERSE);
  return NAME(plain_POW);
}
