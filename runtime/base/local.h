/* local: variables that each thread has for itself. */
#ifndef OL_BASE_LOCAL_H
#define OL_BASE_LOCAL_H

/* Declares a static variable of each thread. It lies in the room that the C library keeps for such
 * variables of libraries that are loaded late, where it is reached without a call; that room is
 * small: a few hundred bytes in all. */
#define OL_THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

#endif
