/* graph: the expressions that one call of an update rule builds.
 *
 * A rule runs on symbols. Each operation on them adds a node here, unless the same node is there
 * already (hash-consing). Plain numbers are leaves whose values are arguments of the program, not
 * part of its structure: bit-equal numbers share a slot, and nothing is folded by value, so that a
 * schedule that moves a number compiles nothing new.
 *
 *   ol_graph_begin(…)                      a call starts: operand 0 is p, 1 is g, 2 … the states
 *   ol_graph_read / number / apply / …     symbols
 *   ol_graph_store(…)                      the new p (operand 0) and states
 *   ol_program_cache_get(…)                a program (cache.h), to be run by machine.h
 *
 * All stores happen as if at once, after every read. */
#ifndef OL_RULE_GRAPH_H
#define OL_RULE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "rule/narrow.h"
#include "rule/op.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

#define OL_GRAPH_NODES    256 /* of one call, equal ones counted once */
#define OL_GRAPH_OPERANDS 32
#define OL_GRAPH_SHAPES   16
#define OL_GRAPH_TOTALS   32 /* calls of group_add */

/* A node of the current call. It carries the number of the call: one that was kept from an earlier
 * call, or belongs to another graph, is refused wherever it is used. */
typedef int32_t ol_symbol;

/* How an operand is stored. States may have any float type and a shape of their own that
 * broadcasts to the parameter's. */
typedef struct ol_operand {
  ol_dtype dtype;        /* bfloat16, float32, float64; uint8: codes */
  const ol_shape *shape; /* NULL: the parameter's, which codes have */
  int packing;           /* OL_PACK_… */
} ol_operand;

/* Where a value lives. */
enum {
  OL_RULE_SCALAR = -1, /* one double a tensor: plain numbers and whole-tensor reductions */
  OL_RULE_OWN = 0,     /* the parameter's shape; others follow, 1 … */
};

typedef struct ol_graph_node {
  uint8_t op;   /* ol_rule_op */
  int8_t shape; /* OL_RULE_SCALAR, OL_RULE_OWN, or an index into shapes */
  int8_t dim;   /* of a reduction: the dimension, or -1: the whole tensor; else -1 */
  uint8_t unused;
  int16_t in[3]; /* nodes; for OPERAND and NUMBER in[0] is the operand or slot; unused: -1 */
} ol_graph_node;

typedef struct ol_graph {
  uint32_t call; /* number of the call, in every symbol */
  int nodes, operands, numbers, shapes, totals;
  ol_dtype dtype;   /* of the arithmetic: the widest of the operands, at least float32 */
  bool shape_bound; /* see ol_graph_begin */
  ol_graph_node node[OL_GRAPH_NODES];
  double number[OL_GRAPH_NODES]; /* by slot */
  ol_shape shape[OL_GRAPH_SHAPES];
  struct {
    uint8_t dtype; /* ol_dtype */
    int8_t shape;
    bool bound; /* declared with a shape */
    uint8_t packing;
    int16_t store; /* the node that was assigned last, of the operand's shape, or -1 */
  } operand[OL_GRAPH_OPERANDS];
  struct {
    int16_t slot, node; /* a number */
  } total[OL_GRAPH_TOTALS];
  int16_t bucket[2 * OL_GRAPH_NODES]; /* hash table of nodes */
} ol_graph;

/* Makes an empty graph, to be reused call after call; free it with ol_graph_free. */
ol_status ol_graph_new(ol_error *error, ol_graph **out);

/* NULL is allowed. */
void ol_graph_free(ol_graph *graph);

/* Starts a call for a parameter of this shape. Symbols of earlier calls become stale.
 *
 * While the call uses whole tensors and elements only, its program fits parameters of any shape.
 * Once it reduces over a dimension, uses matmul or t, or reads or writes an operand with a shape of
 * its own, graph->shape_bound is true: the rule must be run once for each shape. */
ol_status ol_graph_begin(ol_error *error, ol_graph *graph, const ol_shape *shape,
                         const ol_operand *operands, int count);

/* The value of an operand: what was stored in this call, else the old value. For operand 0 always
 * the old value. */
ol_status ol_graph_read(ol_error *error, ol_graph *graph, int operand, ol_symbol *out);

/* A plain number. NaN fails (OL_NONFINITE); infinities are allowed. */
ol_status ol_graph_number(ol_error *error, ol_graph *graph, double value, ol_symbol *out);

/* An elementwise operation, matmul or t; the table in op.h says how many inputs. Tensors broadcast
 * (OL_SHAPE where they do not). Plain numbers alone give a plain number. In min and max a number
 * that meets a tensor counts as the second. */
ol_status ol_graph_apply(ol_error *error, ol_graph *graph, ol_rule_op op, const ol_symbol *inputs,
                         ol_symbol *out);

/* A reduction: over the whole tensor (dim NULL), which gives a number in double, or over *dim (from
 * 0; negative from the end), kept with size 1, which gives a tensor rounded once from double. The
 * reduction of a number is the number (its absolute value for norm). */
ol_status ol_graph_reduce(ol_error *error, ol_graph *graph, ol_rule_op op, ol_symbol x,
                          const int64_t *dim, ol_symbol *out);

/* Assigns to an operand; the last assignment counts. The value has the operand's shape (OL_SHAPE
 * where it has not); a number fills a state. Assigning to g (1) fails (OL_ARGUMENT); storing an
 * operand's own old value writes nothing. */
ol_status ol_graph_store(ol_error *error, ol_graph *graph, int operand, ol_symbol value);

/* group_add: adds the sum of value over the tensor (the value itself for a number) to total `slot`
 * of the group. */
ol_status ol_graph_add_total(ol_error *error, ol_graph *graph, int slot, ol_symbol value);

/* The shape of a symbol; NULL for a number. Fails for a stale symbol. */
ol_status ol_graph_shape_of(ol_error *error, const ol_graph *graph, ol_symbol symbol,
                            const ol_shape **out);

/* Whether the symbol belongs to the current call. */
bool ol_graph_owns(const ol_graph *graph, ol_symbol symbol);

#endif
