/* events: event files, in which TensorBoard finds the scalars and histograms of a run.
 *
 * A file is a row of records (TFRecord): 8 bytes of length, their checksum, the message of
 * event.proto, its checksum. Each record goes out at once, so that a run can be watched. */
#ifndef OL_IO_EVENTS_H
#define OL_IO_EVENTS_H

#include <stdio.h>

#include "tensor/tensor.h"

typedef struct ol_events {
  FILE *stream; /* NULL: closed */
} ol_events;

/* When something happened. */
typedef struct ol_moment {
  double time; /* seconds since 1970 */
  int64_t step;
} ol_moment;

/* Begins a file, which must not be there yet. */
ol_status ol_events_create(ol_error *error, const char *path, double time, ol_events *out);

/* Writes numbers by their tags as one event. */
ol_status ol_events_scalars(ol_error *error, ol_events *events, ol_moment when, size_t count,
                            const char *const *tag, const float *value);

/* Writes how the elements of a tensor are distributed; what is not finite is left out. */
ol_status ol_events_histogram(ol_error *error, ol_events *events, ol_moment when, const char *tag,
                              const ol_tensor *tensor);

/* Says that a run goes on: what earlier files of the folder hold of this step on is void. */
ol_status ol_events_resume(ol_error *error, ol_events *events, ol_moment when);

/* Ends the file; closed already is harmless. */
ol_status ol_events_close(ol_error *error, ol_events *events);

#endif
