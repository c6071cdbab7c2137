/* emit: instructions of the processor for operations on vectors. */
#include "rule/emit.h"

#include <stddef.h>

enum {
  VECTOR = OL_NATIVE_VECTOR,
  REGISTERS = 16,
  LANE_VECTORS = OL_LANES * sizeof(double) / VECTOR, /* of an accumulator */
};

#define REG(value) ol_in_register(value)

/* Places. */

int ol_emit_base(int i) {
  static const int8_t registers[OL_NATIVE_ARRAYS] = { OL_RDX, OL_RSI, OL_R8,  OL_R9,
                                                      OL_R10, OL_R11, OL_RBX, OL_RBP,
                                                      OL_R12, OL_R13, OL_R14, OL_R15 };
  return registers[i];
}

bool ol_emit_is_saved(int i) { return i >= 6; }

ol_place ol_emit_frame(size_t offset) {
  return (ol_place){ .memory = true, .reg = OL_EMIT_FRAME, .index = -1, .offset = (int32_t)offset };
}

ol_place ol_emit_array(ol_emitter *e, int array, int access) {
  const ol_native *n = e->native;
  int i = 0;
  while (i < n->arrays && !(n->array[i].array == array && n->array[i].access == access)) i++;
  if (i == n->arrays) {
    e->failed = true;
    return ol_emit_frame(0);
  }
  const int width = n->array[i].width;
  const int64_t line = array == OL_NATIVE_TOTALS ? 0 : e->line * e->pitch;
  return (ol_place){ .memory = true,
                     .reg = (int8_t)ol_emit_base(i),
                     .index = OL_EMIT_INDEX,
                     .scale = (uint8_t)width,
                     .offset = (int32_t)((e->vector * ol_emit_width(e) + line) * width) };
}

static int lane_register(int lane_vector) { return REGISTERS - 1 - lane_vector; }

static int kept_register(const ol_emitter *e, int constant) {
  return REGISTERS - 1 - e->lanes * LANE_VECTORS - constant;
}

ol_place ol_emit_constant(ol_emitter *e, int kind, int index, uint64_t bits) {
  ol_native *n = e->native;
  int i = 0;
  for (; i < n->constants; i++) {
    const ol_native_constant *c = &n->constant[i];
    if ((int)c->kind == kind && c->index == index && c->bits == bits) break;
  }
  if (i == OL_NATIVE_CONSTANTS) {
    e->failed = true;
    return ol_emit_frame(0);
  }
  if (i == n->constants)
    n->constant[n->constants++] =
        (ol_native_constant){ .kind = kind, .index = index, .bits = bits };
  if (i < e->kept) return REG(kept_register(e, i));
  return ol_emit_frame(ol_native_constants_at(n) + VECTOR * (size_t)i);
}

static ol_place bits(ol_emitter *e, uint64_t value) {
  return ol_emit_constant(e, OL_NATIVE_BITS, 0, value);
}

static ol_place zero(ol_emitter *e) { return bits(e, 0); }

static ol_place one(ol_emitter *e) {
  return bits(e, e->native->wide ? UINT64_C(0x3ff0000000000000) : OL_BITS_OF_ONE);
}

static ol_place half(ol_emitter *e) {
  return bits(e, e->native->wide ? UINT64_C(0x3fe0000000000000) : 0x3f000000);
}

static uint64_t sign_bit(const ol_emitter *e) { return UINT64_C(1) << (e->native->wide ? 63 : 31); }
static ol_place sign(ol_emitter *e) { return bits(e, sign_bit(e)); }
static ol_place magnitude(ol_emitter *e) { return bits(e, sign_bit(e) - 1); }

static int take(ol_emitter *e) {
  int reg = 0;
  while (reg < REGISTERS - e->reserved && e->used >> reg & 1) reg++;
  if (reg == REGISTERS - e->reserved) {
    e->failed = true;
    return 0;
  }
  if (reg >= e->most) e->most = reg + 1;
  e->used |= UINT32_C(1) << reg;
  return reg;
}

/* Instructions of the processor: of float32, and with a prefix of float64. */

