/* csv_column: columns of numbers, and what is missing in them. */
#define _GNU_SOURCE /* strtod_l */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"

static bool is_missing(const ol_csv *csv, size_t row, size_t column, const ol_csv_marks *marks) {
  size_t length;
  const char *text = ol_csv_text(csv, row, column, &length);
  size_t source = csv->cell[row * csv->columns + column].source;
  bool quoted = source < csv->source_size && csv->source[source] == csv->quote;
  if (marks->of_texts && quoted) return false;
  for (size_t i = 0; i < marks->count; i++)
    if (strcmp(text, marks->text[i]) == 0 && strlen(text) == length) return true;
  return false;
}

static const char *skip_digits(const char *text) {
  while (*text >= '0' && *text <= '9') text++;
  return text;
}

/* Whether a text is a whole number in digits, and which; *fits tells whether int64 holds it. */
static bool to_integer(const char *text, size_t length, int64_t *out, bool *fits) {
  const char *digits = text + (*text == '-' || *text == '+');
  if (skip_digits(digits) != text + length || *digits == '\0') return false;
  errno = 0;
  *out = strtoll(text, NULL, 10);
  *fits = errno == 0;
  return true;
}

/* Whether a text is a decimal number, and which; whatever the locale, with a point. */
static bool to_float(const char *text, size_t length, locale_t plain, double *out, bool *fits) {
  const char *at = text + (*text == '-' || *text == '+'), *whole = at;
  at = skip_digits(at);
  size_t digits = (size_t)(at - whole);
  if (*at == '.') {
    const char *fraction = at + 1;
    at = skip_digits(fraction);
    digits += (size_t)(at - fraction);
  }
  if (digits > 0 && (*at == 'e' || *at == 'E')) {
    const char *power = at + 1 + (at[1] == '-' || at[1] == '+');
    at = skip_digits(power);
    if (at == power) return false;
  }
  if (digits == 0 || at != text + length) return false;
  *out = strtod_l(text, NULL, plain);
  *fits = isfinite(*out);
  return true;
}

/* Whether a float64 holds an integer; beyond 2^62 no digit is worth a closer look. */
static bool is_exact(int64_t whole) {
  return whole > -((int64_t)1 << 62) && whole < (int64_t)1 << 62 && (int64_t)(double)whole == whole;
}

ol_csv_kind ol_csv_kind_of(const ol_csv *csv, size_t first, size_t column,
                           const ol_csv_marks *marks) {
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* glibc has it: needs no memory */
  ol_csv_kind kind = OL_CSV_INTEGER;
  bool long_ones = false,
       huge_ones = false; /* integers that a float64, or an int64, does not hold */
  for (size_t row = first; row < csv->rows && kind != OL_CSV_TEXT; row++) {
    size_t length;
    int64_t whole;
    double value;
    bool fits;
    const char *text = ol_csv_text(csv, row, column, &length);
    if (is_missing(csv, row, column, marks)) continue;
    if (to_integer(text, length, &whole, &fits)) {
      huge_ones = huge_ones || !fits;
      long_ones = long_ones || !fits || !is_exact(whole);
      continue;
    }
    kind = to_float(text, length, plain, &value, &fits) ? OL_CSV_FLOAT : OL_CSV_TEXT;
  }
  freelocale(plain);
  return (kind == OL_CSV_INTEGER && huge_ones) || (kind == OL_CSV_FLOAT && long_ones) ? OL_CSV_TEXT
                                                                                      : kind;
}

static ol_status new_column(ol_error *error, const ol_csv *csv, size_t first, ol_dtype dtype,
                            ol_tensor **out) {
  ol_shape shape = { .ndim = 1, .size = { (int64_t)(csv->rows - first) } };
  return ol_tensor_zeros(error, dtype, &shape, out);
}

ol_status ol_csv_missing(ol_error *error, const ol_csv *csv, size_t first, size_t column,
                         const ol_csv_marks *marks, ol_tensor **out) {
  OL_TRY(new_column(error, csv, first, OL_U8, out));
  uint8_t *missing = ol_tensor_data(*out);
  for (size_t row = first; row < csv->rows; row++)
    missing[row - first] = is_missing(csv, row, column, marks);
  return OL_OK;
}

static ol_status refuse(ol_error *error, const ol_csv *csv, size_t row, size_t column,
                        const char *what) {
  size_t line, byte, length;
  const char *text = ol_csv_text(csv, row, column, &length);
  ol_csv_place(csv, row, column, &line, &byte);
  return ol_fail(error, OL_FILE, "%s:%zu:%zu: \"%.60s\" %s", csv->path, line, byte, text, what);
}

/* Fills in one row's number. */
static ol_status convert(ol_error *error, const ol_csv *csv, size_t row, size_t column,
                         locale_t plain, void *out, bool whole) {
  size_t length;
  bool fits = true;
  const char *text = ol_csv_text(csv, row, column, &length);
  bool is_number =
      whole ? to_integer(text, length, out, &fits) : to_float(text, length, plain, out, &fits);
  if (!is_number) return refuse(error, csv, row, column, whole ? "is no integer" : "is no number");
  return fits ? OL_OK : refuse(error, csv, row, column, "is too large");
}

ol_status ol_csv_numbers(ol_error *error, const ol_csv *csv, size_t first, size_t column,
                         ol_csv_kind kind, const ol_csv_marks *marks, ol_tensor **out) {
  ol_tensor *tensor;
  ol_status status = OL_OK;
  bool whole = kind == OL_CSV_INTEGER;
  OL_TRY(new_column(error, csv, first, whole ? OL_I64 : OL_F64, &tensor));
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  uint64_t *bits = ol_tensor_data(tensor); /* int64 or float64 */
  for (size_t row = first; row < csv->rows && status == OL_OK; row++)
    if (!is_missing(csv, row, column, marks))
      status = convert(error, csv, row, column, plain, bits + (row - first), whole);
  freelocale(plain);
  if (status == OL_OK)
    *out = tensor;
  else
    ol_release(tensor);
  return status;
}
