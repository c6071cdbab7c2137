/* npy: a magic string, a header that is a Python dictionary, the elements. */
#include "io/npy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "io/element.h"
#include "io/file.h"

#define MAGIC      "\x93NUMPY"
#define MAX_HEADER 65536 /* bytes; numpy writes 128 */

/* NumPy's names of types. Integers that tensors do not hold are widened to int64. */
static const struct {
  const char *descr, *element;
} forms[] = {
  { "<f4", "F32" }, { "<f8", "F64" }, { "<i8", "I64" }, { "|u1", "U8" },  { "|b1", "BOOL" },
  { "|i1", "I8" },  { "<i2", "I16" }, { "<i4", "I32" }, { "<u2", "U16" }, { "<u4", "U32" },
};

typedef struct header {
  const ol_element *element; /* NULL: not seen yet */
  bool fortran;
  ol_shape shape;
  bool has_fortran, has_shape;
} header;

/* A place in the text of a header. */
typedef struct reader {
  ol_error *error;
  const char *at, *end;
} reader;

static ol_status malformed(reader *r, const char *what) {
  return ol_fail(r->error, OL_FILE, "the header is malformed: %s", what);
}

static char peek(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
  return r->at < r->end ? *r->at : '\0';
}

static bool accept(reader *r, char c) {
  if (peek(r) != c) return false;
  r->at++;
  return true;
}

static bool accept_word(reader *r, const char *word) {
  size_t length = strlen(word);
  if (peek(r) != *word || (size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
    return false;
  r->at += length;
  return true;
}

/* A string without escapes, into text of `size` bytes. */
static ol_status read_string(reader *r, char *text, size_t size) {
  char quote = peek(r);
  size_t length = 0;
  if (quote != '\'' && quote != '"') return malformed(r, "a string was expected");
  for (r->at++; r->at < r->end && *r->at != quote; r->at++) {
    if (length + 1 >= size || *r->at == '\\') return malformed(r, "a string is too long");
    text[length++] = *r->at;
  }
  if (r->at == r->end) return malformed(r, "a string does not end");
  r->at++;
  text[length] = '\0';
  return OL_OK;
}

static ol_status read_descr(reader *r, header *h) {
  char descr[16];
  if (peek(r) == '[') return ol_fail(r->error, OL_FILE, "structured arrays are not supported");
  OL_TRY(read_string(r, descr, sizeof descr));
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i].descr, descr) == 0) h->element = ol_element_find(forms[i].element);
  if (h->element) return OL_OK;
  if (descr[0] == '>')
    return ol_fail(r->error, OL_FILE, "big-endian data (%s) is not supported: write it as \"<%s\"",
                   descr, descr + 1);
  return ol_fail(r->error, OL_FILE, "elements of type \"%s\" are not supported", descr);
}

static ol_status read_size(reader *r, int64_t *out) {
  int64_t size = 0;
  if (peek(r) < '0' || *r->at > '9') return malformed(r, "a size was expected in shape");
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(size, 10, &size) ||
        __builtin_add_overflow(size, *r->at - '0', &size))
      return malformed(r, "a size in shape is too large");
  accept(r, 'L'); /* of Python 2 */
  *out = size;
  return OL_OK;
}

/* (), (3,) or (3, 4) */
static ol_status read_shape(reader *r, header *h) {
  ol_shape shape = { .ndim = 0 };
  if (!accept(r, '(')) return malformed(r, "shape is no tuple");
  while (!accept(r, ')')) {
    if (shape.ndim == OL_MAX_DIMS)
      return ol_fail(r->error, OL_FILE, "the array has more than %d dimensions", OL_MAX_DIMS);
    OL_TRY(read_size(r, &shape.size[shape.ndim++]));
    if (!accept(r, ',') && (peek(r) != ')' || shape.ndim == 1))
      return malformed(r, "shape is no tuple");
  }
  h->shape = shape;
  h->has_shape = true;
  return OL_OK;
}

static ol_status read_fortran(reader *r, header *h) {
  h->fortran = accept_word(r, "True");
  h->has_fortran = h->fortran || accept_word(r, "False");
  return h->has_fortran ? OL_OK : malformed(r, "fortran_order is neither True nor False");
}

