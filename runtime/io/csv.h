/* csv: tables as text (RFC 4180), parsed by libcsv: cells, and columns of numbers made of them. */
#ifndef OL_IO_CSV_H
#define OL_IO_CSV_H

#include <stdbool.h>

#include "tensor/tensor.h"

typedef struct ol_csv_cell {
  size_t text;   /* where its text begins, in ol_csv.text */
  size_t source; /* where it stands in the file */
} ol_csv_cell;

typedef struct ol_csv {
  char *path, *source; /* the file's name and its bytes */
  size_t source_size;
  char quote;
  char *text; /* of each cell, without quotes and followed by a byte 0 */
  size_t text_size, text_room;
  ol_csv_cell *cell; /* row by row, and one more that says where the text ends */
  size_t cells, cell_room;
  size_t rows, columns;
} ol_csv;

/* Texts that stand for a value that is missing. In a column of texts a cell in quotes never does.
 */
typedef struct ol_csv_marks {
  const char *const *text;
  size_t count;
  bool of_texts;
} ol_csv_marks;

typedef enum ol_csv_kind { OL_CSV_INTEGER, OL_CSV_FLOAT, OL_CSV_TEXT } ol_csv_kind;

/* Reads a file, gzipped or plain. Lines of nothing are passed over; all others have the same number
 * of cells. Errors (OL_FILE) say "PATH:LINE:COLUMN: …", the column in bytes. */
ol_status ol_csv_read(ol_error *error, const char *path, char delimiter, char quote, ol_csv *out);

void ol_csv_drop(ol_csv *csv);

/* The text of a cell and its length; rows and columns count from 0. */
const char *ol_csv_text(const ol_csv *csv, size_t row, size_t column, size_t *length);

/* Where a cell stands in the file, both from 1. */
void ol_csv_place(const ol_csv *csv, size_t row, size_t column, size_t *line, size_t *byte);

/* The narrowest kind that holds all cells of a column, from a row on, that are not missing. Whole
 * numbers that int64, or among others float64, does not hold digit by digit are text. */
ol_csv_kind ol_csv_kind_of(const ol_csv *csv, size_t first, size_t column,
                           const ol_csv_marks *marks);

/* A uint8 tensor: which cells of a column, from a row on, are missing. */
ol_status ol_csv_missing(ol_error *error, const ol_csv *csv, size_t first, size_t column,
                         const ol_csv_marks *marks, ol_tensor **out);

/* The numbers in a column, from a row on: int64 or float64; 0 where one is missing. A cell that is
 * no such number fails (OL_FILE). */
ol_status ol_csv_numbers(ol_error *error, const ol_csv *csv, size_t first, size_t column,
                         ol_csv_kind kind, const ol_csv_marks *marks, ol_tensor **out);

#endif