enum {
  LOAD = 0x10,
  STORE = 0x11,
  ROOT = 0x51,
  AND = 0x54,
  OR = 0x56,
  XOR = 0x57,
  ADD = 0x58,
  MUL = 0x59,
  SUB = 0x5c,
  MIN = 0x5d,
  DIV = 0x5e,
  MAX = 0x5f,
  COMPARE = 0xc2,
};

/* How COMPARE compares. Where one is NaN: false, but for UNORDERED and NEQ. */
enum {
  EQ = 0x00,
  UNORDERED = 0x03,
  NEQ = 0x04,
  DIFFERS = 0x0c,
  LT = 0x11,
  LE = 0x12,
  GE = 0x1d,
  GT = 0x1e,
};

/* Others. */
static const ol_vector_op blend_f32 = { .prefix = 1, .map = 3, .opcode = 0x4a },
                          blend_f64 = { .prefix = 1, .map = 3, .opcode = 0x4b },
                          widen = { .map = 1, .opcode = 0x5a },
                          upper_half = { .prefix = 1, .map = 3, .opcode = 0x19 },
                          word_and = { .prefix = 1, .map = 1, .opcode = 0xdb },
                          word_or = { .prefix = 1, .map = 1, .opcode = 0xeb },
                          word_xor = { .prefix = 1, .map = 1, .opcode = 0xef },
                          word_add = { .prefix = 1, .map = 1, .opcode = 0xfe },
                          word_mul = { .prefix = 1, .map = 2, .opcode = 0x40 },
                          word_shift = { .prefix = 1, .map = 1, .opcode = 0x72 },
                          halves_to_words = { .prefix = 1, .map = 2, .opcode = 0x33 },
                          words_to_halves = { .prefix = 1, .map = 2, .half = 1, .opcode = 0x2b },
                          store_half = { .prefix = 2, .map = 1, .half = 1, .opcode = 0x7f };

/* Where word_shift goes. */
enum { RIGHT = 2, LEFT = 6 };

static ol_vector_op arithmetic(const ol_emitter *e, int opcode) {
  return (ol_vector_op){ .prefix = e->native->wide, .map = 1, .opcode = (uint8_t)opcode };
}

/* Of float64, whatever the pass computes with. */
static ol_vector_op in_double(int opcode) {
  return (ol_vector_op){ .prefix = 1, .map = 1, .opcode = (uint8_t)opcode };
}

static int put(ol_emitter *e, ol_vector_op op, int first, ol_place last) {
  const int out = take(e);
  ol_asm_vector(&e->code, op, out, first, last);
  return out;
}

int ol_emit_load(ol_emitter *e, ol_place from) {
  return from.memory ? put(e, arithmetic(e, LOAD), 0, from) : from.reg;
}

void ol_emit_store(ol_emitter *e, int reg, ol_place to) {
  ol_asm_vector(&e->code, arithmetic(e, STORE), reg, 0, to);
}

static int compute(ol_emitter *e, int opcode, ol_place first, ol_place last) {
  const bool turn = (opcode == ADD || opcode == MUL) && first.memory && !last.memory;
  return put(e, arithmetic(e, opcode), ol_emit_load(e, turn ? last : first), turn ? first : last);
}

static int root(ol_emitter *e, ol_place x) { return put(e, arithmetic(e, ROOT), 0, x); }

/* A mask: all bits where the comparison holds. */
static int compare(ol_emitter *e, ol_place first, ol_place last, int how) {
  const int out = take(e), x = ol_emit_load(e, first);
  ol_asm_vector_byte(&e->code, arithmetic(e, COMPARE), out, x, last, how);
  return out;
}

/* yes where the mask is set, no elsewhere. */
static int blend(ol_emitter *e, ol_place yes, ol_place no, int mask) {
  const int out = take(e), other = ol_emit_load(e, no);
  const ol_vector_op op = e->native->wide ? blend_f64 : blend_f32;
  ol_asm_vector_byte(&e->code, op, out, other, yes, mask << 4);
  return out;
}

static int shift(ol_emitter *e, int direction, int x, int count) {
  const int out = take(e);
  ol_asm_vector_byte(&e->code, word_shift, direction, out, REG(x), count);
  return out;
}

