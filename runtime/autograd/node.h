/* node: one recorded op of the tape. Private to autograd/. */
#ifndef OL_AUTOGRAD_NODE_H
#define OL_AUTOGRAD_NODE_H

#include "autograd/tape.h"

/* Where an input came from: an output of another node, or a leaf, or (both NULL) nowhere that wants
 * a gradient. */
typedef struct ol_edge {
  struct ol_node *node;
  ol_tensor *leaf;
  int output;
  ol_dtype dtype;
  ol_shape shape;
} ol_edge;

/* A tensor that backward reads, with the version that its storage had. */
typedef struct ol_saved {
  ol_tensor *tensor;
  uint64_t version;
} ol_saved;

typedef struct ol_node {
  ol_object object;
  const ol_op *op;       /* of the registry, or NULL: */
  ol_function *function; /* one that the user wrote */
  uint64_t sequence;     /* order of recording: inputs have smaller numbers */
  uint64_t visit;        /* the last backward that reached this node */
  bool spent;            /* backward has freed what it needed */
  int inputs, saved_count;
  ol_edge *edge;   /* one an input */
  ol_saved *saved; /* what is retained for backward and must not change */
  ol_value *arg;   /* the arguments of the op; tensors only where saved */
  ol_tensor *out[OL_MAX_OUTPUTS];
  ol_tensor *kept[OL_MAX_KEPT];
  ol_tensor *grad[OL_MAX_OUTPUTS]; /* during backward: sums of contributions */
  ol_hook *hook[OL_MAX_OUTPUTS];
  char *place; /* where the script called it, of what is watched (see anomaly.h), or NULL */
} ol_node;

/* The name of the op or function. */
const char *ol_node_name(const ol_node *node);

/* How many parameters an op has. */
int ol_op_params(const ol_op *op);

/* Makes an empty node with room for saved tensors, and for arguments followed by the items of
 * tensor lists. */
ol_status ol_node_new(ol_error *error, int inputs, int saved, int params, int items, ol_node **out);

/* Points edge i at where tensor came from. */
void ol_node_connect(ol_node *node, int i, ol_tensor *tensor);

/* Retains a tensor for backward, which must not be written from here on. */
void ol_node_save(ol_node *node, ol_tensor *tensor);

/* Fails (OL_STATE) when a saved tensor was changed in place since. */
ol_status ol_node_check(ol_error *error, const ol_node *node);

/* Releases everything but the node itself; it is spent. */
void ol_node_spend(ol_node *node);

#endif
