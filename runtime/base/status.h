/* status: how core functions report failure.
 *
 * A core function returns an ol_status and, when it fails, describes the failure in the ol_error
 * that its caller passed. On failure its outputs are untouched. */
#ifndef OL_BASE_STATUS_H
#define OL_BASE_STATUS_H

#include <math.h>

typedef enum ol_status {
  OL_OK = 0,
  OL_MEMORY,    /* an allocation failed */
  OL_ARGUMENT,  /* a value that the function does not take */
  OL_SHAPE,     /* shapes that do not fit each other or the operation */
  OL_DTYPE,     /* a dtype that the function does not take */
  OL_RANGE,     /* an index or position outside its bounds */
  OL_STATE,     /* a call that is not allowed at this time */
  OL_NONFINITE, /* NaN or infinity where a finite number was wanted */
  OL_FILE,      /* a file that cannot be read or written, or is malformed */
  OL_CALLBACK,  /* a function of the script failed; whoever called it holds its error */
} ol_status;

/* A number as messages show it: NaN without a sign, which no user gave it. */
static inline double ol_shown(double number) { return isnan(number) ? (double)NAN : number; }

#define OL_ERROR_SIZE 1024

typedef struct ol_error {
  ol_status status;
  char message[OL_ERROR_SIZE];
} ol_error;

/* Fills *error with a formatted message (cut at OL_ERROR_SIZE) and returns status. */
ol_status ol_fail(ol_error *error, ol_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of a message that is already there; returns its status. */
ol_status ol_fail_in(ol_error *error, const char *prefix);

/* Returns from the enclosing function with the status of a call that failed. */
#define OL_TRY(call)                                                                               \
  do {                                                                                             \
    ol_status status_ = (call);                                                                    \
    if (status_ != OL_OK) return status_;                                                          \
  } while (0)

#endif
