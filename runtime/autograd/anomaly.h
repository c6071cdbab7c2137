/* anomaly: while it watches, every op is looked at, forward and backward, and the first whose
 * result is not finite fails, with the line of the script. */
#ifndef OL_AUTOGRAD_ANOMALY_H
#define OL_AUTOGRAD_ANOMALY_H

#include "autograd/op.h"

#define OL_PLACE_TEXT 160 /* bytes of "FILE:LINE" */

/* Whether it watches (not at first), in this thread. */
bool ol_watching(void);
void ol_set_watching(bool on);

/* Says where the script is: of the ops that follow. */
void ol_set_place(const char *place);

/* Where the script is, in memory of its own; NULL in *out while nothing is watched. */
ol_status ol_keep_place(ol_error *error, char **out);

/* Fails (OL_NONFINITE) when forward made a NaN, or an infinity of finite arguments: those that a
 * script put in, as masks do, are no anomaly. */
ol_status ol_watch_forward(ol_error *error, const ol_call *call);

/* Fails (OL_NONFINITE) when gradient, NULL allowed, is not finite: of input `input` (from 0) of an
 * op that was recorded at place; input -1: what reaches it. */
ol_status ol_watch_gradient(ol_error *error, ol_tensor *gradient, const char *op, const char *place,
                            int input);

#endif
