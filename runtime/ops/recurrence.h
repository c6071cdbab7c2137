/* recurrence: the steps of a recurrent network over a sequence, in one layer and direction.
 *
 * Rows of a batch do not meet, so each thread takes some of them through all steps. Everything here
 * is dense; (T,B,…) stands for (B,T,…) where batch_first. */
#ifndef OL_OPS_RECURRENCE_H
#define OL_OPS_RECURRENCE_H

#include "ops/cell.h"

typedef struct ol_recurrence {
  const ol_cell *cell;
  ol_dtype dtype;
  int64_t steps, batch, hidden; /* T, B, H */
  bool batch_first;
  bool reverse;           /* from the last step to the first */
  const int64_t *lengths; /* (B): steps of each row, from 0 to T; NULL: T. Later ones leave the
                             state as it is, and their output is 0 */
  char *weight;           /* of the state: (gates * H, H) */
  char *rows;             /* (T,B,width * H): the input's products with biases; then activations */
  char *memory;           /* (T,B,2H), written forward, read backward; of cells that have one */
  char *output;           /* (T,B,H): written forward, read backward */
  char *h, *c;            /* (B,H): the state, first before, then after all steps */

  /* Of backward: */
  const char *h0, *c0; /* (B,H): the state before all steps */
  const char *slope;   /* (T,B,H): of the output; NULL: zeros */
  char *slopes;        /* (T,B,width * H): written; of the rows as they were before activation */
  char *previous;      /* (T,B,H): written; the state before each step */
  char *dh, *dc;       /* (B,H): gradients of the state, first after, then before all steps */
} ol_recurrence;

/* Neither can fail. */
void ol_recurrence_forward(const ol_recurrence *recurrence);
void ol_recurrence_backward(const ol_recurrence *recurrence);

#endif
