/* disk: fsync, renameat2, flock, and zlib's crc32. */
#define _GNU_SOURCE
#include "io/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"
#include "base/parallel.h"

static ol_status fail(ol_error *error, const char *path) {
  return ol_fail(error, OL_FILE, "%s: %s", path, strerror(errno));
}

static bool is_link(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && S_ISLNK(found.st_mode);
}

ol_status ol_disk_resolve(ol_error *error, const char *path, char out[PATH_MAX]) {
  bool fits = strlen(path) < PATH_MAX, follow = fits && is_link(path);
  if (!fits) errno = ENAMETOOLONG;
  if (!fits || (follow && !realpath(path, out)))
    return ol_fail(error, OL_FILE, "%s: cannot be written: %s", path, strerror(errno));
  if (!follow) strcpy(out, path);
  return OL_OK;
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

bool ol_disk_can_read(const char *path, bool *regular) {
  struct stat found;
  *regular = stat(path, &found) == 0 && S_ISREG(found.st_mode);
  return access(path, R_OK) == 0;
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
  if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0) return OL_OK;
  if (errno != EINVAL) return fail(error, b);
  return ol_fail(error, OL_FILE,
                 "%s: this file system cannot replace a folder at once; save under a new name", b);
}

/* ---- checksums ---- */

#define PIECE ((int64_t)4 << 20) /* bytes of a file that one thread sums */

/* What the threads share. */
typedef struct pieces {
  int file;
  int64_t size;
  uint32_t *crc;      /* of each piece */
  _Atomic int reason; /* errno of a read that failed; 0: none */
} pieces;

static uint32_t sum_piece(pieces *all, int64_t at, int64_t end) {
  unsigned char buffer[1 << 16];
  uLong sum = crc32(0, NULL, 0);
  while (at < end) {
    size_t wanted = end - at < (int64_t)sizeof buffer ? (size_t)(end - at) : sizeof buffer;
    ssize_t count = pread(all->file, buffer, wanted, at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      all->reason = count < 0 ? errno : EIO; /* it has become shorter */
      return 0;
    }
    sum = crc32_z(sum, buffer, (size_t)count);
    at += count;
  }
  return (uint32_t)sum;
}

static void sum_pieces(int64_t begin, int64_t end, void *context) {
  pieces *all = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * PIECE, next = at + PIECE;
    all->crc[i] = sum_piece(all, at, next < all->size ? next : all->size);
  }
}

static ol_status sum_file(ol_error *error, const char *path, pieces *all, uint32_t *crc) {
  int64_t count = (all->size + PIECE - 1) / PIECE;
  void *sums;
  OL_TRY(ol_alloc_for(error, (size_t)count * sizeof *all->crc, "checksums", &sums));
  all->crc = sums;
  ol_parallel_for(count, 1, sum_pieces, all);
  uLong sum = crc32(0, NULL, 0);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = all->size - i * PIECE;
    sum = crc32_combine(sum, all->crc[i], rest < PIECE ? rest : PIECE);
  }
  ol_free(sums);
  if (all->reason) return ol_fail(error, OL_FILE, "%s: %s", path, strerror(all->reason));
  *crc = (uint32_t)sum;
  return OL_OK;
}

ol_status ol_disk_checksum(ol_error *error, const char *path, uint32_t *crc, int64_t *size) {
  struct stat found;
  pieces all = { .file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) }; /* waits for no pipe */
  if (all.file < 0) return fail(error, path);
  ol_status status = fstat(all.file, &found) == 0 ? OL_OK : fail(error, path);
  if (status == OL_OK && !S_ISREG(found.st_mode))
    status = ol_fail(error, OL_FILE, "%s: it is no regular file", path);
  if (status == OL_OK) {
    all.size = found.st_size;
    status = sum_file(error, path, &all, crc);
  }
  close(all.file);
  if (status == OL_OK) *size = all.size;
  return status;
}

uint32_t ol_disk_sum(const void *bytes, size_t size) {
  return (uint32_t)crc32_z(crc32(0, NULL, 0), bytes, size);
}

/* ---- locks ---- */

/* Locks what is open; *file stays what it is, or is -1 where another process holds the lock. */
static ol_status lock_open(ol_error *error, const char *path, int *file) {
  if (flock(*file, LOCK_EX | LOCK_NB) == 0) return OL_OK;
  ol_status status = errno == EWOULDBLOCK ? OL_OK : fail(error, path);
  close(*file);
  *file = -1;
  return status;
}

ol_status ol_disk_lock(ol_error *error, const char *path, int *file) {
  int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (opened < 0) return fail(error, path);
  OL_TRY(lock_open(error, path, &opened));
  *file = opened;
  return OL_OK;
}

ol_status ol_disk_lock_folder(ol_error *error, const char *path, int *file, bool *gone) {
  struct stat locked, named;
  int opened = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  bool missing = opened < 0 && errno == ENOENT;
  if (opened < 0 && !missing) return fail(error, path);
  if (!missing) OL_TRY(lock_open(error, path, &opened));
  /* Who held the lock may have given the folder another name. */
  bool moved = opened >= 0 && (fstat(opened, &locked) != 0 || stat(path, &named) != 0 ||
                               locked.st_ino != named.st_ino || locked.st_dev != named.st_dev);
  if (moved) close(opened);
  *file = moved ? -1 : opened;
  *gone = missing || moved;
  return OL_OK;
}
