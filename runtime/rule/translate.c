/* translate: compiles passes to machine code.
 *
 * The loop goes from row to row of 32 elements: as many share words of noise, and twice as many as
 * there are lanes in a reduction. A row is several vectors; for each, all instructions are executed
 * in their order. A value stays in its register until its last use. */
#include <stddef.h>
#include <string.h>

#include "base/executable.h"
#include "base/memory.h"
#include "rule/emit.h"

enum {
  ROW = OL_NATIVE_ROW,
  NONE = OL_NATIVE_NONE,
  SLOTS = 256,     /* of a pass */
  ROOM = 1 << 15,  /* bytes of code */
  PITCH = 1 << 24, /* elements of the longest line whose columns are reduced */
  GRADIENT = 1,    /* the array */
  FREE = -1,
};

typedef struct translator {
  ol_emitter emitter;
  const ol_graph *graph;
  const ol_pass *pass;
  const ol_shape *shape; /* of the pass */
  int at;                /* the instruction at hand */
  int8_t held[SLOTS];    /* the register that has what is in the slot, or FREE */
} translator;

static void fail(translator *t) { t->emitter.failed = true; }

/* Slots. */

static int inputs_of(const ol_instruction *op) {
  if (op->code == OL_CODE_LOAD) return 0;
  return op->code < OL_CODE_COPY ? ol_rule_op_table[op->code - OL_CODE_OP].inputs : 1;
}

static bool reads(const ol_instruction *op, int slot) {
  for (int k = 0; k < inputs_of(op); k++)
    if (op->in[k] == slot) return true;
  return false;
}

static bool writes(const ol_instruction *op, int slot) {
  return op->code != OL_CODE_STORE && op->code != OL_CODE_REDUCE && op->out == slot;
}

/* Whether anything after the instruction at hand reads what the slot holds now. */
static bool is_read_later(const translator *t, int slot) {
  const ol_pass *pass = t->pass;
  for (int i = t->at + 1; i < pass->instructions; i++) {
    if (reads(&pass->instruction[i], slot)) return true;
    if (writes(&pass->instruction[i], slot)) return false;
  }
  return pass->dim >= 0 && slot == pass->result && t->at < pass->instructions;
}

static ol_place gradient_factor(translator *t) {
  return ol_emit_constant(&t->emitter, OL_NATIVE_GRADIENT_FACTOR, 0, 0);
}

/* What a slot holds; `once`: the instruction at hand asks for it once. */
static ol_place value(translator *t, int index, bool once) {
  ol_emitter *e = &t->emitter;
  const ol_pass_slot *slot = &t->pass->slot[index];
  if (t->held[index] != FREE) return ol_in_register(t->held[index]);
  if (slot->kind == OL_SLOT_CONSTANT)
    return ol_emit_constant(e, OL_NATIVE_NUMBER, slot->factor.source, 0);
  if (slot->kind == OL_SLOT_TILE) fail(t);
  const ol_place place = ol_emit_array(e, slot->index, NONE);
  const bool scaled = slot->index == GRADIENT;
  if (!scaled && once && !is_read_later(t, index)) return place;
  const int reg = scaled ? ol_emit_product(e, gradient_factor(t), place) : ol_emit_load(e, place);
  t->held[index] = (int8_t)reg;
  return ol_in_register(reg);
}

/* An input of the instruction at hand. Arguments of a program are no NaN; numbers that were reduced
 * may be. */
static ol_emit_input input(translator *t, int k) {
  const ol_instruction *op = &t->pass->instruction[t->at];
  int times = 0;
  if (k >= inputs_of(op)) return (ol_emit_input){ ol_in_register(0), false };
  for (int i = 0; i < inputs_of(op); i++) times += op->in[i] == op->in[k];
  const ol_pass_slot *slot = &t->pass->slot[op->in[k]];
  const bool argument = slot->kind == OL_SLOT_CONSTANT && slot->factor.source < t->graph->numbers;
  return (ol_emit_input){ value(t, op->in[k], times == 1), !argument };
}

