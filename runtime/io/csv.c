/* csv: libcsv takes the text byte by byte, so that each cell's place is known. */
#include "io/csv.h"

#include <csv.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/gzip.h"

/* ---- memory ---- */

/* realloc for libcsv; the size stands in front of the block. */
static void *resize(void *block, size_t size) {
  size_t *old = block ? (size_t *)block - 1 : NULL, *fresh = ol_alloc(size + sizeof *fresh);
  if (!fresh) return NULL;
  *fresh = size;
  if (old) memcpy(fresh + 1, block, *old < size ? *old : size);
  ol_free(old);
  return fresh + 1;
}

static void release(void *block) { ol_free(block ? (size_t *)block - 1 : NULL); }

void ol_csv_drop(ol_csv *csv) {
  ol_free(csv->path);
  ol_free(csv->source);
  ol_free(csv->text);
  ol_free(csv->cell);
  *csv = (ol_csv){ 0 };
}

/* ---- places ---- */

static bool is_newline(const ol_csv *csv, size_t at) {
  return at < csv->source_size && csv->source[at] == '\n';
}

static void place_of(const ol_csv *csv, size_t at, size_t *line, size_t *byte) {
  size_t begin = 0;
  *line = 1;
  for (size_t i = 0; i < at && i < csv->source_size; i++)
    if (csv->source[i] == '\n' || (csv->source[i] == '\r' && !is_newline(csv, i + 1))) {
      ++*line;
      begin = i + 1;
    }
  *byte = at - begin + 1;
}

static ol_status fail(ol_error *error, const ol_csv *csv, size_t at, const char *what) {
  size_t line, byte;
  place_of(csv, at, &line, &byte);
  return ol_fail(error, OL_FILE, "%s:%zu:%zu: %s", csv->path, line, byte, what);
}

void ol_csv_place(const ol_csv *csv, size_t row, size_t column, size_t *line, size_t *byte) {
  place_of(csv, csv->cell[row * csv->columns + column].source, line, byte);
}

const char *ol_csv_text(const ol_csv *csv, size_t row, size_t column, size_t *length) {
  const ol_csv_cell *cell = &csv->cell[row * csv->columns + column];
  *length = cell[1].text - cell->text - 1;
  return csv->text + cell->text;
}

/* ---- parsing ---- */

/* What the callbacks of libcsv see. */
typedef struct reading {
  ol_csv *csv;
  ol_error *error;
  ol_status status;
  size_t begin; /* where the cell that is read begins */
  size_t width; /* cells in this row so far */
} reading;

static ol_status add_cell(reading *r, const char *text, size_t length) {
  ol_csv *csv = r->csv;
  OL_TRY(OL_GROW(r->error, &csv->text, csv->text_size, length + 1, &csv->text_room, "a table"));
  OL_TRY(OL_GROW(r->error, &csv->cell, csv->cells, 2, &csv->cell_room, "a table"));
  csv->cell[csv->cells++] = (ol_csv_cell){ .text = csv->text_size, .source = r->begin };
  if (length) memcpy(csv->text + csv->text_size, text, length);
  csv->text_size += length;
  csv->text[csv->text_size++] = '\0';
  csv->cell[csv->cells].text = csv->text_size;
  r->width++;
  return OL_OK;
}

static ol_status end_row(reading *r) {
  ol_csv *csv = r->csv;
  char text[96];
  if (csv->rows == 0) csv->columns = r->width;
  if (r->width != csv->columns) {
    snprintf(text, sizeof text, "the line has %zu cells, the first one has %zu", r->width,
             csv->columns);
    return fail(r->error, csv, csv->cell[csv->cells - r->width].source, text);
  }
  csv->rows++;
  r->width = 0;
  return OL_OK;
}

static void on_cell(void *text, size_t length, void *context) {
  reading *r = context;
  if (r->status == OL_OK) r->status = add_cell(r, text, length);
}

static void on_row(int end, void *context) {
  reading *r = context;
  (void)end;
  if (r->status == OL_OK) r->status = end_row(r);
}

/* Whether a byte in front of a cell does not belong to it. */
static bool is_between(const ol_csv *csv, size_t at) {
  return strchr(" \t\r\n", csv->source[at]) && csv->source[at] != '\0';
}

static ol_status complain(reading *r, struct csv_parser *parser, size_t at, const char *what) {
  if (r->status != OL_OK) return r->status;
  if (csv_error(parser) == CSV_EPARSE) return fail(r->error, r->csv, at, what);
  return ol_fail(r->error, OL_MEMORY, "out of memory: a cell of a table");
}

static ol_status parse(reading *r, struct csv_parser *parser, char delimiter) {
  ol_csv *csv = r->csv;
  size_t cells = 0, at = 0;
  if (csv->source_size >= 3 && memcmp(csv->source, "\xef\xbb\xbf", 3) == 0) at = 3; /* a mark */
  bool inside = false; /* whether the cell at hand has begun */
  for (; at < csv->source_size; at++) {
    if (!inside) r->begin = at;
    inside = inside || !is_between(csv, at) || csv->source[at] == delimiter;
    if (csv_parse(parser, csv->source + at, 1, on_cell, on_row, r) != 1 || r->status != OL_OK)
      return complain(r, parser, at, "a quote or something behind one where it must not be");
    if (csv->cells != cells) inside = false;
    cells = csv->cells;
  }
  if (!inside) r->begin = at;
  if (csv_fini(parser, on_cell, on_row, r) != 0 || r->status != OL_OK)
    return complain(r, parser, r->begin, "a cell in quotes does not end");
  return OL_OK;
}

static ol_status parse_all(ol_error *error, ol_csv *csv, char delimiter) {
  struct csv_parser parser;
  reading r = { .csv = csv, .error = error };
  csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
  csv_set_delim(&parser, (unsigned char)delimiter);
  csv_set_quote(&parser, (unsigned char)csv->quote);
  csv_set_realloc_func(&parser, resize);
  csv_set_free_func(&parser, release);
  ol_status status = parse(&r, &parser, delimiter);
  csv_free(&parser);
  return status;
}

static ol_status copy_path(ol_error *error, const char *path, ol_csv *csv) {
  size_t size = strlen(path) + 1;
  void *copy;
  OL_TRY(ol_alloc_for(error, size, "a path", &copy));
  csv->path = memcpy(copy, path, size);
  return OL_OK;
}

ol_status ol_csv_read(ol_error *error, const char *path, char delimiter, char quote, ol_csv *out) {
  ol_csv csv = { .quote = quote };
  ol_status status = copy_path(error, path, &csv);
  if (status == OL_OK) status = ol_gzip_read(error, path, &csv.source, &csv.source_size);
  if (status == OL_OK) status = parse_all(error, &csv, delimiter);
  if (status == OL_OK)
    *out = csv;
  else
    ol_csv_drop(&csv);
  return status;
}