/* Operations, as op.h says. */

/* MIN and MAX give their last operand where they are equal or one is NaN. */
static int extreme(ol_emitter *e, int opcode, ol_place x, ol_emit_input limit) {
  const int y = ol_emit_load(e, limit.place), other = put(e, arithmetic(e, opcode), y, x);
  if (!limit.may_be_nan) return other;
  return blend(e, REG(y), REG(other), compare(e, REG(y), REG(y), UNORDERED));
}

static int sign_of(ol_emitter *e, ol_place x) {
  const int value = ol_emit_load(e, x), differs = compare(e, REG(value), zero(e), DIFFERS);
  const int signs = compute(e, AND, REG(value), sign(e));
  return compute(e, AND, REG(compute(e, OR, REG(signs), one(e))), REG(differs));
}

static int lerp(ol_emitter *e, ol_place x, ol_place y, ol_place w) {
  const int from = ol_emit_load(e, x), to = ol_emit_load(e, y), weight = ol_emit_load(e, w);
  const int way = compute(e, SUB, REG(to), REG(from));
  const int near_x = compute(e, ADD, REG(from), REG(compute(e, MUL, REG(weight), REG(way))));
  const int rest = compute(e, SUB, one(e), REG(weight));
  const int near_y = compute(e, SUB, REG(to), REG(compute(e, MUL, REG(way), REG(rest))));
  const int size = compute(e, AND, REG(weight), magnitude(e));
  return blend(e, REG(near_x), REG(near_y), compare(e, REG(size), half(e), LT));
}

static int truth(ol_emitter *e, ol_place x, ol_place y, int how) {
  return compute(e, AND, REG(compare(e, x, y, how)), one(e));
}

static int inverse(ol_emitter *e, int x) { return compute(e, DIV, one(e), REG(x)); }

int ol_emit_operation(ol_emitter *e, ol_rule_op op, const ol_emit_input in[3]) {
  const ol_place x = in[0].place, y = in[1].place, z = in[2].place;
  switch (op) {
  case OL_RULE_ADD: return compute(e, ADD, x, y);
  case OL_RULE_SUB: return compute(e, SUB, x, y);
  case OL_RULE_MUL: return compute(e, MUL, x, y);
  case OL_RULE_DIV: return compute(e, DIV, x, y);
  case OL_RULE_NEG: return compute(e, XOR, x, sign(e));
  case OL_RULE_SQRT: return root(e, x);
  case OL_RULE_RSQRT: return inverse(e, root(e, x));
  case OL_RULE_ABS: return compute(e, AND, x, magnitude(e));
  case OL_RULE_SIGN: return sign_of(e, x);
  case OL_RULE_MIN: return extreme(e, MIN, x, in[1]);
  case OL_RULE_MAX: return extreme(e, MAX, x, in[1]);
  case OL_RULE_LT: return truth(e, x, y, LT);
  case OL_RULE_LE: return truth(e, x, y, LE);
  case OL_RULE_GT: return truth(e, x, y, GT);
  case OL_RULE_GE: return truth(e, x, y, GE);
  case OL_RULE_EQ: return truth(e, x, y, EQ);
  case OL_RULE_NE: return truth(e, x, y, NEQ);
  case OL_RULE_CLAMP: return extreme(e, MIN, REG(extreme(e, MAX, x, in[1])), in[2]);
  case OL_RULE_LERP: return lerp(e, x, y, z);
  case OL_RULE_WHERE: return blend(e, y, z, compare(e, x, zero(e), NEQ));
  default: e->failed = true; return 0;
  }
}

int ol_emit_product(ol_emitter *e, ol_place factor, ol_place x) {
  return compute(e, MUL, factor, x);
}

int ol_emit_power(ol_emitter *e, ol_place x, double exponent) {
  const int base = ol_emit_load(e, x);
  if (exponent == 2) return compute(e, MUL, REG(base), REG(base));
  if (exponent == 3) return compute(e, MUL, REG(compute(e, MUL, REG(base), REG(base))), REG(base));
  if (exponent == 0.5) return root(e, REG(base));
  if (exponent == -0.5) return inverse(e, root(e, REG(base)));
  if (exponent == -1) return inverse(e, base);
  e->failed = true;
  return 0;
}

