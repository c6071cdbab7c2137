/* jpeg: libjpeg leaves through longjmp; whatever is held stands in a struct outside its reach. */
#include "io/jpeg.h"

#include <stdio.h> /* before jpeglib.h, which needs it */

#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>

#include "base/memory.h"

#define MAX_SCANS 500 /* of a progressive file; more only cost time (libjpeg-turbo's advice) */

typedef struct work {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf leave;
  ol_error *error;
  ol_status status;
  const uint8_t *bytes;
  size_t size;
  int64_t max_pixels;
  ol_pixels pixels;
} work;

/* ---- callbacks ---- */

static void fail(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  work *w = jpeg->client_data;
  jpeg->err->format_message(jpeg, message);
  bool memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
  w->status = ol_fail(w->error, memory ? OL_MEMORY : OL_FILE, "JPEG: %s", message);
  longjmp(w->leave, 1);
}

/* Warnings have level -1. Those that leave the pixels what they are pass. */
static void on_message(j_common_ptr jpeg, int level) {
  int code = jpeg->err->msg_code;
  bool harmless =
      code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
  if (level < 0 && !harmless) fail(jpeg);
}

static void on_output(j_common_ptr jpeg) { (void)jpeg; }

static void on_progress(j_common_ptr jpeg) {
  work *w = jpeg->client_data;
  if (w->jpeg.input_scan_number <= MAX_SCANS) return;
  w->status = ol_fail(w->error, OL_FILE, "JPEG: more than %d scans", MAX_SCANS);
  longjmp(w->leave, 1);
}

/* ---- reading ---- */

/* Four inks to three lights; Adobe's files hold the inks inverted. */
static void from_inks(const uint8_t *inks, size_t width, bool inverted, uint8_t *rgb) {
  uint8_t flip = inverted ? 0 : 255;
  for (size_t x = 0; x < width; x++)
    for (size_t c = 0; c < 3; c++) {
      unsigned light = (inks[4 * x + c] ^ flip) * (unsigned)(inks[4 * x + 3] ^ flip);
      rgb[3 * x + c] = (uint8_t)((light + 127) / 255);
    }
}

static void read_rows(work *w, bool inks) {
  j_decompress_ptr jpeg = &w->jpeg;
  size_t width = w->pixels.width, step = width * w->pixels.channels;
  JSAMPARRAY line = NULL; /* libjpeg's own memory */
  if (inks)
    line = jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, (JDIMENSION)(4 * width), 1);
  while (jpeg->output_scanline < jpeg->output_height) {
    uint8_t *row = w->pixels.data + jpeg->output_scanline * step;
    JSAMPROW target = inks ? line[0] : row;
    jpeg_read_scanlines(jpeg, &target, 1);
    if (inks) from_inks(line[0], width, jpeg->saw_Adobe_marker, row);
  }
}

static void read_image(work *w) {
  j_decompress_ptr jpeg = &w->jpeg;
  jpeg_create_decompress(jpeg);
  w->progress.progress_monitor = on_progress;
  jpeg->progress = &w->progress;
  jpeg_mem_src(jpeg, w->bytes, w->size);
  jpeg_read_header(jpeg, TRUE);
  bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  bool grey = jpeg->jpeg_color_space == JCS_GRAYSCALE;
  jpeg->out_color_space = inks ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  w->status = ol_pixels_new(w->error, jpeg->image_width, jpeg->image_height, grey ? 1 : 3,
                            w->max_pixels, &w->pixels);
  if (w->status != OL_OK) return;
  jpeg_start_decompress(jpeg);
  read_rows(w, inks);
  jpeg_finish_decompress(jpeg);
}

/* Runs a part that may leave through longjmp. */
static void run(work *w, void (*part)(work *)) {
  if (setjmp(w->leave) == 0) part(w);
}

ol_status ol_jpeg_decode(ol_error *error, const uint8_t *bytes, size_t size, int64_t max_pixels,
                         ol_pixels *out) {
  work w = { .error = error, .bytes = bytes, .size = size, .max_pixels = max_pixels };
  w.jpeg.client_data = &w;
  w.jpeg.err = jpeg_std_error(&w.errors);
  w.errors.error_exit = fail;
  w.errors.emit_message = on_message;
  w.errors.output_message = on_output;
  run(&w, read_image);
  jpeg_destroy_decompress(&w.jpeg);
  if (w.status == OL_OK)
    *out = w.pixels;
  else
    ol_free(w.pixels.data);
  return w.status;
}
