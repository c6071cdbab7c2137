/* disk: fsync, renameat2, flock, and zlib's crc32. */
#define _GNU_SOURCE
#include "io/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static ol_status fail(ol_error *error, const char *path) {
  return ol_fail(error, OL_FILE, "%s: %s", path, strerror(errno));
}

ol_status ol_disk_make_folder(ol_error *error, const char *path, bool *made) {
  struct stat found;
  bool is_new = mkdir(path, 0777) == 0;
  int reason = errno;
  if (!is_new && (reason != EEXIST || stat(path, &found) != 0 || !S_ISDIR(found.st_mode)))
    return ol_fail(error, OL_FILE, "%s: %s", path, strerror(reason));
  *made = is_new;
  return OL_OK;
}

ol_status ol_disk_sync(ol_error *error, const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(error, path);
  /* Some file systems know no fsync of folders: what they can do they have done. */
  bool synced = fsync(file) == 0 || errno == EINVAL;
  ol_status status = synced ? OL_OK : fail(error, path);
  close(file);
  return status;
}

ol_status ol_disk_exchange(ol_error *error, const char *a, const char *b) {
  if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) != 0) return fail(error, b);
  return OL_OK;
}

ol_status ol_disk_checksum(ol_error *error, const char *path, uint32_t *crc, int64_t *size) {
  unsigned char buffer[1 << 16];
  uLong sum = crc32(0, NULL, 0);
  int64_t total = 0;
  size_t count;
  FILE *file = fopen(path, "rbe");
  if (!file) return fail(error, path);
  while ((count = fread(buffer, 1, sizeof buffer, file)) > 0) {
    sum = crc32_z(sum, buffer, count);
    total += (int64_t)count;
  }
  ol_status status = ferror(file) ? fail(error, path) : OL_OK;
  fclose(file);
  if (status != OL_OK) return status;
  *crc = (uint32_t)sum;
  *size = total;
  return OL_OK;
}

ol_status ol_disk_lock(ol_error *error, const char *path, int *file) {
  int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (opened < 0) return fail(error, path);
  if (flock(opened, LOCK_EX | LOCK_NB) != 0) {
    ol_status status = errno == EWOULDBLOCK ? OL_OK : fail(error, path);
    close(opened);
    opened = -1;
    if (status != OL_OK) return status;
  }
  *file = opened;
  return OL_OK;
}
