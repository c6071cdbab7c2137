/* file: a temporary file, fsync and renameat2. */
#define _GNU_SOURCE
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/disk.h"

static ol_status fail(ol_error *error, const ol_file *file, const char *what) {
  return ol_fail(error, OL_FILE, "%s: %s: %s", file->path, what, strerror(errno));
}

/* Opens a file of a name that nobody has, with the permissions of any new file. */
static int open_temporary(ol_file *file) {
  for (unsigned attempt = 0; attempt < 1000; attempt++) {
    int length = snprintf(file->temporary, sizeof file->temporary, "%s.%ld-%u.tmp", file->path,
                          (long)getpid(), attempt);
    if (length >= (int)sizeof file->temporary) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

ol_status ol_file_begin(ol_error *error, const char *path, ol_file *file) {
  struct stat old;
  OL_TRY(ol_disk_resolve(error, path, file->path));
  bool exists = stat(file->path, &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) /* a folder; a device would be lost */
    return ol_fail(error, OL_FILE, "%s: cannot be written: it is no regular file", file->path);
  int descriptor = open_temporary(file);
  if (descriptor < 0) return fail(error, file, "cannot be written");
  if (exists) (void)fchmod(descriptor, old.st_mode & 0777); /* some file systems have no modes */
  file->stream = fdopen(descriptor, "wb");
  if (file->stream) return OL_OK;
  close(descriptor);
  unlink(file->temporary);
  return fail(error, file, "cannot be written");
}

ol_status ol_file_write(ol_error *error, ol_file *file, const void *bytes, size_t size) {
  if (fwrite(bytes, 1, size, file->stream) == size) return OL_OK;
  return fail(error, file, "writing failed");
}

/* Brings the folder's entry to the disk. */
static ol_status sync_folder(ol_error *error, ol_file *file) {
  char *slash = strrchr(file->path, '/');
  if (slash) *slash = '\0';
  ol_status status = ol_disk_sync(error, !slash ? "." : slash == file->path ? "/" : file->path);
  if (slash) *slash = '/';
  return status;
}

/* What became of the name. */
typedef enum placed { FAILED, NEW, REPLACED, EXCHANGED } placed;

/* Gives the file its name. What had it before has the temporary one then, where the file system can
 * exchange names. */
static placed put_in_place(const ol_file *file) {
  const char *path = file->path, *temporary = file->temporary;
  bool exists = access(path, F_OK) == 0;
  if (exists && renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
    return EXCHANGED;
  if (rename(temporary, path) != 0) return FAILED;
  return exists ? REPLACED : NEW;
}

/* Brings the name to the disk; where that fails, it is as before, if it can be. */
static ol_status keep(ol_error *error, ol_file *file, placed how) {
  ol_status status = sync_folder(error, file);
  bool back = how == EXCHANGED && status != OL_OK && rename(file->temporary, file->path) == 0;
  if (how == EXCHANGED && !back) unlink(file->temporary);
  if (how == NEW && status != OL_OK) unlink(file->path);
  return status;
}

ol_status ol_file_commit(ol_error *error, ol_file *file) {
  bool written = fflush(file->stream) == 0 && fsync(fileno(file->stream)) == 0;
  int reason = errno;
  bool closed = fclose(file->stream) == 0;
  if (!written) errno = reason;
  file->stream = NULL;
  placed how = written && closed ? put_in_place(file) : FAILED;
  if (how != FAILED) return keep(error, file, how);
  ol_status status = fail(error, file, "writing failed");
  unlink(file->temporary);
  return status;
}

void ol_file_abandon(ol_file *file) {
  if (file->stream) fclose(file->stream);
  file->stream = NULL;
  unlink(file->temporary);
}
