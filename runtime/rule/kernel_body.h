/* kernel_body: the machine for one type and instruction set; a template, included by kernel.c. The
 * includer defines
 *   T, WIDTH   float and f32, or double and f64
 *   ISA        the name of the instruction set     TARGET   the attribute that allows its use
 *   VECTOR     bytes of its vectors */

/* Elementwise arithmetic, as op.h says. */

#define ADD(l, r)     ((l) + (r))
#define SUB(l, r)     ((l) - (r))
#define MUL(l, r)     ((l) * (r))
#define DIV(l, r)     ((l) / (r))
#define SQRT(v)       NAME(root)(v)
#define MIN(l, r)     NAME(smaller)(l, r)
#define MAX(l, r)     NAME(larger)(l, r)
#define SIGN(v)       NAME(sign)(v)
#define LERP(l, r, w) NAME(lerp)(l, r, w)

TARGET static inline T NAME(root)(T v) {
  return sizeof(T) == sizeof(float) ? (T)__builtin_sqrtf((float)v) : (T)__builtin_sqrt(v);
}
TARGET static inline T NAME(size_of)(T v) {
  return sizeof(T) == sizeof(float) ? (T)__builtin_fabsf((float)v) : (T)__builtin_fabs(v);
}
TARGET static inline T NAME(smaller)(T l, T r) { return ((l != l) | (l <= r)) ? l : r; }
TARGET static inline T NAME(larger)(T l, T r) { return ((l != l) | (l >= r)) ? l : r; }
TARGET static inline T NAME(sign)(T v) { return v > 0 ? (T)1 : v < 0 ? (T)-1 : (T)0; }
TARGET static inline T NAME(lerp)(T l, T r, T w) {
  T near_l = l + w * (r - l), near_r = r - (r - l) * ((T)1 - w);
  return NAME(size_of)(w) < (T)0.5 ? near_l : near_r;
}

/* The forms. */

