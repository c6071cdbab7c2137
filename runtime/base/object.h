/* object: reference counts without recursion.
 *
 * Everything that is shared (storages, tensors, nodes of the tape) begins with an ol_object. The
 * graph of references is a DAG, so counts suffice. Dropping the last reference destroys an object;
 * what it releases in turn is queued and destroyed by the same loop, so that a chain of a million
 * nodes needs no stack. Objects belong to one thread. */
#ifndef OL_BASE_OBJECT_H
#define OL_BASE_OBJECT_H

#include <stdint.h>

typedef struct ol_object ol_object;

struct ol_object {
  int64_t references;
  void (*destroy)(ol_object *self); /* releases what self holds, then frees self */
  ol_object *next;                  /* in the queue of the dead */
};

/* Makes object live with one reference. */
static inline void ol_object_init(ol_object *object, void (*destroy)(ol_object *)) {
  *object = (ol_object){ .references = 1, .destroy = destroy };
}

/* Drops one reference; NULL is allowed. */
void ol_object_release(ol_object *object);

/* Takes one more reference and returns the object. Works on any struct that begins with a member
 * `object` of type ol_object. */
#define ol_retain(pointer) ((pointer)->object.references++, (pointer))

/* Drops one reference of such a struct; NULL is allowed. */
#define ol_release(pointer) ol_object_release((pointer) ? &(pointer)->object : NULL)

#endif
