/* emit: what the operations of rules, roundings and reductions are in instructions of the
 * processor.
 *
 * Values are vectors of 32 bytes in registers. Those that no slot of the pass holds are free again
 * when an instruction of the pass ends, so callers give nothing back. What does not work out, for
 * want of a register say, sets `failed`; then the code is thrown away. */
#ifndef OL_RULE_EMIT_H
#define OL_RULE_EMIT_H

#include "rule/assembler.h"
#include "rule/native_code.h"

/* General registers: the argument, the index of the elements at hand, and how many there are. */
enum { OL_EMIT_FRAME = OL_RDI, OL_EMIT_INDEX = OL_RAX, OL_EMIT_END = OL_RCX };

typedef struct ol_emitter {
  ol_assembler code;
  ol_native *native;
  bool failed;
  int vector;    /* the one at hand, of the row */
  int line;      /* of a matrix whose columns are reduced, of those that are done at once */
  int64_t pitch; /* elements from line to line */
  uint32_t used; /* registers, a bit each */
  int most;      /* that were used at once */
  int reserved;  /* the last registers: for what stays there throughout the loop: */
  int lanes;     /* those of so many accumulators (or the totals of columns), */
  int kept;      /* and so many constants */
} ol_emitter;

/* Elements of a vector. */
static inline int ol_emit_width(const ol_emitter *e) {
  return OL_NATIVE_VECTOR / (e->native->wide ? 8 : 4);
}

/* Places. */

/* The vector, or the 8 bytes, at an offset in the frame. */
ol_place ol_emit_frame(size_t offset);

/* The register with the base of array i, and whether callers expect it to be saved. */
int ol_emit_base(int i);
bool ol_emit_is_saved(int i);

/* The elements at hand of an array (or of OL_NATIVE_TOTALS), with strides of its own (access) or
 * not (OL_NATIVE_NONE). */
ol_place ol_emit_array(ol_emitter *e, int array, int access);

/* A constant, which is noted where it is new. */
ol_place ol_emit_constant(ol_emitter *e, int kind, int index, uint64_t bits);

/* Values; each returns its register. */

/* What is in a place; a register is its own. */
int ol_emit_load(ol_emitter *e, ol_place from);

/* Stores a vector in memory. */
void ol_emit_store(ol_emitter *e, int reg, ol_place to);

/* bfloat16 in memory, as float32; and back: to nearest, or with the noise of this number. */
int ol_emit_load_narrow(ol_emitter *e, ol_place from);
void ol_emit_store_narrow(ol_emitter *e, int reg, ol_place to, int noise);

/* An operand of an operation. */
typedef struct ol_emit_input {
  ol_place place;
  bool may_be_nan;
} ol_emit_input;

/* An elementwise operation but the functions and powers. */
int ol_emit_operation(ol_emitter *e, ol_rule_op op, const ol_emit_input in[3]);

/* The factor times what is in memory. */
int ol_emit_product(ol_emitter *e, ol_place factor, ol_place x);

/* x to a power; fails for those that are no products and roots. */
int ol_emit_power(ol_emitter *e, ol_place x, double exponent);

/* The vector joins an accumulator, or the totals of its columns, which are at hand between two
 * moves from memory and back. */
void ol_emit_reduce(ol_emitter *e, ol_rule_op op, int x, int accumulator);
void ol_emit_totals(ol_emitter *e, bool store);

/* What stays in registers throughout the loop. */

/* Leaves room for the totals of columns. */
void ol_emit_reserve(ol_emitter *e);

/* Chooses the rest, once it is known how many registers and constants the loop takes. */
void ol_emit_choose(ol_emitter *e);

/* Loads it; and stores what the loop changes of it. */
void ol_emit_begin(ol_emitter *e);
void ol_emit_end(ol_emitter *e);

#endif
