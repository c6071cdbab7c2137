/* storage: makes, moves and destroys bytes. */
#include "tensor/storage.h"

#include <string.h>

#include "base/memory.h"

#define INSIDE 1024 /* bytes of data up to which they are in one block with their storage */

/* Releases the memory that data points to, unless that is inside. */
static void drop_data(ol_storage *self) {
  if (self->home)
    ol_release(self->home);
  else if (self->data != self->inside)
    ol_free(self->data);
}

static void destroy(ol_object *object) {
  ol_storage *self = (ol_storage *)object;
  drop_data(self);
  ol_free(self);
}

/* Allocates a storage and its data. */
static ol_storage *make(size_t size, bool zero) {
  bool inside = size <= INSIDE;
  ol_storage *self = ol_alloc(sizeof *self + (inside ? size : 0));
  void *data = !self ? NULL : inside ? self->inside : zero ? ol_alloc_zero(size) : ol_alloc(size);
  if (!data) {
    ol_free(self);
    return NULL;
  }
  if (inside && zero) memset(data, 0, size);
  *self = (ol_storage){ .data = data, .size = size };
  return self;
}

ol_status ol_storage_new(ol_error *error, size_t size, bool zero, ol_storage **out) {
  ol_storage *self = make(size, zero);
  if (!self) return ol_fail(error, OL_MEMORY, "out of memory: %zu bytes for a tensor", size);
  ol_object_init(&self->object, destroy);
  *out = self;
  return OL_OK;
}

uint64_t ol_storage_moves;

void ol_storage_move(ol_storage *storage, ol_storage *home, size_t offset) {
  void *target = (char *)home->data + offset;
  memcpy(target, storage->data, storage->size);
  (void)ol_retain(home); /* it may be the old one */
  drop_data(storage);
  storage->home = home;
  storage->data = target;
  ol_storage_moves++;
}
