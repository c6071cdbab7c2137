/* utf8: decodes UTF-8. */
#include "io/utf8.h"

#include <string.h>

/* The bytes of the character at `at`, of which `left` are there, and its code point; 0: none. */
static size_t decode(const uint8_t *at, size_t left, int64_t *code) {
  static const int64_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
  uint8_t lead = *at;
  size_t length = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || length > left || lead > 0xf4) return 0;
  *code = length == 1 ? lead : lead & (0x7f >> length);
  for (size_t i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (at[i] & 0x3f);
  }
  bool surrogate = *code >= 0xd800 && *code < 0xe000;
  return *code < least[length] || surrogate || *code > 0x10ffff ? 0 : length;
}

static ol_status malformed(ol_error *error, const uint8_t *text, size_t at) {
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < at; i++)
    if (text[i] == '\n') {
      line++;
      begin = i + 1;
    }
  return ol_fail(error, OL_FILE, "line %zu, byte %zu: 0x%02x begins no character of UTF-8", line,
                 at - begin + 1, text[at]);
}

/* Counts the characters, all of which are well formed then. */
static ol_status count(ol_error *error, const uint8_t *text, size_t size, int64_t *out) {
  int64_t characters = 0, code;
  for (size_t at = 0; at < size; characters++) {
    size_t length = decode(text + at, size - at, &code);
    if (length == 0) return malformed(error, text, at);
    at += length;
  }
  *out = characters;
  return OL_OK;
}

bool ol_is_utf8(const char *text, size_t size) {
  int64_t code;
  size_t at = 0, length = 1;
  for (; at < size && length > 0; at += length)
    length = decode((const uint8_t *)text + at, size - at, &code);
  return length > 0;
}

ol_status ol_utf8_decode(ol_error *error, const char *text, size_t size, ol_tensor **out) {
  const uint8_t *bytes = (const uint8_t *)text;
  ol_shape shape = { .ndim = 1 };
  OL_TRY(count(error, bytes, size, &shape.size[0]));
  OL_TRY(ol_tensor_new(error, OL_I64, &shape, out));
  int64_t *codes = ol_tensor_data(*out);
  for (size_t at = 0; at < size; codes++) at += decode(bytes + at, size - at, codes);
  return OL_OK;
}

ol_status ol_bytes_tensor(ol_error *error, const char *bytes, size_t size, ol_tensor **out) {
  ol_shape shape = { .ndim = 1, .size = { (int64_t)size } };
  OL_TRY(ol_tensor_new(error, OL_U8, &shape, out));
  if (size > 0) memcpy(ol_tensor_data(*out), bytes, size);
  return OL_OK;
}