static ol_status read_entry(reader *r, header *h) {
  char key[32];
  OL_TRY(read_string(r, key, sizeof key));
  if (!accept(r, ':')) return malformed(r, "a colon was expected");
  if (strcmp(key, "descr") == 0 && !h->element) return read_descr(r, h);
  if (strcmp(key, "fortran_order") == 0 && !h->has_fortran) return read_fortran(r, h);
  if (strcmp(key, "shape") == 0 && !h->has_shape) return read_shape(r, h);
  return malformed(r, "a key is unknown or stands there twice");
}

static ol_status parse(ol_error *error, const char *text, size_t size, header *h) {
  reader r = { error, text, text + size };
  *h = (header){ 0 };
  if (!accept(&r, '{')) return malformed(&r, "it is no dictionary");
  while (!accept(&r, '}')) {
    OL_TRY(read_entry(&r, h));
    if (!accept(&r, ',') && peek(&r) != '}') return malformed(&r, "a comma was expected");
  }
  if (peek(&r) != '\0' || r.at < r.end) return malformed(&r, "something follows the dictionary");
  if (!h->element || !h->has_fortran || !h->has_shape) return malformed(&r, "a key is missing");
  return OL_OK;
}

/* ---- reading ---- */

static ol_status read_bytes(ol_error *error, FILE *stream, void *out, size_t size) {
  if (fread(out, 1, size, stream) == size) return OL_OK;
  return ol_fail(error, OL_FILE, ferror(stream) ? "reading failed" : "the file is too short");
}

/* Reads up to the first element. */
static ol_status read_header(ol_error *error, FILE *stream, header *h) {
  uint8_t start[8], length[4] = { 0 };
  void *text;
  OL_TRY(read_bytes(error, stream, start, sizeof start));
  if (memcmp(start, MAGIC, 6) != 0) return ol_fail(error, OL_FILE, "it is no .npy file");
  if ((start[6] != 1 && start[6] != 2) || start[7] != 0)
    return ol_fail(error, OL_FILE, "version %d.%d of .npy is not supported", start[6], start[7]);
  OL_TRY(read_bytes(error, stream, length, start[6] == 1 ? 2 : 4));
  size_t size = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 |
                (size_t)length[3] << 24;
  if (size > MAX_HEADER) return ol_fail(error, OL_FILE, "the header is too long: %zu bytes", size);
  OL_TRY(ol_alloc_for(error, size, "a header", &text));
  ol_status status = read_bytes(error, stream, text, size);
  if (status == OL_OK) status = parse(error, text, size, h);
  ol_free(text);
  return status;
}

/* Fails before memory is taken when a regular file cannot hold the elements. */
static ol_status check_length(ol_error *error, FILE *stream, const header *h) {
  struct stat file;
  int64_t numel;
  int64_t size = h->element->bits / 8;
  OL_TRY(ol_shape_count(error, &h->shape, 8, &numel));
  long begin = ftell(stream);
  if (begin < 0 || fstat(fileno(stream), &file) != 0 || !S_ISREG(file.st_mode)) return OL_OK;
  int64_t held = file.st_size - begin, wanted = numel * size;
  if (held == wanted) return OL_OK;
  if (held > wanted)
    return ol_fail(error, OL_FILE, "%lld bytes follow the elements", (long long)(held - wanted));
  return ol_fail(error, OL_FILE, "the file is too short: %lld bytes of elements, not %lld",
                 (long long)held, (long long)wanted);
}

/* Integers of fewer bytes lie at the end of the tensor's memory before they are widened. */
static ol_status read_elements(ol_error *error, FILE *stream, const header *h, ol_tensor *tensor) {
  size_t own = (size_t)h->element->bits / 8, full = ol_dtype_size(tensor->dtype);
  char *data = ol_tensor_data(tensor), *packed = data + (full - own) * (size_t)tensor->numel;
  OL_TRY(read_bytes(error, stream, packed, own * (size_t)tensor->numel));
  if (own == full) return OL_OK;
  return ol_element_widen(error, h->element, packed, tensor->numel, data);
}

