/* storage: reference-counted bytes that tensors look at. */
#ifndef OL_TENSOR_STORAGE_H
#define OL_TENSOR_STORAGE_H

#include "base/memory.h"
#include "base/object.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ol_storage ol_storage;

struct ol_storage {
  ol_object object;
  void *data;       /* aligned to OL_ALIGNMENT unless the storage lives in a home */
  size_t size;      /* bytes */
  uint64_t version; /* bumped by every write in place; the tape compares it */
  bool counted;     /* whether the binding has told Lua's collector of these bytes */
  ol_storage *home; /* the storage whose memory data points into, or NULL: data is its own */
  _Alignas(OL_ALIGNMENT) char inside[]; /* where data is when it is small */
};

/* Makes a storage of size bytes, zeroed or not. */
ol_status ol_storage_new(ol_error *error, size_t size, bool zero, ol_storage **out);

/* How many moves there were in this process: while it stays the same, addresses of elements do. */
extern uint64_t ol_storage_moves;

/* Moves a storage's bytes into `home` at byte offset: its data now points there, every tensor that
 * looks at it follows, and its own memory is released, what is inside with the storage. Cannot
 * fail. The range must be free. */
void ol_storage_move(ol_storage *storage, ol_storage *home, size_t offset);

#endif
