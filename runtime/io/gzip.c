/* gzip: reads through zlib. */
#include "io/gzip.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/memory.h"

#define RATIO 1032 /* deflate makes of a byte no more than this (zlib's technical details) */

/* What a file may become that is read whole: beyond so many bytes, no more than so many times its
 * own. Texts come to twenty times. */
#define LARGE (64 << 20)
#define TIMES 200

#define FIRST (1 << 16) /* bytes that are read at first */

static ol_status fail(ol_error *error, const ol_gzip *gzip) {
  int code = Z_OK;
  const char *reason = gzerror(gzip->file, &code);
  size_t length = strlen(gzip->path);
  if (code == Z_MEM_ERROR) return ol_fail(error, OL_MEMORY, "out of memory: %s", gzip->path);
  if (code == Z_ERRNO) reason = strerror(errno);
  if (strncmp(reason, gzip->path, length) == 0 && strncmp(reason + length, ": ", 2) == 0)
    reason += length + 2; /* zlib begins with the path too */
  return ol_fail(error, OL_FILE, "%s: cannot be read: %s", gzip->path, reason);
}

/* Known of regular files only. */
static int64_t most_of(const char *path, bool plain) {
  struct stat file;
  if (stat(path, &file) != 0 || !S_ISREG(file.st_mode)) return INT64_MAX;
  if (plain) return file.st_size;
  return file.st_size < INT64_MAX / RATIO ? file.st_size * RATIO : INT64_MAX;
}

ol_status ol_gzip_open(ol_error *error, const char *path, ol_gzip *out) {
  errno = 0;
  gzFile file = gzopen(path, "rb");
  if (!file && (errno == 0 || errno == ENOMEM))
    return ol_fail(error, OL_MEMORY, "out of memory: %s", path);
  if (!file) return ol_fail(error, OL_FILE, "%s: cannot be opened: %s", path, strerror(errno));
  const bool plain = gzdirect(file);
  *out = (ol_gzip){ .path = path, .file = file, .plain = plain, .most = most_of(path, plain) };
  return OL_OK;
}

ol_status ol_gzip_next(ol_error *error, ol_gzip *gzip, void *bytes, size_t size, size_t *got) {
  int count = 1;
  for (*got = 0; *got < size && count > 0; *got += (size_t)count) {
    size_t rest = size - *got;
    count = gzread(gzip->file, (char *)bytes + *got, rest < 1 << 30 ? (unsigned)rest : 1u << 30);
    if (count < 0) return fail(error, gzip);
  }
  int code = Z_OK; /* a file that ends too early is reported here, not by gzread */
  gzerror(gzip->file, &code);
  return code == Z_OK || code == Z_STREAM_END ? OL_OK : fail(error, gzip);
}

ol_status ol_gzip_exactly(ol_error *error, ol_gzip *gzip, void *bytes, size_t size) {
  size_t got;
  OL_TRY(ol_gzip_next(error, gzip, bytes, size, &got));
  return got == size ? OL_OK : ol_fail(error, OL_FILE, "%s: the file is too short", gzip->path);
}

void ol_gzip_close(ol_gzip *gzip) {
  gzclose(gzip->file);
  gzip->file = NULL;
}

/* What has been read so far. */
typedef struct text {
  char *data;
  size_t size, capacity;
} text;

static ol_status check_growth(ol_error *error, const ol_gzip *gzip, size_t size) {
  const bool known = gzip->most < INT64_MAX && !gzip->plain;
  if (!known || size <= LARGE || (int64_t)size / TIMES <= gzip->most / RATIO) return OL_OK;
  return ol_fail(error, OL_FILE, "%s: cannot be read: it expands to more than %d times its size",
                 gzip->path, TIMES);
}

static ol_status read_all(ol_error *error, ol_gzip *gzip, int64_t limit, text *t) {
  size_t got;
  do {
    if (t->size > (size_t)limit)
      return ol_fail(error, OL_FILE, "%s: more than %lld bytes", gzip->path, (long long)limit);
    if (OL_GROW(error, &t->data, t->size, t->size ? 1 : FIRST, &t->capacity, "a file") != OL_OK)
      return ol_fail_in(error, gzip->path);
    OL_TRY(ol_gzip_next(error, gzip, t->data + t->size, t->capacity - t->size, &got));
    t->size += got;
    OL_TRY(check_growth(error, gzip, t->size));
  } while (t->size == t->capacity);
  return OL_OK;
}

ol_status ol_gzip_rest(ol_error *error, ol_gzip *gzip, int64_t limit, char **out, size_t *size) {
  text t = { 0 };
  ol_status status = read_all(error, gzip, limit, &t);
  if (status != OL_OK) {
    ol_free(t.data);
    return status;
  }
  *out = t.data;
  *size = t.size;
  return OL_OK;
}

ol_status ol_gzip_read(ol_error *error, const char *path, char **out, size_t *size) {
  ol_gzip gzip = { 0 };
  OL_TRY(ol_gzip_open(error, path, &gzip));
  ol_status status = ol_gzip_rest(error, &gzip, INT64_MAX, out, size);
  ol_gzip_close(&gzip);
  return status;
}
