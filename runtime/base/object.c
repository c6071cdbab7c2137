/* object: the loop that destroys. */
#include "base/object.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/local.h"

OL_THREAD_LOCAL ol_object *dead; /* objects without references, not yet destroyed */
OL_THREAD_LOCAL bool sweeping;

static void sweep(void) {
  sweeping = true;
  while (dead) {
    ol_object *object = dead;
    dead = object->next;
    object->destroy(object);
  }
  sweeping = false;
}

void ol_object_release(ol_object *object) {
  if (!object || --object->references > 0) return;
  object->next = dead;
  dead = object;
  if (!sweeping) sweep();
}
