/* tokens: pread, so that a file may be larger than memory, and may not end the process when it
 * shrinks meanwhile, as one that is mapped would. */
#include "io/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define HEADER 1024 /* bytes: 256 int32 */

/* What llm.c writes. */
static const struct {
  uint32_t magic, version;
  size_t width;
} kinds[] = { { 20240520, 1, 2 }, { 20240801, 7, 4 } };

static ol_status fail(ol_error *error, const ol_tokens *tokens, const char *what) {
  return ol_fail(error, OL_FILE, "%s: %s", tokens->path, what);
}

static uint32_t little_endian(const uint8_t *bytes, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; i++) value |= (uint32_t)bytes[i] << 8 * i;
  return value;
}

static ol_status read_at(ol_error *error, const ol_tokens *tokens, int64_t offset, uint8_t *out,
                         size_t size) {
  while (size > 0) {
    ssize_t got = pread(tokens->descriptor, out, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(error, tokens, strerror(errno));
    if (got == 0) return fail(error, tokens, "the file is too short");
    out += got;
    offset += got;
    size -= (size_t)got;
  }
  return OL_OK;
}

/* Checks a header of llm.c; *is_one tells whether there is one at all. */
static ol_status read_header(ol_error *error, int64_t size, ol_tokens *tokens, bool *is_one) {
  uint8_t header[12] = { 0 };
  size_t there = size < (int64_t)sizeof header ? (size_t)size : sizeof header;
  OL_TRY(read_at(error, tokens, 0, header, there));
  *is_one = false;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (little_endian(header, 4) != kinds[k].magic) continue;
    *is_one = true;
    if (size < HEADER) return fail(error, tokens, "the header of llm.c is cut short");
    if (little_endian(header + 4, 4) != kinds[k].version)
      return ol_fail(error, OL_FILE, "%s: version %u of llm.c's tokens expected, got %u",
                     tokens->path, kinds[k].version, little_endian(header + 4, 4));
    tokens->width = kinds[k].width;
    tokens->offset = HEADER;
    tokens->count = little_endian(header + 8, 4);
  }
  return OL_OK;
}

static ol_status check_size(ol_error *error, int64_t size, const ol_tokens *tokens) {
  int64_t held = size - tokens->offset, wanted = tokens->count * (int64_t)tokens->width;
  if (held == wanted) return OL_OK;
  return ol_fail(error, OL_FILE, "%s: %lld tokens of %zu bytes expected, %lld bytes are there",
                 tokens->path, (long long)tokens->count, tokens->width, (long long)held);
}

static ol_status find_form(ol_error *error, int64_t size, size_t width, ol_tokens *tokens) {
  bool header = false;
  if (tokens->format != OL_TOKENS_NANOGPT) OL_TRY(read_header(error, size, tokens, &header));
  if (!header && tokens->format == OL_TOKENS_LLMC)
    return fail(error, tokens, "it does not begin with a magic number of llm.c");
  tokens->format = header ? OL_TOKENS_LLMC : OL_TOKENS_NANOGPT;
  if (header && width != 0 && width != tokens->width)
    return ol_fail(error, OL_FILE, "%s: the header says uint%zu, dtype uint%zu", tokens->path,
                   8 * tokens->width, 8 * width);
  if (!header) {
    tokens->width = width ? width : 2;
    tokens->count = size / (int64_t)tokens->width;
  }
  return check_size(error, size, tokens);
}

static ol_status open_file(ol_error *error, const char *path, size_t width, ol_tokens *tokens) {
  struct stat file;
  void *copy;
  OL_TRY(ol_alloc_for(error, strlen(path) + 1, "a path", &copy));
  tokens->path = strcpy(copy, path);
  tokens->descriptor = open(path, O_RDONLY | O_CLOEXEC);
  tokens->open = tokens->descriptor >= 0;
  if (!tokens->open || fstat(tokens->descriptor, &file) != 0)
    return ol_fail(error, OL_FILE, "%s: cannot be opened: %s", path, strerror(errno));
  if (!S_ISREG(file.st_mode)) return fail(error, tokens, "it is no regular file");
  return find_form(error, file.st_size, width, tokens);
}

ol_status ol_tokens_open(ol_error *error, const char *path, ol_tokens_format format, size_t width,
                         ol_tokens *out) {
  ol_tokens tokens = { .format = format };
  ol_status status = open_file(error, path, width, &tokens);
  if (status == OL_OK)
    *out = tokens;
  else
    ol_tokens_close(&tokens);
  return status;
}

void ol_tokens_close(ol_tokens *tokens) {
  if (tokens->open) close(tokens->descriptor);
  ol_free(tokens->path);
  *tokens = (ol_tokens){ 0 };
}

/* One run. The ids lie at the end of their row first; each is read before the place of a later one
 * is written. */
static ol_status read_run(ol_error *error, const ol_tokens *tokens, int64_t start, int64_t length,
                          int64_t *row) {
  size_t width = tokens->width, count = (size_t)length;
  uint8_t *packed = (uint8_t *)row + (sizeof *row - width) * count;
  if (start < 0 || start > tokens->count - length)
    return ol_fail(error, OL_RANGE, "%s: %lld tokens from %lld on, counted from 0, of %lld",
                   tokens->path, (long long)length, (long long)start, (long long)tokens->count);
  OL_TRY(read_at(error, tokens, tokens->offset + start * (int64_t)width, packed, width * count));
  for (size_t i = 0; i < count; i++) row[i] = little_endian(packed + i * width, width);
  return OL_OK;
}

ol_status ol_tokens_read(ol_error *error, const ol_tokens *tokens, const ol_tensor *starts,
                         int64_t length, ol_tensor **out) {
  ol_tensor *ids;
  ol_status status = OL_OK;
  if (starts->dtype != OL_I64 || starts->shape.ndim != 1)
    return ol_fail(error, OL_ARGUMENT, "tokens: starts: int64 of one dimension expected");
  if (length < 0 || length > tokens->count)
    return ol_fail(error, OL_RANGE, "tokens: %lld of %lld", (long long)length,
                   (long long)tokens->count);
  ol_shape shape = { .ndim = 2, .size = { starts->numel, length } };
  OL_TRY(ol_tensor_new(error, OL_I64, &shape, &ids));
  int64_t *rows = ol_tensor_data(ids);
  for (int64_t b = 0; b < starts->numel && status == OL_OK; b++)
    status = read_run(error, tokens, ol_tensor_get_integer(starts, b), length, rows + b * length);
  if (status == OL_OK)
    *out = ids;
  else
    ol_release(ids);
  return status;
}
