/* assembler: writes machine code. */
#include "rule/assembler.h"

static void byte(ol_assembler *a, int value) {
  if (a->size < a->room) a->code[a->size] = (uint8_t)value;
  a->size++;
}

static void word(ol_assembler *a, int32_t value) {
  for (int i = 0; i < 4; i++) byte(a, (int)((uint32_t)value >> 8 * i & 0xff));
}

static int high(int reg) { return reg >> 3 & 1; }

/* The operand bytes: ModRM, SIB, offset. */
static void operand(ol_assembler *a, int reg, ol_place place) {
  const int field = (reg & 7) << 3, low = place.reg & 7;
  if (!place.memory) {
    byte(a, 0xc0 | field | low);
    return;
  }
  const bool near = place.offset >= -128 && place.offset < 128;
  const int mode = near ? 0x40 : 0x80;
  if (place.index >= 0 || low == OL_RSP) {
    const int shift = place.scale == 8 ? 3 : place.scale == 4 ? 2 : place.scale == 2 ? 1 : 0;
    const int index = place.index >= 0 ? place.index & 7 : OL_RSP; /* rsp: no index */
    byte(a, mode | field | OL_RSP);
    byte(a, shift << 6 | index << 3 | low);
  } else {
    byte(a, mode | field | low);
  }
  if (near)
    byte(a, place.offset);
  else
    word(a, place.offset);
}

static int index_bit(ol_place place) { return place.index >= 0 ? high(place.index) : 0; }

void ol_asm_vector(ol_assembler *a, ol_vector_op op, int reg, int first, ol_place last) {
  byte(a, 0xc4);
  byte(a, !high(reg) << 7 | !index_bit(last) << 6 | !high(last.reg) << 5 | op.map);
  byte(a, op.wide << 7 | (~first & 15) << 3 | !op.half << 2 | op.prefix);
  byte(a, op.opcode);
  operand(a, reg, last);
}

void ol_asm_vector_byte(ol_assembler *a, ol_vector_op op, int reg, int first, ol_place last,
                        int value) {
  ol_asm_vector(a, op, reg, first, last);
  byte(a, value);
}

/* REX. */
static void prefix(ol_assembler *a, bool wide, int reg, ol_place place) {
  const int bits = wide << 3 | high(reg) << 2 | index_bit(place) << 1 | high(place.reg);
  if (bits) byte(a, 0x40 | bits);
}

void ol_asm_load(ol_assembler *a, int reg, ol_place from) {
  prefix(a, true, reg, from);
  byte(a, 0x8b);
  operand(a, reg, from);
}

void ol_asm_push(ol_assembler *a, int reg) {
  if (high(reg)) byte(a, 0x41);
  byte(a, 0x50 | (reg & 7));
}

void ol_asm_pop(ol_assembler *a, int reg) {
  if (high(reg)) byte(a, 0x41);
  byte(a, 0x58 | (reg & 7));
}

void ol_asm_clear(ol_assembler *a, int reg) {
  if (high(reg)) byte(a, 0x45);
  byte(a, 0x31);
  operand(a, reg, ol_in_register(reg));
}

void ol_asm_add(ol_assembler *a, int reg, int32_t value) {
  byte(a, 0x48);
  byte(a, 0x81);
  operand(a, 0, ol_in_register(reg));
  word(a, value);
}

void ol_asm_loop(ol_assembler *a, int left, int right, size_t position) {
  byte(a, 0x48);
  byte(a, 0x39); /* cmp left, right */
  operand(a, right, ol_in_register(left));
  byte(a, 0x0f);
  byte(a, 0x82); /* jb, from the end of this instruction */
  word(a, (int32_t)((int64_t)position - (int64_t)(a->size + 4)));
}

void ol_asm_return(ol_assembler *a) {
  byte(a, 0xc5), byte(a, 0xf8), byte(a, 0x77); /* vzeroupper */
  byte(a, 0xc3);
}
