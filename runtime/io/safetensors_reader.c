/* safetensors_reader: opens files, and reads tensors out of them. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "io/safetensors_header.h"

#define CHUNK 16384 /* elements that are converted at once */

static ol_status read_bytes(ol_error *error, FILE *stream, void *out, size_t size) {
  if (fread(out, 1, size, stream) == size) return OL_OK;
  if (ferror(stream)) return ol_fail(error, OL_FILE, "reading failed: %s", strerror(errno));
  return ol_fail(error, OL_FILE, "the file is too short");
}

/* ---- opening ---- */

/* PyTorch's files are zips of a pickle, older ones and other tools' a pickle. */
static bool is_pickle(const uint8_t *start) {
  return memcmp(start, "PK\3\4", 4) == 0 || (start[0] == 0x80 && start[1] >= 2 && start[1] <= 5);
}

static ol_status refuse(ol_error *error, const uint8_t *start, uint64_t length) {
  if (is_pickle(start))
    return ol_fail(error, OL_FILE,
                   "it is a pickle, which is a program; PyTorch converts it:\n  python3 -c 'import "
                   "sys, torch, safetensors.torch as s; s.save_file({k: v.clone().contiguous() for "
                   "k, v in torch.load(sys.argv[1], map_location=\"cpu\", weights_only=True)"
                   ".items()}, sys.argv[2])' FILE.pt FILE.safetensors");
  if (length > OL_SAFETENSORS_HEADER)
    return ol_fail(error, OL_FILE, "it is no safetensors file: a header of %llu bytes",
                   (unsigned long long)length);
  return ol_fail(error, OL_FILE, "it is no safetensors file: the header does not begin with {");
}

/* Reads and checks the header of a file of `size` bytes. */
static ol_status read_header(ol_error *error, int64_t size, ol_safetensors *file) {
  uint8_t start[9];
  uint64_t length = 0;
  void *text;
  if (size < (int64_t)sizeof start)
    return ol_fail(error, OL_FILE, "the file is too short: %lld bytes", (long long)size);
  OL_TRY(read_bytes(error, file->stream, start, sizeof start));
  for (int i = 0; i < 8; i++) length |= (uint64_t)start[i] << 8 * i;
  if (length > OL_SAFETENSORS_HEADER || start[8] != '{') return refuse(error, start, length);
  if (length == 0 || (int64_t)length > size - 8)
    return ol_fail(error, OL_FILE, "the file is too short for a header of %llu bytes",
                   (unsigned long long)length);
  file->data = 8 + (int64_t)length;
  OL_TRY(ol_alloc_for(error, length, "a header", &text));
  *(char *)text = '{';
  ol_status status = read_bytes(error, file->stream, (char *)text + 1, length - 1);
  if (status == OL_OK) status = ol_safetensors_parse(error, text, length, size - file->data, file);
  ol_free(text);
  return status;
}

static ol_status open_file(ol_error *error, const char *path, ol_safetensors *file) {
  struct stat entry;
  if (stat(path, &entry) == 0 && !S_ISREG(entry.st_mode)) /* opening a pipe would wait */
    return ol_fail(error, OL_FILE, "it is no regular file");
  file->stream = fopen(path, "rbe");
  if (!file->stream || fstat(fileno(file->stream), &entry) != 0)
    return ol_fail(error, OL_FILE, "cannot be read: %s", strerror(errno));
  return read_header(error, entry.st_size, file);
}

ol_status ol_safetensors_open(ol_error *error, const char *path, ol_safetensors *out) {
  ol_safetensors file = { 0 };
  if (open_file(error, path, &file) == OL_OK) {
    *out = file;
    return OL_OK;
  }
  ol_safetensors_close(&file);
  return ol_fail_in(error, path);
}

void ol_safetensors_close(ol_safetensors *file) {
  if (file->stream) fclose(file->stream);
  json_decref(file->json);
  ol_free(file->tensor);
  ol_free(file->note);
  *file = (ol_safetensors){ 0 };
}

