/* match: finds the fused forms in a graph. */
#ifndef OL_RULE_MATCH_H
#define OL_RULE_MATCH_H

#include "rule/plan.h"

/* A form laid over a node. */
typedef struct ol_match {
  int form;
  int arrays;                        /* how many it reads */
  int16_t leaf[OL_FORM_ARRAYS];      /* x y z w: nodes */
  ol_factor factor[OL_FORM_NUMBERS]; /* a … g */
} ol_match;

/* Called for every way in which a form fits. */
typedef void ol_match_fn(const ol_match *match, void *context);

/* Finds all ways to cover `node` by forms. `open` marks the nodes below it that may disappear into
 * a form; the others are leaves. */
void ol_match_forms(const ol_plan *plan, int node, const bool *open, ol_match_fn *fn,
                    void *context);

#endif