static int input_register(translator *t) { return ol_emit_load(&t->emitter, input(t, 0).place); }

/* Instructions. */

/* The number of an access with strides of its own. */
static int access_number(translator *t, const ol_access *access) {
  ol_native *n = t->emitter.native;
  int i = 0;
  while (i < n->accesses &&
         (n->access[i].array != access->array ||
          memcmp(n->access[i].stride, access->stride, sizeof access->stride) != 0))
    i++;
  if (i == OL_NATIVE_ARRAYS) {
    fail(t);
    return 0;
  }
  if (i == n->accesses) n->access[n->accesses++] = *access;
  return i;
}

/* How far a gathered array goes on where the pass goes on by an element of a row. */
static int64_t step_of(const translator *t, const ol_access *access) {
  return access->stride[t->shape->ndim - 1];
}

/* Rows of the pass go along rows of the array, or stay at an element of it. */
static int load_gathered(translator *t, const ol_access *access) {
  ol_emitter *e = &t->emitter;
  const int number = access_number(t, access);
  if (step_of(t, access) > 1 || access->array == GRADIENT) fail(t);
  return ol_emit_load(e, step_of(t, access) == 0 ? ol_emit_constant(e, OL_NATIVE_ELEMENT, number, 0)
                                                 : ol_emit_array(e, access->array, number));
}

static int load_access(translator *t, const ol_access *access) {
  ol_emitter *e = &t->emitter;
  const bool own = access->dtype == t->graph->dtype;
  const bool narrow = access->dtype == OL_BF16 && t->graph->dtype == OL_F32;
  const bool gathered = access->layout == OL_ACCESS_GATHERED;
  if (access->layout == OL_ACCESS_TURNED || !(own || (narrow && !gathered))) fail(t);
  if (gathered) return load_gathered(t, access);
  const ol_place place = ol_emit_array(e, access->array, NONE);
  const int reg = own ? ol_emit_load(e, place) : ol_emit_load_narrow(e, place);
  if (access->array != GRADIENT) return reg;
  return ol_emit_product(e, gradient_factor(t), ol_in_register(reg));
}

static void store_access(translator *t, const ol_access *access) {
  const ol_native *n = t->emitter.native;
  int noise = access->packing & OL_PACK_RANDOM ? n->noises - 1 : NONE;
  while (noise >= 0 && n->noise[noise] != access->array) noise--;
  if (access->dtype != OL_BF16 || n->wide) fail(t);
  ol_emit_store_narrow(&t->emitter, input_register(t),
                       ol_emit_array(&t->emitter, access->array, NONE), noise);
}

/* A power, for the exponent that it has now. */
static int power(translator *t) {
  ol_native *n = t->emitter.native;
  const ol_pass_slot *exponent = &t->pass->slot[t->pass->instruction[t->at].in[1]];
  const int number = exponent->factor.source;
  if (exponent->kind != OL_SLOT_CONSTANT || number >= t->graph->numbers) {
    fail(t);
    return 0;
  }
  int i = 0;
  while (i < n->exponents && n->exponent[i].number != number) i++;
  if (i == OL_NATIVE_EXPONENTS) {
    fail(t);
    return 0;
  }
  if (i == n->exponents) {
    n->exponent[i].number = number;
    n->exponent[i].value = ol_native_rounded(n, t->graph->number[number]);
    n->exponents++;
  }
  return ol_emit_power(&t->emitter, input(t, 0).place, n->exponent[i].value);
}

static int operation(translator *t, ol_rule_op op) {
  if (op == OL_RULE_POW) return power(t);
  const ol_emit_input in[3] = { input(t, 0), input(t, 1), input(t, 2) };
  return ol_emit_operation(&t->emitter, op, in);
}

static void hold(translator *t, int slot, int reg) {
  t->held[slot] = (int8_t)reg;
  if (t->pass->slot[slot].kind == OL_SLOT_ARRAY)
    ol_emit_store(&t->emitter, reg, ol_emit_array(&t->emitter, t->pass->slot[slot].index, NONE));
}

