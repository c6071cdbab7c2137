/* naive: evaluates a graph node by node over whole arrays, as written: the reference for what the
 * compiler and the machine give, bit for bit (except matmul). */
#ifndef OL_RULE_NAIVE_H
#define OL_RULE_NAIVE_H

#include "rule/machine.h"

/* Does what the run would do with the program of the graph; run->program and run->numbers are not
 * used. Slow and single-threaded. run->count may differ from the elements of the graph's parameter
 * unless that is shape_bound. */
ol_status ol_naive_run(ol_error *error, const ol_graph *graph, const ol_run *run);

#endif
