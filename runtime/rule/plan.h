/* plan: when each node of a graph is computed, where values outlive a pass, when operands are
 * overwritten. */
#ifndef OL_RULE_PLAN_H
#define OL_RULE_PLAN_H

#include "rule/code.h"

/* Levels follow each other; between two of them everything that was written can be read. Passes of
 * one level run side by side: none of them may read what another one writes. */
typedef struct ol_plan {
  const ol_graph *graph;
  int levels, buffers, numbers;
  bool needed[OL_GRAPH_NODES];    /* an output depends on it */
  int16_t level[OL_GRAPH_NODES];  /* tensors: the first level that can compute it; numbers: the
                                     first level that can use it */
  int16_t buffer[OL_GRAPH_NODES]; /* the array that keeps it from its level on, or -1 */
  int16_t number[OL_GRAPH_NODES]; /* of a scalar node: its number of the run, or -1 */
  int8_t buffer_shape[OL_GRAPH_NODES];
  int16_t store_level[OL_GRAPH_OPERANDS]; /* when it is written, or -1: never */
} ol_plan;

/* Plans a finished graph. Cannot fail. */
void ol_plan_make(const ol_graph *graph, ol_plan *plan);

/* The node without fills around it: fills only spread. */
int ol_plan_strip(const ol_graph *graph, int node);

/* The array that holds a tensor node when `level` begins: an operand with its old value, an operand
 * or buffer that the node was stored to; -1: it has to be computed. */
int ol_plan_array(const ol_plan *plan, int node, int level);

static inline bool ol_plan_is_scalar(const ol_graph *graph, int node) {
  return graph->node[node].shape == OL_RULE_SCALAR;
}

/* What a pass of shape `shape` at `level` has to produce. dim_node: the reduction over a dimension
 * that the pass is for, or -1: the pass that writes arrays and whole-tensor reductions. */
typedef struct ol_pass_key {
  int level, shape, dim_node;
} ol_pass_key;

typedef struct ol_root {
  int node; /* stripped */
  enum { OL_ROOT_ARRAY, OL_ROOT_NUMBER, OL_ROOT_DIM } kind;
  int target; /* ARRAY, DIM: the array that is written; NUMBER: the reduction node */
} ol_root;

enum { OL_ROOTS = OL_GRAPH_OPERANDS + OL_GRAPH_NODES };

/* Lists the roots of a pass; returns their number, 0: there is no such pass. */
int ol_plan_roots(const ol_plan *plan, ol_pass_key key, ol_root roots[OL_ROOTS]);

#endif
