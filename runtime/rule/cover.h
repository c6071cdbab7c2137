/* cover: chooses the instructions of a pass. */
#ifndef OL_RULE_COVER_H
#define OL_RULE_COVER_H

#include "rule/plan.h"

/* An instruction before it has a place: it works on nodes, not on slots. */
typedef struct ol_draft {
  uint8_t code;
  int16_t value;              /* the node that it computes, or -1 */
  int16_t in[OL_FORM_ARRAYS]; /* nodes; scalar ones stand for a tile filled with them; or -1 */
  int16_t array;              /* LOAD, COPY and STORE: the array that is read or written; else -1 */
  bool turned;                /* LOAD: of the transposed array */
  ol_factor factor[OL_FORM_NUMBERS];
} ol_draft;

enum { OL_DRAFTS = 4 * OL_GRAPH_NODES };

/* Covers the nodes below the roots with as few instructions as possible (those that compute; the
 * roots are not stored yet). Inputs come before their users. Returns the number of drafts. */
int ol_cover(const ol_plan *plan, ol_pass_key key, const ol_root *roots, int count,
             ol_draft drafts[OL_DRAFTS]);

/* The same with a plain instruction for each node. */
int ol_cover_plainly(const ol_plan *plan, ol_pass_key key, const ol_root *roots, int count,
                     ol_draft drafts[OL_DRAFTS]);

#endif
