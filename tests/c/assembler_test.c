/* The assembler: its bytes are those that GNU as gives (with {vex3}). */
#include "rule/assembler.h"

#include <string.h>

#include "check.h"

static uint8_t code[64];
static ol_assembler a;

static bool gives(const char *bytes) {
  char text[3 * sizeof code + 1] = "";
  for (size_t i = 0; i < a.size; i++) snprintf(text + 3 * i, 4, "%02x ", code[i]);
  if (a.size > 0) text[3 * a.size - 1] = 0;
  a.size = 0;
  if (strcmp(text, bytes) == 0) return true;
  printf("  %s for %s\n", text, bytes);
  return false;
}

static ol_place at(int base, int index, int scale, int offset) {
  return (ol_place){ true, (int8_t)base, (int8_t)index, (uint8_t)scale, offset };
}

int main(void) {
  const ol_vector_op add = { .map = 1, .opcode = 0x58 },
                     blend = { .prefix = 1, .map = 3, .opcode = 0x4a },
                     shift = { .prefix = 1, .map = 1, .opcode = 0x72 },
                     pack = { .prefix = 1, .map = 2, .half = 1, .opcode = 0x2b },
                     move = { .prefix = 2, .map = 1, .half = 1, .opcode = 0x7f };
  a = (ol_assembler){ code, 0, sizeof code };

  /* vaddps ymm1, ymm2, ymm3; ymm9, ymm10, ymm11; ymm12, ymm3, [r13 + rax*4 + 256] … */
  ol_asm_vector(&a, add, 1, 2, ol_in_register(3));
  CHECK(gives("c4 e1 6c 58 cb"));
  ol_asm_vector(&a, add, 9, 10, ol_in_register(11));
  CHECK(gives("c4 41 2c 58 cb"));
  ol_asm_vector(&a, add, 12, 3, at(OL_R13, OL_RAX, 4, 256));
  CHECK(gives("c4 41 64 58 a4 85 00 01 00 00"));
  ol_asm_vector(&a, add, 0, 0, at(OL_RDI, -1, 1, -128));
  CHECK(gives("c4 e1 7c 58 47 80"));
  ol_asm_vector(&a, add, 0, 0, at(OL_RDI, -1, 1, 128));
  CHECK(gives("c4 e1 7c 58 87 80 00 00 00"));
  ol_asm_vector(&a, add, 0, 0, at(OL_R12, -1, 1, 8)); /* needs a SIB, as rsp does */
  CHECK(gives("c4 c1 7c 58 44 24 08"));
  ol_asm_vector(&a, add, 0, 0, at(OL_RSI, OL_R9, 8, 0));
  CHECK(gives("c4 a1 7c 58 44 ce 00"));

  /* vblendvps ymm1, ymm2, ymm3, ymm15; vpsrld ymm8, ymm9, 16; vpackusdw xmm0, xmm1, xmm2; vmovdqu
   * [rdx + rax*2], xmm7 */
  ol_asm_vector_byte(&a, blend, 1, 2, ol_in_register(3), 0xf0);
  CHECK(gives("c4 e3 6d 4a cb f0"));
  ol_asm_vector_byte(&a, shift, 2, 8, ol_in_register(9), 16);
  CHECK(gives("c4 c1 3d 72 d1 10"));
  ol_asm_vector(&a, pack, 0, 1, ol_in_register(2));
  CHECK(gives("c4 e2 71 2b c2"));
  ol_asm_vector(&a, move, 7, 0, at(OL_RDX, OL_RAX, 2, 0));
  CHECK(gives("c4 e1 7a 7f 7c 42 00"));

  /* mov r9, [rdi + 16]; push rbx, r12; pop r12; xor eax, eax */
  ol_asm_load(&a, OL_R9, at(OL_RDI, -1, 1, 16));
  CHECK(gives("4c 8b 4f 10"));
  ol_asm_push(&a, OL_RBX), ol_asm_push(&a, OL_R12), ol_asm_pop(&a, OL_R12);
  CHECK(gives("53 41 54 41 5c"));
  ol_asm_clear(&a, OL_RAX);
  CHECK(gives("31 c0"));

  /* add rax, 32; cmp rax, rcx; jb to the first byte; vzeroupper; ret */
  ol_asm_add(&a, OL_RAX, 32);
  ol_asm_loop(&a, OL_RAX, OL_RCX, 0);
  ol_asm_return(&a);
  CHECK(gives("48 81 c0 20 00 00 00 48 39 c8 0f 82 f0 ff ff ff c5 f8 77 c3"));

  /* What does not fit is counted. */
  a.room = 2;
  ol_asm_add(&a, OL_RAX, 1);
  CHECK(a.size == 7);
  return check_summary();
}