/* bfloat16: the upper halves of float32 (narrow.h). */

int ol_emit_load_narrow(ol_emitter *e, ol_place from) {
  return shift(e, LEFT, put(e, halves_to_words, 0, from), 16);
}

/* x plus what is added to the bits below those that stay, into the register of that; NaN stays NaN.
 * These work in place, so that registers are left for constants. */
static int rounded(ol_emitter *e, int x, int sum) {
  const int mask = compare(e, REG(x), REG(x), UNORDERED), quiet = take(e);
  ol_asm_vector(&e->code, word_add, sum, x, REG(sum));
  ol_asm_vector(&e->code, word_or, quiet, x, bits(e, 0x400000));
  ol_asm_vector_byte(&e->code, blend_f32, sum, sum, REG(quiet), mask << 4);
  return sum;
}

static int to_nearest(ol_emitter *e, int x) {
  const int odd = shift(e, RIGHT, x, 16);
  ol_asm_vector(&e->code, word_and, odd, odd, bits(e, 1));
  ol_asm_vector(&e->code, word_add, odd, odd, bits(e, 0x7fff));
  return rounded(e, x, odd);
}

/* Words of noise for a row; the counters go on to the next one. */
static void make_noise(ol_emitter *e, size_t at) {
  const uint32_t used = e->used;
  const int counter = ol_emit_load(e, ol_emit_frame(at + offsetof(ol_native_noise, counter)));
  const int word = take(e);
  for (size_t i = 0; i < 2; i++) {
    ol_asm_vector_byte(&e->code, word_shift, RIGHT, word, REG(counter), 16);
    ol_asm_vector(&e->code, word_xor, word, word, REG(counter));
    ol_asm_vector(&e->code, word_mul, word, word, bits(e, OL_NOISE_FACTOR));
    ol_emit_store(e, word, ol_emit_frame(at + offsetof(ol_native_noise, word) + VECTOR * i));
    ol_asm_vector(&e->code, word_add, counter, counter, bits(e, (uint32_t)(VECTOR / 4 * OL_WEYL)));
  }
  ol_emit_store(e, counter, ol_emit_frame(at + offsetof(ol_native_noise, counter)));
  e->used = used;
}

/* The first half of the row takes the upper halves of its words of noise, the second the lower. */
static int at_random(ol_emitter *e, int x, int noise) {
  const size_t at = ol_native_noise_at(e->native) + sizeof(ol_native_noise) * (size_t)noise;
  const int vectors = OL_NATIVE_ROW / 2 / ol_emit_width(e);
  if (e->vector == 0) make_noise(e, at);
  const size_t part = VECTOR * (size_t)(e->vector % vectors);
  const int word = ol_emit_load(e, ol_emit_frame(at + offsetof(ol_native_noise, word) + part));
  if (e->vector < vectors)
    ol_asm_vector_byte(&e->code, word_shift, RIGHT, word, REG(word), 16);
  else
    ol_asm_vector(&e->code, word_and, word, word, bits(e, 0xffff));
  return rounded(e, x, word);
}

void ol_emit_store_narrow(ol_emitter *e, int reg, ol_place to, int noise) {
  const int sum = noise >= 0 ? at_random(e, reg, noise) : to_nearest(e, reg), upper = take(e);
  ol_asm_vector_byte(&e->code, word_shift, RIGHT, sum, REG(sum), 16);
  ol_asm_vector_byte(&e->code, upper_half, sum, 0, REG(upper), 1);
  ol_asm_vector(&e->code, words_to_halves, sum, sum, REG(upper));
  ol_asm_vector(&e->code, store_half, sum, 0, to);
}

/* Reductions. */