static void instruction(translator *t) {
  const ol_pass *pass = t->pass;
  const ol_instruction *op = &pass->instruction[t->at];
  switch (op->code) {
  case OL_CODE_LOAD: hold(t, op->out, load_access(t, &pass->access[op->in[0]])); break;
  case OL_CODE_STORE: store_access(t, &pass->access[op->out]); break;
  case OL_CODE_COPY: hold(t, op->out, input_register(t)); break;
  case OL_CODE_REDUCE:
    ol_emit_reduce(&t->emitter, (ol_rule_op)op->in[1], input_register(t), op->out);
    break;
  default: hold(t, op->out, operation(t, (ol_rule_op)(op->code - OL_CODE_OP)));
  }
}

/* Frees the registers of what is not read any more. */
static void release(translator *t) {
  t->emitter.used = 0;
  for (int slot = 0; slot < t->pass->slots; slot++) {
    if (t->held[slot] == FREE) continue;
    if (is_read_later(t, slot))
      t->emitter.used |= UINT32_C(1) << t->held[slot];
    else
      t->held[slot] = FREE;
  }
}

/* What a pass reduces over a dimension. */
static void reduce_result(translator *t) {
  const int x = ol_emit_load(&t->emitter, value(t, t->pass->result, true));
  ol_emit_reduce(&t->emitter, (ol_rule_op)t->pass->op, x,
                 t->emitter.native->columns ? OL_NATIVE_TOTALS : 0);
}

/* The loop. */

/* The vector at hand, of the line at hand. */
static void vector(translator *t) {
  ol_emitter *e = &t->emitter;
  memset(t->held, FREE, sizeof t->held);
  e->used = 0;
  for (t->at = 0; t->at < t->pass->instructions && !e->failed; t->at++) {
    instruction(t);
    release(t);
  }
  if (t->pass->dim >= 0) reduce_result(t);
}

static void row(translator *t, int lines) {
  ol_emitter *e = &t->emitter;
  for (e->vector = 0; e->vector * ol_emit_width(e) < ROW; e->vector++) {
    e->line = 0;
    if (e->native->columns) ol_emit_totals(e, false);
    for (; e->line < lines; e->line++) vector(t);
    if (e->native->columns) ol_emit_totals(e, true);
  }
}

static void function(translator *t, int lines) {
  ol_emitter *e = &t->emitter;
  const int arrays = e->native->arrays;
  for (int i = 0; i < arrays; i++)
    if (ol_emit_is_saved(i)) ol_asm_push(&e->code, ol_emit_base(i));
  for (int i = 0; i < arrays; i++)
    ol_asm_load(&e->code, ol_emit_base(i),
                ol_emit_frame(offsetof(ol_native_frame_head, base) + sizeof(char *) * (size_t)i));
  ol_asm_load(&e->code, OL_EMIT_END, ol_emit_frame(offsetof(ol_native_frame_head, count)));
  ol_asm_clear(&e->code, OL_EMIT_INDEX);
  ol_emit_begin(e);
  const size_t begin = e->code.size;
  row(t, lines);
  ol_asm_add(&e->code, OL_EMIT_INDEX, ROW);
  ol_asm_loop(&e->code, OL_EMIT_INDEX, OL_EMIT_END, begin);
  ol_emit_end(e);
  for (int i = arrays - 1; i >= 0; i--)
    if (ol_emit_is_saved(i)) ol_asm_pop(&e->code, ol_emit_base(i));
  ol_asm_return(&e->code);
}

/* Notes an array that the code goes through. */
static void add_array(translator *t, int array, int access, size_t width) {
  ol_native *n = t->emitter.native;
  for (int i = 0; i < n->arrays; i++)
    if (n->array[i].array == array && n->array[i].access == access) return;
  if (n->arrays == OL_NATIVE_ARRAYS) {
    fail(t);
    return;
  }
  n->array[n->arrays].array = (int16_t)array;
  n->array[n->arrays].access = (int16_t)access;
  n->array[n->arrays++].width = (uint8_t)width;
}

