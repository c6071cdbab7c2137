/* png: libpng leaves through longjmp; whatever is held stands in a struct outside its reach. */
#include "io/png.h"

#include <png.h>
#include <setjmp.h>

#include "base/memory.h"
#include "io/file.h"

/* What libpng's callbacks see. */
typedef struct work {
  ol_error *error;
  ol_status status;
  png_structp png;
  png_infop info;
  uint8_t *rows; /* to be released */

  const uint8_t *bytes; /* of reading */
  size_t size, at;
  int64_t max_pixels;
  ol_pixels pixels;

  ol_file file; /* of writing */
  const ol_tensor *image;
} work;

/* ---- callbacks ---- */

static void on_error(png_structp png, png_const_charp message) {
  work *w = png_get_error_ptr(png);
  if (w->status == OL_OK) w->status = ol_fail(w->error, OL_FILE, "PNG: %s", message);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
  (void)png;
  (void)message;
}

static png_voidp take(png_structp png, png_alloc_size_t size) {
  work *w = png_get_mem_ptr(png);
  void *block = ol_alloc(size);
  if (!block && w->status == OL_OK)
    w->status = ol_fail(w->error, OL_MEMORY, "out of memory: %zu bytes for a PNG image", size);
  return block;
}

static void release(png_structp png, png_voidp block) {
  (void)png;
  ol_free(block);
}

/* Leaves libpng when one of our own functions failed. */
static void check(work *w, ol_status status) {
  w->status = status;
  if (status != OL_OK) png_longjmp(w->png, 1);
}

/* ---- reading ---- */

static void read_bytes(png_structp png, png_bytep out, size_t size) {
  work *w = png_get_io_ptr(png);
  if (size > w->size - w->at) png_error(png, "the file is too short");
  memcpy(out, w->bytes + w->at, size);
  w->at += size;
}

/* Lets rows come as 8 bits a channel, without palettes. */
static void set_form(work *w) {
  png_set_expand(w->png);
  png_set_scale_16(w->png);
  (void)png_set_interlace_handling(w->png);
  png_read_update_info(w->png, w->info);
}

static void read_rows(work *w) {
  const ol_pixels *pixels = &w->pixels;
  size_t width = pixels->width * pixels->channels;
  int passes = png_get_interlace_type(w->png, w->info) == PNG_INTERLACE_NONE ? 1 : 7;
  for (int pass = 0; pass < passes; pass++)
    for (size_t row = 0; row < pixels->height; row++)
      png_read_row(w->png, pixels->data + row * width, NULL);
}

static void read_image(work *w) {
  png_set_read_fn(w->png, w, read_bytes);
  png_set_user_limits(w->png, 0x7fffffff, 0x7fffffff); /* ours is the product */
  png_read_info(w->png, w->info);
  uint64_t width = png_get_image_width(w->png, w->info);
  uint64_t height = png_get_image_height(w->png, w->info);
  check(w, ol_pixels_check(w->error, width, height, w->max_pixels)); /* before libpng takes a row */
  set_form(w);
  size_t channels = png_get_channels(w->png, w->info);
  check(w, ol_pixels_new(w->error, width, height, channels, w->max_pixels, &w->pixels));
  if (png_get_rowbytes(w->png, w->info) != width * channels) png_error(w->png, "odd rows");
  read_rows(w);
  png_read_end(w->png, NULL);
}

/* Runs a part that may leave through longjmp. */
static void run(work *w, void (*part)(work *)) {
  if (setjmp(png_jmpbuf(w->png)) == 0) part(w);
}

static ol_status out_of_memory(work *w) {
  if (w->status != OL_OK) return w->status;
  return ol_fail(w->error, OL_MEMORY, "out of memory: a PNG image");
}

ol_status ol_png_decode(ol_error *error, const uint8_t *bytes, size_t size, int64_t max_pixels,
                        ol_pixels *out) {
  work w = { .error = error, .bytes = bytes, .size = size, .max_pixels = max_pixels };
  w.png =
      png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &w, on_error, on_warning, &w, take, release);
  w.info = w.png ? png_create_info_struct(w.png) : NULL;
  if (w.info)
    run(&w, read_image);
  else
    w.status = out_of_memory(&w);
  png_destroy_read_struct(&w.png, &w.info, NULL);
  if (w.status == OL_OK)
    *out = w.pixels;
  else
    ol_free(w.pixels.data);
  return w.status;
}

