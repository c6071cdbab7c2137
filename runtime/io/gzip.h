/* gzip: files, decompressed where they are compressed. */
#ifndef OL_IO_GZIP_H
#define OL_IO_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A file that is being read. Errors (OL_FILE) name its path and the reason. */
typedef struct ol_gzip {
  const char *path; /* the caller's */
  void *file;
  bool plain;   /* it is not compressed */
  int64_t most; /* the most bytes that can come out of it; INT64_MAX where that is not known */
} ol_gzip;

/* Opens a file, gzipped or plain. */
ol_status ol_gzip_open(ol_error *error, const char *path, ol_gzip *out);

/* Reads up to size bytes; *got is less only at the end of the file. */
ol_status ol_gzip_next(ol_error *error, ol_gzip *gzip, void *bytes, size_t size, size_t *got);

/* Reads size bytes; fails when the file has fewer. */
ol_status ol_gzip_exactly(ol_error *error, ol_gzip *gzip, void *bytes, size_t size);

void ol_gzip_close(ol_gzip *gzip);

/* Reads all that is left into *out (released with ol_free) of *size bytes; fails where there are
 * more than `limit`, or it expands without measure. */
ol_status ol_gzip_rest(ol_error *error, ol_gzip *gzip, int64_t limit, char **out, size_t *size);

/* Reads a whole file, gzipped or plain, as ol_gzip_rest does without a limit. */
ol_status ol_gzip_read(ol_error *error, const char *path, char **out, size_t *size);

#endif