static void add_arrays(translator *t) {
  const ol_pass *pass = t->pass;
  for (int i = 0; i < pass->slots; i++)
    if (pass->slot[i].kind == OL_SLOT_ARRAY)
      add_array(t, pass->slot[i].index, NONE, ol_dtype_size(t->graph->dtype));
  for (int i = 0; i < pass->accesses; i++) {
    const ol_access *access = &pass->access[i];
    const bool straight = access->layout == OL_ACCESS_STRAIGHT;
    if (straight || step_of(t, access) > 0)
      add_array(t, access->array, straight ? NONE : access_number(t, access),
                ol_dtype_size((ol_dtype)access->dtype));
  }
  if (t->emitter.native->columns) add_array(t, OL_NATIVE_TOTALS, NONE, sizeof(double));
}

/* Notes the arrays that round stochastically. */
static void add_noises(translator *t) {
  ol_native *n = t->emitter.native;
  for (int i = 0; i < t->pass->instructions; i++) {
    const ol_instruction *op = &t->pass->instruction[i];
    if (op->code != OL_CODE_STORE || !(t->pass->access[op->out].packing & OL_PACK_RANDOM)) continue;
    if (n->noises == OL_NATIVE_NOISES)
      fail(t);
    else
      n->noise[n->noises++] = t->pass->access[op->out].array;
  }
}

/* Whether there is a way through the pass: element by element; along rows where arrays have strides
 * of their own; or along what is reduced over a dimension: rows, or wide columns side by side. */
static bool find_way(translator *t) {
  const ol_pass *pass = t->pass;
  ol_native *n = t->emitter.native;
  const int last = t->shape->ndim - 1;
  bool gathers = false;
  for (int i = 0; i < pass->accesses; i++) {
    if (pass->access[i].packing & OL_PACK_CODES) return false;
    gathers |= pass->access[i].layout != OL_ACCESS_STRAIGHT;
  }
  if (pass->slots > SLOTS) return false;
  if (pass->dim < 0) return !gathers || (last >= 0 && t->shape->size[last] >= OL_MACHINE_TILE);
  const ol_units units = ol_kernel_units(t->shape, pass->dim, 1);
  n->columns = units.inner > 1;
  n->accumulators += !n->columns;
  t->emitter.pitch = n->columns ? units.inner : 0;
  return !gathers && t->emitter.pitch < PITCH &&
         (n->columns ? units.inner : units.size) > OL_MACHINE_TILE;
}

/* First to see how many registers and constants the loop takes; what is left of registers keeps
 * what stays the same. Where there is a function for several lines, it comes last. */
static bool translate(translator *t) {
  ol_emitter *e = &t->emitter;
  add_arrays(t);
  add_noises(t);
  ol_emit_reserve(e);
  if (!e->failed) function(t, 1);
  ol_emit_choose(e);
  e->code.size = 0;
  if (!e->failed) function(t, 1);
  e->native->several = e->code.size;
  if (!e->failed && e->native->columns) function(t, OL_NATIVE_LINES);
  return !e->failed && e->code.size <= e->code.room;
}

static bool compile(translator *t) {
  ol_native *native = t->emitter.native;
  if (!find_way(t) || !translate(t)) return false;
  native->size = t->emitter.code.size;
  native->code = ol_executable_new(t->emitter.code.code, native->size);
  return native->code != NULL;
}

ol_native *ol_native_compile(const ol_graph *graph, const ol_pass *pass) {
  if (!ol_native_is_supported()) return NULL;
  ol_native *native = ol_alloc(sizeof *native);
  uint8_t *code = ol_alloc(ROOM);
  bool made = false;
  if (native && code) {
    const ol_shape *shape = &graph->shape[pass->shape];
    *native = (ol_native){ .wide = graph->dtype == OL_F64,
                           .accumulators = pass->accumulators,
                           .shape = *shape };
    translator t = { .emitter = { .code = { code, 0, ROOM }, .native = native },
                     .graph = graph,
                     .pass = pass,
                     .shape = shape };
    made = compile(&t);
  }
  ol_free(code);
  if (made) return native;
  ol_free(native);
  return NULL;
}
