/* file: files that are written whole or not at all.
 *
 * The bytes go to a new file in the same folder. Committing brings them to the disk and gives the
 * file its name; until then, and after any failure, the file of that name is what it was. */
#ifndef OL_IO_FILE_H
#define OL_IO_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

typedef struct ol_file {
  FILE *stream;
  char path[PATH_MAX]; /* where it goes; links followed */
  char temporary[PATH_MAX];
} ol_file;

/* Begins a file for path, at which there is nothing or a regular file; it takes over permissions.
 */
ol_status ol_file_begin(ol_error *error, const char *path, ol_file *file);

/* Appends bytes. After a failure the file is to be abandoned. */
ol_status ol_file_write(ol_error *error, ol_file *file, const void *bytes, size_t size);

/* Makes it the file of that name. After a failure nothing is left of it, unless the file system
 * cannot exchange names and it was the folder that could not be brought to the disk. */
ol_status ol_file_commit(ol_error *error, ol_file *file);

/* Removes what was written. */
void ol_file_abandon(ol_file *file);

#endif