#define FORM(name, expression)                                                                     \
  TARGET static inline T NAME(value_##name)(const T *number, T x, T y, T z) {                      \
    T a = number[0], b = number[1], c = number[2], d = number[3], e = number[4], f = number[5],    \
      g = number[6];                                                                               \
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g;                                 \
    (void)x, (void)y, (void)z;                                                                     \
    return expression;                                                                             \
  }                                                                                                \
  TARGET static void NAME(form_##name)(int n, T *out, const T *x, const T *y, const T *z,          \
                                       const T *numbers) {                                         \
    T number[OL_FORM_NUMBERS];                                                                     \
    memcpy(number, numbers, sizeof number);                                                        \
    EACH(n, out[k] = NAME(value_##name)(number, x[k], y[k], z[k]));                                \
  }
OL_FORMS(FORM)
#undef FORM

/* Plain instructions. */

#define PLAIN(name, expression)                                                                    \
  TARGET static void NAME(plain_##name)(int n, T *out, const T *x, const T *y, const T *z) {       \
    (void)y, (void)z;                                                                              \
    EACH(n, out[k] = (expression));                                                                \
  }
PLAIN(ADD, x[k] + y[k])
PLAIN(SUB, x[k] - y[k])
PLAIN(MUL, x[k] * y[k])
PLAIN(DIV, x[k] / y[k])
PLAIN(NEG, -x[k])
PLAIN(SQRT, SQRT(x[k]))
PLAIN(RSQRT, (T)1 / SQRT(x[k]))
PLAIN(ABS, NAME(size_of)(x[k]))
PLAIN(SIGN, SIGN(x[k]))
PLAIN(MIN, MIN(x[k], y[k]))
PLAIN(MAX, MAX(x[k], y[k]))
PLAIN(LT, x[k] < y[k] ? (T)1 : (T)0)
PLAIN(LE, x[k] <= y[k] ? (T)1 : (T)0)
PLAIN(GT, x[k] > y[k] ? (T)1 : (T)0)
PLAIN(GE, x[k] >= y[k] ? (T)1 : (T)0)
PLAIN(EQ, x[k] == y[k] ? (T)1 : (T)0)
PLAIN(NE, x[k] != y[k] ? (T)1 : (T)0)
PLAIN(CLAMP, MIN(MAX(x[k], y[k]), z[k]))
PLAIN(LERP, LERP(x[k], y[k], z[k]))
PLAIN(WHERE, x[k] != 0 ? y[k] : z[k])
PLAIN(SQUARE, x[k] * x[k])
PLAIN(CUBE, x[k] * x[k] * x[k])
PLAIN(INVERSE, (T)1 / x[k])
#undef PLAIN

#define FUNCTION(name, function)                                                                   \
  TARGET static void NAME(plain_##name)(int n, T *out, const T *x, const T *y, const T *z) {       \
    (void)y, (void)z;                                                                              \
    JOIN(ol, function, WIDTH)(n, x, out);                                                          \
  }
FUNCTION(EXP, vexp)
FUNCTION(LOG, vlog)
FUNCTION(TANH, vtanh)
#undef FUNCTION

/* A power. Numbers as exponents have exact short cuts. */
TARGET static void NAME(power)(int n, T *out, const T *x, const T *y, bool number) {
  if (number && *y == (T)2)
    NAME(plain_SQUARE)(n, out, x, x, x);
  else if (number && *y == (T)3)
    NAME(plain_CUBE)(n, out, x, x, x);
  else if (number && *y == (T)0.5)
    NAME(plain_SQRT)(n, out, x, x, x);
  else if (number && *y == (T)-0.5)
    NAME(plain_RSQRT)(n, out, x, x, x);
  else if (number && *y == (T)-1)
    NAME(plain_INVERSE)(n, out, x, x, x);
  else
    JOIN(ol, vpow, WIDTH)(n, x, y, out);
}

/* Other types and layouts. */

TARGET static void NAME(scale)(int n, T *out, const T *x, T factor) {
  EACH(n, out[k] = factor * x[k]);
}

TARGET static void NAME(load)(int n, T *out, const void *from, ol_dtype dtype) {
  const ol_bf16 *narrow = from;
  const float *single = from;
  if (dtype == OL_BF16)
    EACH(n, out[k] = (T)ol_bf16_to_f32(narrow[k]));
  else if (dtype == OL_F32)
    EACH(n, out[k] = (T)single[k]);
  else
    memcpy(out, from, (size_t)n * sizeof(T));
}

TARGET static void NAME(store)(int n, void *to, const T *x, ol_dtype dtype) {
  ol_bf16 *narrow = to;
  float *single = to;
  if (dtype == OL_BF16)
    EACH(n, narrow[k] = ol_bf16_from_f32((float)x[k]));
  else
    EACH(n, single[k] = (float)x[k]);
}

/* A stretch of n elements, `step` apart. */
TARGET static void NAME(stretch)(int n, T *out, const char *from, ol_dtype dtype, int64_t step) {
  size_t size = ol_dtype_size(dtype);
  if (step == 1) {
    NAME(load)(n, out, from, dtype);
  } else if (step == 0) {
    NAME(load)(1, out, from, dtype);
    const T value = *out;
    EACH(n, out[k] = value);
  } else {
    for (int k = 0; k < n; k++) NAME(load)(1, out + k, from + k * step * (int64_t)size, dtype);
  }
}

/* Elements position … position+n of the pass's shape, from an array with other strides: a stretch
 * along the last dimension after the other. */
TARGET static void NAME(gather)(int n, T *out, const char *from, const ol_access *access,
                                const ol_shape *shape, int64_t position) {
  int64_t index[OL_MAX_DIMS], at = 0, size = (int64_t)ol_dtype_size((ol_dtype)access->dtype);
  int last = shape->ndim - 1;
  for (int d = last; d >= 0; d--) {
    index[d] = position % shape->size[d];
    position /= shape->size[d];
    at += index[d] * access->stride[d];
  }
  for (int done = 0; done < n;) {
    int64_t step = last >= 0 ? access->stride[last] : 0;
    int64_t left = last >= 0 ? shape->size[last] - index[last] : 1;
    int length = left < n - done ? (int)left : n - done;
    NAME(stretch)(length, out + done, from + at * size, (ol_dtype)access->dtype, step);
    done += length;
    if (done == n) break;
    at -= index[last] * step;
    index[last] = 0;
    for (int d = last - 1; d >= 0; d--) {
      at += access->stride[d];
      if (++index[d] < shape->size[d]) break;
      at -= index[d] * access->stride[d];
      index[d] = 0;
    }
  }
}

/* Reductions: element i of a chunk goes to lane i mod 16. The lanes are vectors of the instruction
 * set's size, in registers. */

enum { NAME(WIDE) = VECTOR / sizeof(double), NAME(PARTS) = OL_LANES / NAME(WIDE) };

typedef double NAME(lanes) __attribute__((vector_size(VECTOR)));
typedef int64_t NAME(mask) __attribute__((vector_size(VECTOR)));
typedef T NAME(narrow) __attribute__((vector_size(NAME(WIDE) * sizeof(T))));

/* The lanes of v where `which` is set, of m elsewhere. */
#define SELECT(which) (NAME(lanes))(((which) & (NAME(mask))v) | (~(which) & (NAME(mask))m[part]))

#define ROWS(expression)                                                                           \
  for (int i = 0; i < rows; i++)                                                                   \
    _Pragma("GCC unroll 8") for (int part = 0; part < NAME(PARTS); part++) {                       \
      NAME(narrow) narrow;                                                                         \
      memcpy(&narrow, x + i * OL_LANES + part * NAME(WIDE), sizeof narrow);                        \
      const NAME(lanes) v = __builtin_convertvector(narrow, NAME(lanes));                          \
      m[part] = (expression);                                                                      \
    }

/* Whole rows of lanes. */
TARGET static void NAME(take_rows)(ol_rule_op op, int rows, const T *x, double *lanes) {
  NAME(lanes) m[NAME(PARTS)];
  memcpy(m, lanes, sizeof m);
  switch (op) {
  case OL_RULE_NORM: ROWS(m[part] + v * v); break;
  case OL_RULE_AMAX: ROWS(SELECT((v > m[part]) | (v != v))); break;
  case OL_RULE_AMIN: ROWS(SELECT((v < m[part]) | (v != v))); break;
  default: ROWS(m[part] + v);
  }
  memcpy(lanes, m, sizeof m);
}
#undef ROWS
#undef SELECT

/* n elements, of which the first has this index in its chunk. */
TARGET static void NAME(accumulate)(ol_rule_op op, int64_t index, int n, const T *x,
                                    double *lanes) {
  int i = 0, first = (int)(index % OL_LANES);
  for (; first > 0 && i < n; i++, first = (first + 1) % OL_LANES)
    lanes[first] = ol_reduce_take(op, lanes[first], x[i]);
  int rows = (n - i) / OL_LANES;
  NAME(take_rows)(op, rows, x + i, lanes);
  i += rows * OL_LANES;
  for (int lane = 0; i < n; i++, lane++) lanes[lane] = ol_reduce_take(op, lanes[lane], x[i]);
}

/* A pass in progress. */

typedef struct NAME(state) {
  const ol_work *work;
  T (*tile)[TILE];
  double (*lanes)[OL_LANES];
  T (*numbers)[OL_FORM_NUMBERS]; /* of each instruction */
  char **base;                   /* of each slot: where the array begins, or the tile */
  T **at;                        /* of each slot, for the tile at hand */
  T *gradient;                   /* the tile for g, or NULL: g is read in place */
  T gradient_factor;
} NAME(state);

TARGET static T NAME(number)(const ol_work *work, ol_factor factor) {
  if (factor.source == OL_FACTOR_NOTHING) return -(T)0;
  T value = factor.source == OL_FACTOR_ONE ? (T)1 : (T)work->numbers[factor.source];
  return factor.sign < 0 ? -value : value;
}

TARGET static void NAME(begin)(NAME(state) * s, const ol_work *work) {
  const ol_pass *pass = work->pass;
  char *scratch = work->scratch;
  s->work = work;
  s->tile = (void *)scratch, scratch += sizeof *s->tile * (size_t)pass->tiles;
  s->lanes = (void *)scratch, scratch += sizeof *s->lanes * (size_t)pass->accumulators;
  s->base = (void *)scratch, scratch += sizeof *s->base * (size_t)pass->slots;
  s->at = (void *)scratch, scratch += sizeof *s->at * (size_t)pass->slots;
  s->numbers = (void *)scratch;
  for (int i = 0; i < pass->slots; i++) {
    const ol_pass_slot *slot = &pass->slot[i];
    bool array = slot->kind == OL_SLOT_ARRAY;
    s->base[i] = array ? work->arrays[slot->index] : (char *)s->tile[slot->index];
    s->at[i] = (T *)s->base[i];
    if (slot->kind != OL_SLOT_CONSTANT) continue;
    T value = NAME(number)(work, slot->factor);
    for (int k = 0; k < TILE; k++) s->tile[slot->index][k] = value;
  }
  for (int i = 0; i < pass->instructions; i++)
    for (int k = 0; k < OL_FORM_NUMBERS; k++)
      s->numbers[i][k] = NAME(number)(work, pass->instruction[i].factor[k]);
  for (int i = 0; i < pass->accumulators; i++)
    for (int k = 0; k < OL_LANES; k++)
      s->lanes[i][k] = ol_reduce_identity((ol_rule_op)pass->accumulator[i].op);
  s->gradient_factor = work->gradient_factor ? (T)*work->gradient_factor : (T)1;
  s->gradient = work->gradient_factor && pass->gradient >= 0 ? s->tile[pass->gradient] : NULL;
}

TARGET static void NAME(load_access)(NAME(state) * s, const ol_instruction *op, int n,
                                     int64_t position) {
  const ol_work *work = s->work;
  const ol_access *access = &work->pass->access[op->in[0]];
  const char *from = work->arrays[access->array];
  T *out = s->at[op->out];
  size_t size = ol_dtype_size((ol_dtype)access->dtype);
  const ol_shape *shape = &work->code->shape[work->pass->shape];
  if (access->gathered)
    NAME(gather)(n, out, from, access, shape, position);
  else
    NAME(load)(n, out, from + position * (int64_t)size, (ol_dtype)access->dtype);
  if (access->array == 1 && work->gradient_factor) NAME(scale)(n, out, out, s->gradient_factor);
}

TARGET static void NAME(store_access)(NAME(state) * s, const ol_instruction *op, int n,
                                      int64_t position) {
  const ol_access *access = &s->work->pass->access[op->out];
  size_t size = ol_dtype_size((ol_dtype)access->dtype);
  char *to = s->work->arrays[access->array];
  NAME(store)(n, to + position * (int64_t)size, s->at[op->in[0]], (ol_dtype)access->dtype);
}

TARGET static void NAME(execute)(NAME(state) * s, int index, int n, int64_t position) {
  const ol_pass *pass = s->work->pass;
  const ol_instruction *op = &pass->instruction[index];
  switch (op->code) {
  case OL_CODE_LOAD: NAME(load_access)(s, op, n, position); return;
  case OL_CODE_STORE: NAME(store_access)(s, op, n, position); return;
  case OL_CODE_REDUCE:
    NAME(accumulate)((ol_rule_op)op->in[1], 0, n, s->at[op->in[0]], s->lanes[op->out]);
    return;
  default: break;
  }
  T *out = s->at[op->out];
  const T *x = s->at[op->in[0]], *y = s->at[op->in[1]], *z = s->at[op->in[2]];
  switch (op->code) {
#define CASE(name, expression)                                                                     \
  case OL_FORM_##name: NAME(form_##name)(n, out, x, y, z, s->numbers[index]); break;
    OL_FORMS(CASE)
#undef CASE
#define CASE(name)                                                                                 \
  case OL_CODE_OP + OL_RULE_##name: NAME(plain_##name)(n, out, x, y, z); break;
    CASE(ADD)
    CASE(SUB)
    CASE(MUL)
    CASE(DIV)
    CASE(NEG)
    CASE(SQRT)
    CASE(RSQRT)
    CASE(ABS)
    CASE(SIGN)
    CASE(EXP)
    CASE(LOG)
    CASE(TANH)
    CASE(MIN)
    CASE(MAX)
    CASE(LT)
    CASE(LE)
    CASE(GT)
    CASE(GE)
    CASE(EQ)
    CASE(NE)
    CASE(CLAMP)
    CASE(LERP)
    CASE(WHERE)
#undef CASE
  case OL_CODE_OP + OL_RULE_POW:
    NAME(power)(n, out, x, y, pass->slot[op->in[1]].kind == OL_SLOT_CONSTANT);
    break;
  default: memcpy(out, x, (size_t)n * sizeof(T)); /* COPY */
  }
}

/* Executes the instructions on n elements from position on. */
TARGET static void NAME(tile)(NAME(state) * s, int n, int64_t position) {
  const ol_pass *pass = s->work->pass;
  for (int i = 0; i < pass->slots; i++) {
    if (pass->slot[i].kind != OL_SLOT_ARRAY) continue;
    s->at[i] = (T *)s->base[i] + position;
    if (pass->slot[i].index != 1 || !s->gradient) continue;
    NAME(scale)(n, s->gradient, s->at[i], s->gradient_factor);
    s->at[i] = s->gradient;
  }
  for (int i = 0; i < pass->instructions; i++) NAME(execute)(s, i, n, position);
}

TARGET static void NAME(elements)(NAME(state) * s) {
  const ol_work *work = s->work;
  for (int64_t at = work->begin; at < work->end; at += TILE)
    NAME(tile)(s, work->end - at < TILE ? (int)(work->end - at) : TILE, at);
  for (int i = 0; i < work->pass->accumulators; i++)
    work->partial[i] = ol_reduce_fold((ol_rule_op)work->pass->accumulator[i].op, s->lanes[i]);
}

/* Reductions over a dimension. */

TARGET static void NAME(put)(const ol_work *work, int64_t at, double total, int64_t size) {
  T *target = work->arrays[work->pass->target];
  target[at] = (T)ol_reduce_finish((ol_rule_op)work->pass->op, total, size);
}

/* Rows that follow each other in memory, cut into tiles wherever they end. */
TARGET static void NAME(rows)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  double identity = ol_reduce_identity(op), lanes[OL_LANES], total = identity;
  int64_t column = 0, row = work->begin;
  for (int k = 0; k < OL_LANES; k++) lanes[k] = identity;
  for (; row < work->end && units.size == 0; row++) NAME(put)(work, row, identity, 0);
  for (int64_t at = work->begin * units.size, end = work->end * units.size; at < end;) {
    int n = end - at < TILE ? (int)(end - at) : TILE;
    NAME(tile)(s, n, at);
    const T *x = s->at[work->pass->result];
    for (int done = 0; done < n;) {
      int64_t left = units.size - column, chunk = OL_MACHINE_CHUNK - column % OL_MACHINE_CHUNK;
      if (chunk < left) left = chunk;
      int length = left < n - done ? (int)left : n - done;
      NAME(accumulate)(op, column, length, x + done, lanes);
      column += length, done += length;
      if (length < left) continue;
      total = ol_reduce_join(op, total, ol_reduce_fold(op, lanes));
      for (int k = 0; k < OL_LANES; k++) lanes[k] = identity;
      if (column < units.size) continue;
      NAME(put)(work, row++, total, units.size);
      total = identity, column = 0;
    }
    at += n;
  }
}

/* x joins total, element by element. */
TARGET static void NAME(join)(ol_rule_op op, int n, const T *x, double *total) {
  switch (op) {
  case OL_RULE_NORM: EACH(n, total[k] += (double)x[k] * (double)x[k]); break;
  case OL_RULE_AMAX:
  case OL_RULE_AMIN:
    for (int k = 0; k < n; k++) total[k] = ol_reduce_take(op, total[k], x[k]);
    break;
  default: EACH(n, total[k] += (double)x[k]);
  }
}

/* Columns no wider than a tile: slabs (size, inner) that follow each other in memory. */
TARGET static void NAME(slabs)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  double total[TILE];
  int64_t slab = units.size * units.inner, at = work->begin * slab, done = 0;
  for (int64_t unit = work->begin; unit < work->end; unit++) {
    for (int k = 0; k < units.inner; k++) total[k] = ol_reduce_identity(op);
    for (int64_t row = 0; row < units.size; row++)
      for (int column = 0; column < units.inner;) {
        int64_t position = unit * slab + row * units.inner + column;
        if (position >= at) { /* the next tile, up to the end of the work */
          int64_t left = work->end * slab - position;
          NAME(tile)(s, left < TILE ? (int)left : TILE, position);
          at = position + TILE, done = position;
        }
        int length = (int)units.inner - column;
        if (length > at - position) length = (int)(at - position);
        NAME(join)(op, length, s->at[work->pass->result] + (position - done), total + column);
        column += length;
      }
    for (int k = 0; k < units.inner; k++)
      NAME(put)(work, unit * units.inner + k, total[k], units.size);
  }
}

