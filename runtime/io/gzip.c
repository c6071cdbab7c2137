/* gzip: reads through zlib. */
#include "io/gzip.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"

/* What has been read so far. */
typedef struct text {
  char *data;
  size_t size, capacity;
} text;

static ol_status grow(ol_error *error, text *t) {
  size_t capacity = t->capacity ? 2 * t->capacity : 1 << 16;
  void *data;
  OL_TRY(ol_alloc_for(error, capacity, "a file", &data));
  if (t->size) memcpy(data, t->data, t->size);
  ol_free(t->data);
  t->data = data;
  t->capacity = capacity;
  return OL_OK;
}

static ol_status fail(ol_error *error, const char *path, gzFile file) {
  int code = Z_OK;
  const char *reason = gzerror(file, &code);
  if (code == Z_ERRNO) reason = strerror(errno);
  return ol_fail(error, OL_FILE, "%s: cannot be read: %s", path, reason);
}

static ol_status read_all(ol_error *error, const char *path, gzFile file, text *t) {
  int count;
  do {
    if (t->size == t->capacity) OL_TRY(grow(error, t));
    size_t room = t->capacity - t->size;
    count = gzread(file, t->data + t->size, room < 1 << 30 ? (unsigned)room : 1u << 30);
    if (count < 0) return fail(error, path, file);
    t->size += (size_t)count;
  } while (count > 0);
  int code = Z_OK; /* a file that ends too early is reported here, not by gzread */
  gzerror(file, &code);
  return code == Z_OK || code == Z_STREAM_END ? OL_OK : fail(error, path, file);
}

ol_status ol_gzip_read(ol_error *error, const char *path, char **out, size_t *size) {
  text t = { 0 };
  errno = 0;
  gzFile file = gzopen(path, "rb");
  if (!file)
    return ol_fail(error, OL_FILE, "%s: cannot be opened: %s", path,
                   errno ? strerror(errno) : "out of memory");
  ol_status status = read_all(error, path, file, &t);
  gzclose(file);
  if (status != OL_OK) {
    ol_free(t.data);
    return status;
  }
  *out = t.data;
  *size = t.size;
  return OL_OK;
}
