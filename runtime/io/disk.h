/* disk: folders that are committed, files that are checked, folders that are locked. */
#ifndef OL_IO_DISK_H
#define OL_IO_DISK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The name of what is written: that of a link's target, or the path itself. It may not be there
 * yet, but a link that points to nothing is an error. */
ol_status ol_disk_resolve(ol_error *error, const char *path, char out[PATH_MAX]);

/* Makes a folder; the one above it must be there. *made: whether it is new. */
ol_status ol_disk_make_folder(ol_error *error, const char *path, bool *made);

/* Whether there is something of that name that can be read; *regular: whether it is a regular file.
 * Opens nothing. */
bool ol_disk_can_read(const char *path, bool *regular);

/* Brings a file, or what a folder lists, to the disk. */
ol_status ol_disk_sync(ol_error *error, const char *path);

/* Gives two files or folders each other's name, at once. Some file systems cannot. */
ol_status ol_disk_exchange(ol_error *error, const char *a, const char *b);

/* The CRC-32 of a file and its size in bytes. */
ol_status ol_disk_checksum(ol_error *error, const char *path, uint32_t *crc, int64_t *size);

/* The CRC-32 of bytes. */
uint32_t ol_disk_sum(const void *bytes, size_t size);

/* Locks a file, which is made where it is not there, until the process ends or the lock is closed;
 * *file is its descriptor, or -1 where another process holds it. */
ol_status ol_disk_lock(ol_error *error, const char *path, int *file);

/* The same for a folder, not a link to one, which keeps its lock under other names. *gone: there is
 * none of that name, or by now another one; then nothing is locked. */
ol_status ol_disk_lock_folder(ol_error *error, const char *path, int *file, bool *gone);

#endif