/* Wider columns: a block of them at a time, row by row. */
TARGET static void NAME(columns)(NAME(state) * s, ol_units units) {
  const ol_work *work = s->work;
  const ol_rule_op op = (ol_rule_op)work->pass->op;
  double total[TILE];
  for (int64_t unit = work->begin; unit < work->end; unit++) {
    int64_t outer = unit / units.blocks, first = unit % units.blocks * TILE;
    int n = units.inner - first < TILE ? (int)(units.inner - first) : TILE;
    for (int k = 0; k < n; k++) total[k] = ol_reduce_identity(op);
    for (int64_t row = 0; row < units.size; row++) {
      NAME(tile)(s, n, (outer * units.size + row) * units.inner + first);
      NAME(join)(op, n, s->at[work->pass->result], total);
    }
    for (int k = 0; k < n; k++)
      NAME(put)(work, outer * units.inner + first + k, total[k], units.size);
  }
}

TARGET static void NAME(run)(const ol_work *work) {
  NAME(state) s;
  NAME(begin)(&s, work);
  if (work->pass->dim < 0) {
    NAME(elements)(&s);
    return;
  }
  ol_units units = ol_kernel_units(&work->code->shape[work->pass->shape], work->pass->dim);
  if (units.inner == 1)
    NAME(rows)(&s, units);
  else if (units.blocks == 1)
    NAME(slabs)(&s, units);
  else
    NAME(columns)(&s, units);
}

#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef SQRT
#undef MIN
#undef MAX
#undef SIGN
#undef LERP
#undef T
#undef WIDTH