/* In Fortran's order the elements are those of the array with its dimensions reversed. */
static ol_status transpose(ol_error *error, ol_tensor *reversed, const ol_shape *shape,
                           ol_tensor **out) {
  int64_t stride[OL_MAX_DIMS];
  ol_tensor *view;
  for (int d = 0; d < shape->ndim; d++) stride[d] = reversed->stride[shape->ndim - 1 - d];
  OL_TRY(ol_tensor_view(error, reversed, shape, stride, 0, &view));
  ol_status status = ol_tensor_clone(error, view, out);
  ol_release(view);
  return status;
}

static ol_status read_array(ol_error *error, FILE *stream, ol_tensor **out) {
  header h;
  ol_tensor *tensor;
  OL_TRY(read_header(error, stream, &h));
  OL_TRY(check_length(error, stream, &h));
  ol_shape shape = h.shape;
  for (int d = 0; h.fortran && d < shape.ndim; d++)
    shape.size[d] = h.shape.size[shape.ndim - 1 - d];
  ol_dtype dtype = h.element->held ? h.element->dtype : OL_I64;
  OL_TRY(ol_tensor_new(error, dtype, &shape, &tensor));
  ol_status status = read_elements(error, stream, &h, tensor);
  if (status == OL_OK && h.fortran && shape.ndim > 1) {
    status = transpose(error, tensor, &h.shape, out);
    ol_release(tensor);
  } else if (status == OL_OK)
    *out = tensor;
  else
    ol_release(tensor);
  return status;
}

ol_status ol_npy_read(ol_error *error, const char *path, ol_tensor **out) {
  FILE *stream = fopen(path, "rbe");
  if (!stream) return ol_fail(error, OL_FILE, "%s: %s", path, strerror(errno));
  ol_status status = read_array(error, stream, out);
  fclose(stream);
  return status == OL_OK ? OL_OK : ol_fail_in(error, path);
}

/* ---- writing ---- */

/* Writes magic, version 1.0 and a header that is padded so that elements begin at a multiple of 64.
 */
static ol_status write_header(ol_error *error, ol_file *file, const ol_tensor *tensor) {
  char text[512] = MAGIC "\x01", shape[OL_SHAPE_TEXT + 2];
  const char *descr = NULL;
  for (size_t i = 0; i < sizeof forms / sizeof *forms && !descr; i++)
    if (ol_element_find(forms[i].element) == ol_element_of(tensor->dtype)) descr = forms[i].descr;
  ol_shape_text(&tensor->shape, shape);
  if (tensor->shape.ndim == 1) strcpy(shape + strlen(shape) - 1, ",)");
  int length =
      10 + snprintf(text + 10, sizeof text - 10,
                    "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  int total = (length + 1 + 63) / 64 * 64;
  memset(text + length, ' ', (size_t)(total - length));
  text[total - 1] = '\n';
  text[8] = (char)((total - 10) & 0xff);
  text[9] = (char)((total - 10) >> 8);
  return ol_file_write(error, file, text, (size_t)total);
}

static ol_status write_array(ol_error *error, const char *path, const ol_tensor *tensor) {
  ol_file file;
  OL_TRY(ol_file_begin(error, path, &file));
  ol_status status = write_header(error, &file, tensor);
  if (status == OL_OK)
    status = ol_file_write(error, &file, ol_tensor_data(tensor),
                           (size_t)tensor->numel * ol_dtype_size(tensor->dtype));
  if (status == OL_OK) return ol_file_commit(error, &file);
  ol_file_abandon(&file);
  return status;
}

ol_status ol_npy_write(ol_error *error, const char *path, ol_tensor *tensor) {
  ol_tensor *dense;
  if (tensor->dtype == OL_BF16)
    return ol_fail(error, OL_DTYPE, "%s: NumPy has no bfloat16; convert with :to(\"float32\")",
                   path);
  OL_TRY(ol_tensor_contiguous(error, tensor, &dense));
  ol_status status = write_array(error, path, dense);
  ol_release(dense);
  return status;
}
