/* schedule: puts the instructions of a pass in order and gives each value a place. */
#ifndef OL_RULE_SCHEDULE_H
#define OL_RULE_SCHEDULE_H

#include "rule/cover.h"

/* Makes the pass that produces the roots, of fused instructions or of plain ones. The pass owns its
 * memory: ol_pass_clear. */
ol_status ol_schedule(ol_error *error, const ol_plan *plan, ol_pass_key key, const ol_root *roots,
                      int count, bool fused, ol_pass *out);

/* Releases what a pass owns. */
void ol_pass_clear(ol_pass *pass);

#endif
