/* assembler: the instructions of x86-64 that emit.c and translate.c write: vectors of 32 bytes
 * (AVX2), and what a loop needs. See the Intel 64 and IA-32 Architectures Software Developer's
 * Manual, volume 2, section 2.3 for the encoding. */
#ifndef OL_RULE_ASSEMBLER_H
#define OL_RULE_ASSEMBLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ol_assembler {
  uint8_t *code;
  size_t size, room; /* of code, in bytes; what does not fit is counted but not written */
} ol_assembler;

/* General registers, as they are encoded. */
enum {
  OL_RAX,
  OL_RCX,
  OL_RDX,
  OL_RBX,
  OL_RSP,
  OL_RBP,
  OL_RSI,
  OL_RDI,
  OL_R8,
  OL_R9,
  OL_R10,
  OL_R11,
  OL_R12,
  OL_R13,
  OL_R14,
  OL_R15
};

/* A vector register, or memory: base + index * scale + offset. */
typedef struct ol_place {
  bool memory;
  int8_t reg;    /* the vector register, or the base */
  int8_t index;  /* or -1 */
  uint8_t scale; /* 1, 2, 4, 8 */
  int32_t offset;
} ol_place;

static inline ol_place ol_in_register(int reg) {
  return (ol_place){ false, (int8_t)reg, -1, 1, 0 };
}

/* An instruction on vectors: how it is encoded. */
typedef struct ol_vector_op {
  uint8_t prefix; /* 0: none, 1: 66, 2: F3, 3: F2 */
  uint8_t map;    /* 1: 0F, 2: 0F38, 3: 0F3A */
  uint8_t wide;   /* the bit W */
  uint8_t half;   /* vectors of 16 bytes */
  uint8_t opcode;
} ol_vector_op;

/* reg: the result (or what is stored); first: the first operand, 0 where there is but one; last:
 * the last one, which may be in memory. */
void ol_asm_vector(ol_assembler *a, ol_vector_op op, int reg, int first, ol_place last);

/* The same with a byte behind it. */
void ol_asm_vector_byte(ol_assembler *a, ol_vector_op op, int reg, int first, ol_place last,
                        int byte);

/* reg = the 8 bytes in memory. */
void ol_asm_load(ol_assembler *a, int reg, ol_place from);

/* Saves a register on the stack, takes it back, sets it to 0. */
void ol_asm_push(ol_assembler *a, int reg);
void ol_asm_pop(ol_assembler *a, int reg);
void ol_asm_clear(ol_assembler *a, int reg);

/* Adds to one of the first 8 registers. */
void ol_asm_add(ol_assembler *a, int reg, int32_t value);

/* Jumps back to a position in the code while left < right, both of the first 8 registers. */
void ol_asm_loop(ol_assembler *a, int left, int right, size_t position);

/* Ends a function that has used vectors. */
void ol_asm_return(ol_assembler *a);

#endif
