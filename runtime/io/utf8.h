/* utf8: text as numbers. */
#ifndef OL_IO_UTF8_H
#define OL_IO_UTF8_H

#include "tensor/tensor.h"

/* Makes an int64 tensor of the code points of a text. What is no UTF-8 (RFC 3629: no overlong
 * forms, no surrogates, nothing above U+10FFFF) fails (OL_FILE), with its line and column. */
ol_status ol_utf8_decode(ol_error *error, const char *text, size_t size, ol_tensor **out);

/* Whether a text is UTF-8. */
bool ol_is_utf8(const char *text, size_t size);

/* Makes a uint8 tensor of bytes. */
ol_status ol_bytes_tensor(ol_error *error, const char *bytes, size_t size, ol_tensor **out);

#endif
