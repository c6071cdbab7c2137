/* image: from pixels to planes. */
#include "io/image.h"

#include "base/memory.h"
#include "io/gzip.h"
#include "io/jpeg.h"
#include "io/png.h"

#define ENCODED 8          /* bytes that a pixel may take in a file: 16 bits of RGB and alpha */
#define BESIDES (64 << 20) /* bytes of what a file may hold besides: profiles, texts, marks */

ol_status ol_pixels_check(ol_error *error, uint64_t width, uint64_t height, int64_t max_pixels) {
  uint64_t count;
  if (!__builtin_mul_overflow(width, height, &count) && count <= (uint64_t)max_pixels) return OL_OK;
  return ol_fail(error, OL_FILE, "%llu x %llu pixels are more than max_pixels = %lld",
                 (unsigned long long)width, (unsigned long long)height, (long long)max_pixels);
}

ol_status ol_pixels_new(ol_error *error, uint64_t width, uint64_t height, size_t channels,
                        int64_t max_pixels, ol_pixels *out) {
  void *data;
  OL_TRY(ol_pixels_check(error, width, height, max_pixels));
  OL_TRY(ol_alloc_for(error, width * height * channels, "an image", &data));
  *out = (ol_pixels){ .data = data, .width = width, .height = height, .channels = channels };
  return OL_OK;
}

static uint8_t luma(const uint8_t *rgb) {
  return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000) >> 16);
}

/* Writes one channel of the result: (height, width). */
static void fill_plane(const ol_pixels *pixels, ol_image_mode mode, size_t channel,
                       uint8_t *plane) {
  size_t count = pixels->width * pixels->height, step = pixels->channels;
  bool coloured = step >= 3;
  const uint8_t *from = pixels->data;
  if (mode == OL_IMAGE_GRAY && coloured) {
    for (size_t i = 0; i < count; i++) plane[i] = luma(from + i * step);
    return;
  }
  if (mode != OL_IMAGE_UNCHANGED && !coloured) channel = 0;
  for (size_t i = 0; i < count; i++) plane[i] = from[i * step + channel];
}

static ol_status to_tensor(ol_error *error, const ol_pixels *pixels, ol_image_mode mode,
                           ol_tensor **out) {
  size_t channels = mode == OL_IMAGE_RGB ? 3 : mode == OL_IMAGE_GRAY ? 1 : pixels->channels;
  ol_shape shape = {
    .ndim = 3, .size = { (int64_t)channels, (int64_t)pixels->height, (int64_t)pixels->width }
  };
  OL_TRY(ol_tensor_new(error, OL_U8, &shape, out));
  uint8_t *data = ol_tensor_data(*out);
  for (size_t c = 0; c < channels; c++)
    fill_plane(pixels, mode, c, data + c * pixels->width * pixels->height);
  return OL_OK;
}

static ol_status decode(ol_error *error, const uint8_t *bytes, size_t size, int64_t max_pixels,
                        ol_pixels *out) {
  static const uint8_t png[] = { 0x89, 'P', 'N', 'G' }, jpeg[] = { 0xff, 0xd8, 0xff };
  if (size >= sizeof png && memcmp(bytes, png, sizeof png) == 0)
    return ol_png_decode(error, bytes, size, max_pixels, out);
  if (size >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
    return ol_jpeg_decode(error, bytes, size, max_pixels, out);
  return ol_fail(error, OL_FILE, "it is neither PNG nor JPEG");
}

/* Reads a file's bytes. Images are compressed by themselves; one that is gzipped besides could grow
 * without a limit. */
static ol_status read_bytes(ol_error *error, const char *path, int64_t max_pixels, char **bytes,
                            size_t *size) {
  ol_gzip gzip = { 0 };
  int64_t limit;
  if (__builtin_mul_overflow(max_pixels, ENCODED, &limit) || limit > INT64_MAX - BESIDES)
    limit = INT64_MAX - BESIDES;
  OL_TRY(ol_gzip_open(error, path, &gzip));
  ol_status status =
      gzip.plain ? ol_gzip_rest(error, &gzip, limit + BESIDES, bytes, size)
                 : ol_fail(error, OL_FILE, "%s: it is neither PNG nor JPEG, but gzipped", path);
  ol_gzip_close(&gzip);
  return status;
}

ol_status ol_image_read(ol_error *error, const char *path, ol_image_mode mode, int64_t max_pixels,
                        ol_tensor **out) {
  char *bytes;
  size_t size;
  ol_pixels pixels = { 0 };
  OL_TRY(read_bytes(error, path, max_pixels, &bytes, &size));
  ol_status status = decode(error, (const uint8_t *)bytes, size, max_pixels, &pixels);
  ol_free(bytes);
  if (status == OL_OK) status = to_tensor(error, &pixels, mode, out);
  ol_free(pixels.data);
  return status == OL_OK ? OL_OK : ol_fail_in(error, path);
}
