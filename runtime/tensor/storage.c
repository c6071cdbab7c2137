/* storage: makes, moves and destroys bytes. */
#include "tensor/storage.h"

#include <string.h>

#include "base/memory.h"

static void destroy(ol_object *object) {
  ol_storage *self = (ol_storage *)object;
  if (self->home)
    ol_release(self->home);
  else
    ol_free(self->data);
  ol_free(self);
}

ol_status ol_storage_new(ol_error *error, size_t size, bool zero, ol_storage **out) {
  ol_storage *self = ol_alloc(sizeof *self);
  void *data = self ? (zero ? ol_alloc_zero(size) : ol_alloc(size)) : NULL;
  if (!data) {
    ol_free(self);
    return ol_fail(error, OL_MEMORY, "out of memory: %zu bytes for a tensor", size);
  }
  *self = (ol_storage){ .data = data, .size = size };
  ol_object_init(&self->object, destroy);
  *out = self;
  return OL_OK;
}

uint64_t ol_storage_moves;

void ol_storage_move(ol_storage *storage, ol_storage *home, size_t offset) {
  void *target = (char *)home->data + offset;
  memcpy(target, storage->data, storage->size);
  ol_storage *old = storage->home;
  if (!old) ol_free(storage->data);
  storage->home = ol_retain(home);
  storage->data = target;
  ol_storage_moves++;
  ol_release(old);
}