/* ---- writing ---- */

static void write_bytes(png_structp png, png_bytep bytes, size_t size) {
  work *w = png_get_io_ptr(png);
  check(w, ol_file_write(w->error, &w->file, bytes, size));
}

static void flush(png_structp png) { (void)png; }

/* One row of (C, H, W) as pixels. */
static void gather_row(const ol_tensor *image, size_t row, uint8_t *out) {
  bool flat = image->shape.ndim == 2;
  size_t channels = flat ? 1 : (size_t)image->shape.size[0];
  size_t height = (size_t)image->shape.size[!flat], width = (size_t)image->shape.size[1 + !flat];
  const uint8_t *data = ol_tensor_data(image);
  for (size_t c = 0; c < channels; c++)
    for (size_t x = 0; x < width; x++) out[x * channels + c] = data[(c * height + row) * width + x];
}

static void write_image(work *w) {
  static const int types[] = { 0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                               PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA };
  const ol_tensor *image = w->image;
  bool flat = image->shape.ndim == 2;
  uint32_t height = (uint32_t)image->shape.size[!flat],
           width = (uint32_t)image->shape.size[1 + !flat];
  int64_t channels = flat ? 1 : image->shape.size[0];
  png_set_user_limits(w->png, 0x7fffffff, 0x7fffffff);
  png_set_write_fn(w->png, w, write_bytes, flush);
  png_set_IHDR(w->png, w->info, width, height, 8, types[channels], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(w->png, w->info);
  w->rows = png_malloc(w->png, (size_t)width * (size_t)channels);
  for (size_t row = 0; row < height; row++) {
    gather_row(image, row, w->rows);
    png_write_row(w->png, w->rows);
  }
  png_write_end(w->png, NULL);
}

static ol_status check_image(ol_error *error, const ol_tensor *image) {
  char text[OL_SHAPE_TEXT];
  const ol_shape *shape = &image->shape;
  bool fits = shape->ndim == 2 || (shape->ndim == 3 && shape->size[0] >= 1 && shape->size[0] <= 4);
  for (int d = 0; fits && d < shape->ndim; d++)
    fits = shape->size[d] > 0 && shape->size[d] < 1 << 30;
  if (!fits)
    return ol_fail(error, OL_SHAPE,
                   "an image (H, W) or (C, H, W) of 1 to 4 channels expected, got "
                   "shape %s",
                   ol_shape_text(shape, text));
  if (image->dtype != OL_U8)
    return ol_fail(error, OL_DTYPE, "an image of uint8 expected, got %s",
                   ol_dtype_name(image->dtype));
  return OL_OK;
}

static ol_status encode(work *w) {
  w->png =
      png_create_write_struct_2(PNG_LIBPNG_VER_STRING, w, on_error, on_warning, w, take, release);
  w->info = w->png ? png_create_info_struct(w->png) : NULL;
  if (w->info)
    run(w, write_image);
  else
    w->status = out_of_memory(w);
  ol_free(w->rows);
  png_destroy_write_struct(&w->png, &w->info);
  return w->status;
}

static ol_status write_file(ol_error *error, const char *path, const ol_tensor *image) {
  work w = { .error = error, .image = image };
  OL_TRY(ol_file_begin(error, path, &w.file));
  if (encode(&w) == OL_OK) return ol_file_commit(error, &w.file);
  ol_file_abandon(&w.file);
  return w.status;
}

ol_status ol_png_write(ol_error *error, const char *path, ol_tensor *image) {
  ol_tensor *dense;
  if (check_image(error, image) != OL_OK) return ol_fail_in(error, path);
  OL_TRY(ol_tensor_contiguous(error, image, &dense));
  ol_status status = write_file(error, path, dense);
  ol_release(dense);
  return status;
}