/* ---- tensors ---- */

/* A view of `count` elements of a contiguous tensor from position `begin` on. */
static ol_status slice(ol_error *error, const ol_tensor *tensor, int64_t begin, int64_t count,
                       ol_tensor **out) {
  ol_shape shape = { 1, { count } };
  int64_t stride = 1;
  return ol_tensor_view(error, tensor, &shape, &stride, begin, out);
}

/* Reads `count` elements, widened, into the first places of `wide`, and copies them to target. */
static ol_status convert_chunk(ol_error *error, FILE *stream, const ol_element *element,
                               ol_tensor *wide, ol_tensor *target, int64_t begin, int64_t count) {
  ol_tensor *from = NULL, *to = NULL;
  size_t size = (size_t)(count * element->bits / 8), room = (size_t)count * 8;
  char *packed = (char *)ol_tensor_data(wide) + (room - size);
  OL_TRY(read_bytes(error, stream, packed, size));
  OL_TRY(ol_element_widen(error, element, packed, count, ol_tensor_data(wide)));
  ol_status status = slice(error, wide, 0, count, &from);
  if (status == OL_OK) status = slice(error, target, begin, count, &to);
  if (status == OL_OK) status = ol_tensor_copy(error, to, from);
  ol_release(from);
  ol_release(to);
  return status;
}

static ol_status read_converted(ol_error *error, FILE *stream, const ol_element *element,
                                ol_tensor *target) {
  int64_t total = target->numel, at = 0;
  ol_shape shape = { 1, { total < CHUNK ? total : CHUNK } };
  ol_dtype dtype = element->kind == OL_ELEMENT_FLOAT ? OL_F64 : OL_I64;
  ol_status status = OL_OK;
  ol_tensor *wide;
  OL_TRY(ol_tensor_new(error, dtype, &shape, &wide));
  for (; at < total && status == OL_OK; at += shape.size[0]) {
    int64_t count = total - at < shape.size[0] ? total - at : shape.size[0];
    status = convert_chunk(error, stream, element, wide, target, at, count);
  }
  ol_release(wide);
  return status;
}

static ol_status read_tensor(ol_error *error, FILE *stream, const ol_stored *stored,
                             ol_tensor *tensor) {
  const ol_element *element = stored->element;
  if (!element->held || element->dtype != tensor->dtype)
    return read_converted(error, stream, element, tensor);
  return read_bytes(error, stream, ol_tensor_data(tensor), (size_t)(stored->end - stored->begin));
}

static ol_status read_stored(ol_error *error, ol_safetensors *file, const ol_stored *stored,
                             ol_dtype dtype, ol_tensor **out) {
  ol_tensor *tensor;
  if (!ol_element_converts(stored->element, dtype))
    return ol_fail(error, OL_DTYPE, "%s cannot become %s", stored->element->name,
                   ol_dtype_name(dtype));
  if (stored->shape.ndim < 0)
    return ol_fail(error, OL_SHAPE, "it has more than %d dimensions", OL_MAX_DIMS);
  if (fseeko(file->stream, file->data + stored->begin, SEEK_SET) != 0)
    return ol_fail(error, OL_FILE, "reading failed: %s", strerror(errno));
  OL_TRY(ol_tensor_new(error, dtype, &stored->shape, &tensor));
  ol_status status = read_tensor(error, file->stream, stored, tensor);
  if (status == OL_OK)
    *out = tensor;
  else
    ol_release(tensor);
  return status;
}

ol_status ol_safetensors_read(ol_error *error, ol_safetensors *file, const ol_stored *stored,
                              ol_dtype dtype, ol_tensor **out) {
  if (read_stored(error, file, stored, dtype, out) == OL_OK) return OL_OK;
  return ol_fail_in(error, stored->name);
}
