/* step: one update of the parameters of some groups, as a transaction.
 *
 *   ol_step_collect(…)                 each group: which members have a gradient
 *   while (ol_step_next(…) has more)   a rule must be run on symbols …
 *     ol_step_record(…)                … and gave this graph
 *   ol_step_prepare(…)                 states, norms, runs: all that can fail
 *   ol_step_commit(…)                  cannot fail
 *
 * Until commit nothing has changed that anybody can see; ol_step_abort makes it so at any point.
 * Members of one group whose dtype, layout and count of updates agree are one batch: the rule is
 * run once for all of them, or, if it depends on the shape, once for each shape. */
#ifndef OL_OPTIM_STEP_H
#define OL_OPTIM_STEP_H

#include "optim/group.h"
#include "rule/cache.h"
#include "rule/machine.h"
#include "rule/norm.h"

/* A member that takes part. */
typedef struct ol_entry {
  ol_member *member;
  ol_tensor
      *grad; /* contiguous, one reference, where the member has not seen it; from prepare on */
  ol_tensor *packed; /* copy of a parameter that is not contiguous, else NULL; likewise */
  int made;          /* slots that existed before this step */
} ol_entry;

typedef struct ol_step_batch {
  ol_group *group;
  int64_t begin, end;  /* entries */
  int64_t numbers;     /* where they begin in step->numbers */
  int64_t runs;        /* where its runs end in step->runs; from prepare on */
  ol_program *program; /* one reference */
} ol_step_batch;

/* A list that grows. */
typedef struct ol_list {
  void *item;
  int64_t count, capacity;
} ol_list;

/* What is asked of the gradients of a step, all groups together. Those of each group are scaled
 * down to its max_norm first, where they are measured. */
typedef struct ol_step_options {
  bool measure;    /* compute their norm; then one that is not finite fails */
  bool infinity;   /* the largest absolute value, not the square root of the sum of squares */
  double max_norm; /* gradients with a larger norm are scaled down to it as they are read */
  double unscale;  /* what they are multiplied with before everything else */
} ol_step_options;

typedef struct ol_step {
  ol_machine *machine;
  ol_list groups;                    /* of ol_group *, one reference each */
  ol_list entries, batches, numbers; /* of ol_entry, ol_step_batch, double */
  ol_list runs, arrays, noise;       /* of ol_run, void *, ol_noise_part */
  ol_list inputs, parts;             /* of ol_norm_input, ol_norm_part */
  ol_group *group;                   /* whose members are being traced */
  bool updates;                      /* gradients are used, and updates counted */
  int64_t next;                      /* the first entry without a batch */
  int64_t until;                     /* end of the batch that is being traced, at most */
  double norm;                       /* of the last step that measured it */
  bool holds;                        /* entries hold references */
  bool prepared;                     /* a commit may follow */
} ol_step;

/* Makes a step to be used again and again. */
ol_status ol_step_new(ol_error *error, ol_step **out);

/* NULL is allowed. */
void ol_step_free(ol_step *step);

/* Adds the members of a group whose gradient is present; *count of them. The group's members must
 * all have a batch before the next group is added. */
ol_status ol_step_collect(ol_error *error, ol_step *step, ol_group *group, int64_t *count);

/* The same for the members whose gradients the walk of a backward with this number awaits (see
 * arrival.h). Fails, naming it, for one that was updated by an earlier walk since ol_arrival_reset,
 * or has a gradient already. */
ol_status ol_step_collect_awaited(ol_error *error, ol_step *step, ol_group *group, uint64_t visit,
                                  int64_t *count);

/* The same for a rule that changes the form of parameters and is no update: adds the members that
 * were updated at least once. Gradients are not read, and nothing is counted. */
ol_status ol_step_collect_updated(ol_error *error, ol_step *step, ol_group *group, int64_t *count);

/* Begins graph for the next batch: operand 0 is the parameter, 1 the gradient, 2 … its slots.
 * *out is one of its members (on failure too), or NULL when all have a batch. */
ol_status ol_step_next(ol_error *error, ol_step *step, ol_graph *graph, const ol_member **out);

/* Makes a batch with the graph that the rule has built; by_shape: it looked at the shape. */
ol_status ol_step_record(ol_error *error, ol_step *step, ol_program_cache *cache,
                         const ol_graph *graph, bool by_shape);

/* Makes states that do not exist yet, measures gradients, prepares the machine. */
ol_status ol_step_prepare(ol_error *error, ol_step *step, const ol_step_options *options);

/* Updates parameters, states, counts and totals of groups; the step is empty afterwards. Does
 * nothing unless it was prepared. */
void ol_step_commit(ol_step *step);

/* Undoes what was done so far; the step is empty afterwards. Harmless for one that is empty. */
void ol_step_abort(ol_step *step);

#endif
