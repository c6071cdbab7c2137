/* code: what a program is made of. The compiler writes it, the machine and the text read it. */
#ifndef OL_RULE_CODE_H
#define OL_RULE_CODE_H

#include "rule/form.h"
#include "rule/graph.h"

/* What an instruction does: a fused form (ol_form); an elementwise operation on tiles (OL_CODE_OP +
 * ol_rule_op); a move or a reduction. */
enum ol_opcode {
  OL_CODE_OP = OL_FORM_COUNT,
  OL_CODE_COPY = OL_CODE_OP + OL_RULE_OP_COUNT, /* out = in[0], the same type */
  OL_CODE_LOAD,                                 /* out = access in[0], converted or gathered */
  OL_CODE_STORE,                                /* access out = in[0], rounded to its type */
  OL_CODE_REDUCE, /* accumulator out takes in[0]; in[1] is the ol_rule_op */
};

/* A number of an instruction: sign times number `source` of the run; or, where the rule has none,
 * a neutral one. */
typedef struct ol_factor {
  int16_t source; /* an index, OL_FACTOR_ONE or OL_FACTOR_NOTHING */
  int16_t sign;   /* 1 or -1 */
} ol_factor;

enum {
  OL_FACTOR_ONE = -1,     /* 1 */
  OL_FACTOR_NOTHING = -2, /* -0.0 */
};

/* What an instruction reads or writes, a tile at a time. */
typedef struct ol_pass_slot {
  enum {
    OL_SLOT_ARRAY,    /* in place: array `index` */
    OL_SLOT_TILE,     /* tile `index` of the scratch memory */
    OL_SLOT_CONSTANT, /* tile `index`, filled with `factor` */
  } kind;
  int16_t index;
  ol_factor factor;
} ol_pass_slot;

typedef struct ol_instruction {
  uint8_t code;
  uint16_t out;                      /* a slot */
  uint16_t in[OL_FORM_ARRAYS];       /* slots; unused ones repeat the first */
  ol_factor factor[OL_FORM_NUMBERS]; /* a … g */
} ol_instruction;

enum {
  OL_ACCESS_STRAIGHT, /* element by element as the pass goes */
  OL_ACCESS_TURNED,   /* a matrix of the pass's shape, stored the other way round */
  OL_ACCESS_GATHERED, /* anything else */
};

/* An array that is not used in place: of another type than the arithmetic, or of another layout
 * than the pass. */
typedef struct ol_access {
  int16_t array;
  uint8_t dtype;   /* ol_dtype */
  uint8_t packing; /* OL_PACK_… */
  uint8_t layout;
  int16_t band;                /* if turned: counts the turned ones of the pass */
  int64_t stride[OL_MAX_DIMS]; /* if gathered: of each dimension of the pass, in elements */
} ol_access;

/* A whole-tensor reduction: accumulator `index` of the pass becomes number `number` of the run. */
typedef struct ol_accumulator {
  uint8_t op; /* ol_rule_op */
  int16_t number;
} ol_accumulator;

/* One loop over the elements of a shape. */
typedef struct ol_pass {
  int16_t level;
  int8_t shape; /* index into code->shape */
  int8_t dim;   /* -1, or it reduces slot `result` over this dimension … */
  uint8_t op;   /* … by this operation */
  int16_t result;
  int16_t target; /* … into this array */
  int16_t slots, instructions, accesses, accumulators, tiles;
  ol_pass_slot *slot;
  ol_instruction *instruction;
  ol_access *access;
  ol_accumulator *accumulator;
  int16_t gradient;         /* the tile that holds g multiplied by the gradient factor, or -1 */
  struct ol_native *native; /* machine code that does the same (native.h), or NULL */
} ol_pass;

/* An operation on the numbers of a run, done when its level ends. */
typedef struct ol_number_op {
  int16_t level;
  uint8_t op;
  int16_t out, in[3];
} ol_number_op;

/* A product of matrices, done when its level ends: c (m,n) = a (m,k) b (k,n). */
typedef struct ol_product {
  int16_t level;
  int16_t a, b, c;         /* arrays */
  bool turned_a, turned_b; /* stored as (k,m), (n,k) */
  int64_t m, n, k;
} ol_product;

/* Arrays are numbered: operands first, then buffers. Numbers: the arguments, then computed ones. */
typedef struct ol_code {
  int passes, number_ops, products, buffers, totals, shapes;
  int numbers;   /* arguments and computed */
  ol_pass *pass; /* by level */
  ol_number_op *number_op;
  ol_product *product;
  int8_t *buffer; /* shape of each */
  ol_shape *shape;
  struct {
    int16_t slot, number;
  } total[OL_GRAPH_TOTALS];
  uint8_t operand_dtype[OL_GRAPH_OPERANDS];
  uint8_t operand_packing[OL_GRAPH_OPERANDS];
  int8_t operand_shape[OL_GRAPH_OPERANDS];
} ol_code;

#endif
