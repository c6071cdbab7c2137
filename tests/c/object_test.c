/* object: counts, the order of destruction, and chains longer than any stack. */
#include "base/object.h"

#include "base/memory.h"
#include "check.h"

/* A link of a chain: holds a reference to the next one. */
typedef struct link {
  ol_object object;
  struct link *next;
  int *destroyed;
} link;

static void destroy_link(ol_object *object) {
  link *self = (link *)object;
  ++*self->destroyed;
  ol_release(self->next);
  ol_free(self);
}

/* Takes over the reference to next. */
static link *new_link(link *next, int *destroyed) {
  link *self = ol_alloc(sizeof *self);
  ol_object_init(&self->object, destroy_link);
  self->next = next;
  self->destroyed = destroyed;
  return self;
}

static void counts_references(void) {
  int destroyed = 0;
  link *object = new_link(NULL, &destroyed);
  CHECK_EQUAL(object->object.references, 1);
  CHECK(ol_retain(object) == object);
  ol_release(object);
  CHECK_EQUAL(destroyed, 0);
  ol_release(object);
  CHECK_EQUAL(destroyed, 1);
}

static void null_is_allowed(void) {
  ol_object_release(NULL);
  ol_release((link *)NULL);
  CHECK(true);
}

static void long_chains_need_no_stack(void) {
  enum { LENGTH = 1000000 };
  int destroyed = 0;
  link *chain = NULL;
  for (int i = 0; i < LENGTH; i++) chain = new_link(chain, &destroyed);
  ol_release(chain);
  CHECK_EQUAL(destroyed, LENGTH);
}

static void shared_parts_survive(void) {
  int shared_gone = 0, owners_gone = 0;
  link *shared = new_link(NULL, &shared_gone);
  link *one = new_link(ol_retain(shared), &owners_gone);
  link *two = new_link(shared, &owners_gone);
  ol_release(one);
  CHECK_EQUAL(owners_gone, 1);
  CHECK_EQUAL(shared_gone, 0);
  ol_release(two);
  CHECK_EQUAL(shared_gone, 1);
}

int main(void) {
  int64_t before = ol_memory_read().live_blocks;
  counts_references();
  null_is_allowed();
  long_chains_need_no_stack();
  shared_parts_survive();
  CHECK_EQUAL(ol_memory_read().live_blocks, before);
  return check_summary();
}
