/* arrival: a step whose gradients arrive one by one, while backward runs.
 *
 *   ol_step_collect_awaited(…)   each group: whose gradients are to come
 *   ol_step_next, ol_step_record rules are run on symbols, as for any step
 *   ol_arrival_open(…)           states of all of them: what can fail but for the gradients
 *   ol_arrival_take(…)           a gradient: its parameter is updated, or is left as it was
 *   ol_arrival_close(…)          undoes the states of those whose gradient never came
 *
 * Several such steps may belong to one update; ol_arrival_reset closes it. A parameter is updated
 * once in it. The results are those of a step that sees all gradients at once, bit for bit. */
#ifndef OL_OPTIM_ARRIVAL_H
#define OL_OPTIM_ARRIVAL_H

#include "optim/step.h"

/* What `seat` of a parameter says: 0 nothing; n above 0 that it is entry n - 1 of a step that
 * awaits it; this, that it was updated and the update is not closed. */
#define OL_SEAT_UPDATED (-1)

/* Makes the states of all entries of a step that was traced, and takes their seats. Fails for rules
 * that add to numbers of their group. */
ol_status ol_arrival_open(ol_error *error, ol_step *step);

/* Updates the parameter from its gradient, if the step awaits it. `one` is an empty step to work
 * with. options: what is asked of this gradient alone. */
ol_status ol_arrival_take(ol_error *error, ol_step *step, ol_step *one, ol_tensor *param,
                          ol_tensor *gradient, const ol_step_options *options);

/* The end of the walk: the step is empty, and who was not updated has no seat. */
void ol_arrival_close(ol_step *step);

/* How many members of a group were updated. */
int64_t ol_arrival_count(const ol_group *group);

/* Counts anew from here on. */
void ol_arrival_reset(ol_group *group);

#endif
