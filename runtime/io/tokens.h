/* tokens: files of token ids, of which only the parts that are asked for are read.
 *
 * Two forms: that of llm.c (llmc/dataloader.h: a header of 256 int32, of which the first three are
 * magic number, version and count; version 1 has ids of 16 bits, version 7, of Llama 3, 32), and
 * that of nanoGPT (data/.../prepare.py: ids of 16 bits and nothing else). Both are little-endian.
 */
#ifndef OL_IO_TOKENS_H
#define OL_IO_TOKENS_H

#include <stdbool.h>

#include "tensor/tensor.h"

typedef enum ol_tokens_format {
  OL_TOKENS_ANY, /* llm.c's where the file begins with one of its magic numbers */
  OL_TOKENS_LLMC,
  OL_TOKENS_NANOGPT
} ol_tokens_format;

typedef struct ol_tokens {
  bool open;
  int descriptor; /* of the open file */
  char *path;
  ol_tokens_format format;
  size_t width;   /* bytes of an id: 2 or 4 */
  int64_t offset; /* of the first id in the file, in bytes */
  int64_t count;
} ol_tokens;

/* Opens a file; width 0: that of the file's header, or 2. Errors (OL_FILE) name the path. */
ol_status ol_tokens_open(ol_error *error, const char *path, ol_tokens_format format, size_t width,
                         ol_tokens *out);

/* Reads runs of ids: starts (B), int64, from 0 -> int64 (B, length). */
ol_status ol_tokens_read(ol_error *error, const ol_tokens *tokens, const ol_tensor *starts,
                         int64_t length, ol_tensor **out);

void ol_tokens_close(ol_tokens *tokens);

#endif
