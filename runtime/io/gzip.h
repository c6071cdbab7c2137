/* gzip: whole files, decompressed where they are compressed. */
#ifndef OL_IO_GZIP_H
#define OL_IO_GZIP_H

#include <stddef.h>

#include "base/status.h"

/* Reads a file, gzipped or plain, into *out (released with ol_free) of *size bytes. Errors
 * (OL_FILE) name the path and the reason; OL_MEMORY. */
ol_status ol_gzip_read(ol_error *error, const char *path, char **out, size_t *size);

#endif
