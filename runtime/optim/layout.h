/* layout: which states a rule keeps for a parameter, and what each is like. */
#ifndef OL_OPTIM_LAYOUT_H
#define OL_OPTIM_LAYOUT_H

#include <stdbool.h>

#include "rule/graph.h"
#include "tensor/storage.h"

#define OL_LAYOUT_SLOTS (OL_GRAPH_OPERANDS - 2) /* beside the parameter and its gradient */

/* How a state begins. */
typedef enum ol_slot_init {
  OL_SLOT_VALUE, /* every element is `value` */
  OL_SLOT_PARAM, /* a copy of the parameter */
} ol_slot_init;

typedef struct ol_slot_spec {
  bool own_dtype; /* else the parameter's */
  bool own_shape; /* else the parameter's */
  int packing;    /* OL_PACK_…: how it is packed beside its dtype */
  uint64_t salt;  /* of its name, for the noise of stochastic rounding */
  ol_dtype dtype;
  ol_shape shape; /* broadcasts to the parameter's */
  ol_slot_init init;
  double value;
} ol_slot_spec;

/* A list of slots. Small parameters of one group keep a slot side by side in a slab, one for each
 * dtype of parameters; a slab is made when it is first needed. */
typedef struct ol_layout {
  int count;
  ol_slot_spec spec[OL_LAYOUT_SLOTS];
  uint64_t salt[OL_GRAPH_OPERANDS];     /* of each operand of the rule; set with the layouts */
  ol_storage *slab[OL_LAYOUT_SLOTS][2]; /* by ol_slab_of(dtype of the parameter) */
} ol_layout;

static inline bool ol_slot_spec_equal(const ol_slot_spec *a, const ol_slot_spec *b) {
  return a->own_dtype == b->own_dtype && a->own_shape == b->own_shape && a->packing == b->packing &&
         a->salt == b->salt && (!a->own_dtype || a->dtype == b->dtype) &&
         (!a->own_shape || ol_shape_equal(&a->shape, &b->shape)) && a->init == b->init &&
         a->value == b->value;
}

#endif
