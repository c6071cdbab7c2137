/* naive: evaluates a graph node by node over whole arrays, as written: the reference for what the
 * compiler and the machine give, bit for bit (except matmul). */
#ifndef OL_RULE_NAIVE_H
#define OL_RULE_NAIVE_H

#include "rule/graph.h"

/* Does what running the program of the graph on these arrays would do. Slow and single-threaded.
 * gradient_factor and totals as in ol_run; they may be NULL. count is the number of elements of the
 * parameter, which may differ from the graph's unless it is shape_bound. */
ol_status ol_naive_run(ol_error *error, const ol_graph *graph, void *const *arrays, int64_t count,
                       const double *gradient_factor, double *totals);

#endif