/* total = total and four elements, in double. */
static void accumulate(ol_emitter *e, ol_rule_op op, int total, int x) {
  if (op == OL_RULE_AMAX || op == OL_RULE_AMIN) {
    const int beyond = take(e), unordered = take(e);
    const int how = op == OL_RULE_AMAX ? GT : LT;
    ol_asm_vector_byte(&e->code, in_double(COMPARE), beyond, x, REG(total), how);
    ol_asm_vector_byte(&e->code, in_double(COMPARE), unordered, x, REG(x), UNORDERED);
    ol_asm_vector(&e->code, in_double(OR), beyond, beyond, REG(unordered));
    ol_asm_vector_byte(&e->code, blend_f64, total, total, REG(x), beyond << 4);
  } else {
    if (op == OL_RULE_NORM) x = put(e, in_double(MUL), x, REG(x));
    ol_asm_vector(&e->code, in_double(ADD), total, total, REG(x));
  }
}

/* The totals of four elements of the vector at hand: of their columns, or of lanes: element i goes
 * to lane i mod 16. */
static ol_place totals_of(const ol_emitter *e, int accumulator, int part) {
  if (accumulator == OL_NATIVE_TOTALS) return REG(lane_register(part));
  const int lane = (e->vector * ol_emit_width(e) / 4 + part) % LANE_VECTORS;
  const int index = accumulator * LANE_VECTORS + lane;
  if (accumulator < e->lanes) return REG(lane_register(index));
  return ol_emit_frame(ol_native_lanes_at() + VECTOR * (size_t)index);
}

static void join(ol_emitter *e, ol_rule_op op, int x, ol_place totals) {
  const uint32_t used = e->used;
  const int total = totals.memory ? put(e, in_double(LOAD), 0, totals) : totals.reg;
  accumulate(e, op, total, x);
  if (totals.memory) ol_asm_vector(&e->code, in_double(STORE), total, 0, totals);
  e->used = used;
}

void ol_emit_reduce(ol_emitter *e, ol_rule_op op, int x, int accumulator) {
  if (e->native->wide) {
    join(e, op, x, totals_of(e, accumulator, 0));
    return;
  }
  const int upper = take(e), lower = put(e, widen, 0, REG(x));
  join(e, op, lower, totals_of(e, accumulator, 0));
  ol_asm_vector_byte(&e->code, upper_half, x, 0, REG(upper), 1);
  join(e, op, put(e, widen, 0, REG(upper)), totals_of(e, accumulator, 1));
}

void ol_emit_totals(ol_emitter *e, bool store) {
  ol_place place = ol_emit_array(e, OL_NATIVE_TOTALS, OL_NATIVE_NONE);
  for (int part = 0; part < (e->native->wide ? 1 : 2); part++, place.offset += VECTOR)
    ol_asm_vector(&e->code, in_double(store ? STORE : LOAD), lane_register(part), 0, place);
}

/* What stays in registers. */

void ol_emit_reserve(ol_emitter *e) {
  e->lanes = e->native->columns;
  e->reserved = e->lanes * LANE_VECTORS;
}

void ol_emit_choose(ol_emitter *e) {
  const int left = REGISTERS - e->most, lanes = left / LANE_VECTORS;
  const ol_native *n = e->native;
  if (!n->columns) e->lanes = lanes < n->accumulators ? lanes : n->accumulators;
  const int rest = left - e->lanes * LANE_VECTORS;
  e->kept = rest < n->constants ? rest : n->constants;
  e->reserved = e->lanes * LANE_VECTORS + e->kept;
}

static void move_lanes(ol_emitter *e, int opcode) {
  for (int i = 0; !e->native->columns && i < e->lanes * LANE_VECTORS; i++)
    ol_asm_vector(&e->code, in_double(opcode), lane_register(i), 0,
                  ol_emit_frame(ol_native_lanes_at() + VECTOR * (size_t)i));
}

void ol_emit_begin(ol_emitter *e) {
  for (int i = 0; i < e->kept; i++)
    ol_asm_vector(&e->code, arithmetic(e, LOAD), kept_register(e, i), 0,
                  ol_emit_frame(ol_native_constants_at(e->native) + VECTOR * (size_t)i));
  move_lanes(e, LOAD);
}

void ol_emit_end(ol_emitter *e) { move_lanes(e, STORE); }
