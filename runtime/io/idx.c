/* idx: two bytes of 0, the type, the number of dimensions, the sizes (32 bits each), the elements.
 */
#include "io/idx.h"

#include "io/gzip.h"

/* How elements are stored; integers are widened into the dtype. */
typedef struct form {
  uint8_t code;
  ol_dtype dtype;
  size_t size;
} form;

static const form forms[] = {
  { 0x08, OL_U8, 1 },  { 0x09, OL_I64, 1 }, { 0x0b, OL_I64, 2 },
  { 0x0c, OL_I64, 4 }, { 0x0d, OL_F32, 4 }, { 0x0e, OL_F64, 8 },
};

/* An unsigned number of `size` bytes, the high byte first. */
static uint64_t big_endian(const uint8_t *bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++) value = value << 8 | bytes[i];
  return value;
}

static ol_status find_form(ol_error *error, const char *path, const uint8_t start[4],
                           const form **out) {
  if (start[0] != 0 || start[1] != 0)
    return ol_fail(error, OL_FILE, "%s: it is no IDX file: it does not begin with two bytes of 0",
                   path);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].code == start[2]) {
      *out = &forms[i];
      return OL_OK;
    }
  return ol_fail(error, OL_FILE, "%s: it is no IDX file: there is no element type 0x%02x", path,
                 start[2]);
}

static ol_status read_header(ol_error *error, ol_gzip *gzip, const form **out, ol_shape *shape) {
  uint8_t start[4], size[4];
  OL_TRY(ol_gzip_exactly(error, gzip, start, sizeof start));
  OL_TRY(find_form(error, gzip->path, start, out));
  if (start[3] < 1 || start[3] > OL_MAX_DIMS)
    return ol_fail(error, OL_FILE, "%s: 1 to %d dimensions expected, got %d", gzip->path,
                   OL_MAX_DIMS, start[3]);
  shape->ndim = start[3];
  for (int d = 0; d < shape->ndim; d++) {
    OL_TRY(ol_gzip_exactly(error, gzip, size, sizeof size));
    shape->size[d] = (int64_t)big_endian(size, sizeof size);
  }
  return OL_OK;
}

/* Fails before memory is taken for elements that the file cannot hold. */
static ol_status check_length(ol_error *error, const ol_gzip *gzip, const form *f,
                              const ol_shape *shape) {
  int64_t numel;
  char text[OL_SHAPE_TEXT];
  ol_status status = ol_shape_count(error, shape, sizeof(double), &numel);
  if (status != OL_OK) return ol_fail_in(error, gzip->path);
  int64_t wanted = numel * (int64_t)f->size, held = gzip->most - 4 * (1 + shape->ndim);
  if (wanted <= held) return OL_OK;
  return ol_fail(error, OL_FILE, "%s: the file is too short for elements of shape %s", gzip->path,
                 ol_shape_text(shape, text));
}

/* One element, from its bytes in the file to its place in the tensor; `to` may lie on `from`. */
static void convert(const form *f, const uint8_t *from, uint8_t *to) {
  uint64_t bits = big_endian(from, f->size);
  if (f->dtype == OL_I64) {
    unsigned unused = (unsigned)(64 - 8 * f->size);
    bits = (uint64_t)((int64_t)(bits << unused) >> unused);
  }
  uint32_t half = (uint32_t)bits;
  if (f->dtype == OL_F32)
    memcpy(to, &half, sizeof half);
  else
    memcpy(to, &bits, sizeof bits);
}

/* Elements lie at the end of the tensor's memory first; each is read before the place of a later
 * one is written. */
static ol_status read_elements(ol_error *error, ol_gzip *gzip, const form *f, ol_tensor *tensor) {
  size_t full = ol_dtype_size(f->dtype), count = (size_t)tensor->numel;
  uint8_t *data = ol_tensor_data(tensor), *packed = data + (full - f->size) * count, after;
  size_t got;
  OL_TRY(ol_gzip_exactly(error, gzip, packed, f->size * count));
  OL_TRY(ol_gzip_next(error, gzip, &after, 1, &got));
  if (got != 0) return ol_fail(error, OL_FILE, "%s: something follows the elements", gzip->path);
  if (f->dtype != OL_U8)
    for (size_t i = 0; i < count; i++) convert(f, packed + f->size * i, data + full * i);
  return OL_OK;
}

static ol_status read_array(ol_error *error, ol_gzip *gzip, ol_tensor **out) {
  const form *f = NULL;
  ol_shape shape;
  ol_tensor *tensor;
  OL_TRY(read_header(error, gzip, &f, &shape));
  OL_TRY(check_length(error, gzip, f, &shape));
  OL_TRY(ol_tensor_new(error, f->dtype, &shape, &tensor));
  ol_status status = read_elements(error, gzip, f, tensor);
  if (status == OL_OK)
    *out = tensor;
  else
    ol_release(tensor);
  return status;
}

ol_status ol_idx_read(ol_error *error, const char *path, ol_tensor **out) {
  ol_gzip gzip;
  OL_TRY(ol_gzip_open(error, path, &gzip));
  ol_status status = read_array(error, &gzip, out);
  ol_gzip_close(&gzip);
  return status;
}
