/* registry: all ops, by family. */
#ifndef OL_OPS_REGISTRY_H
#define OL_OPS_REGISTRY_H

#include "autograd/op.h"

/* The ops of one file. */
typedef struct ol_family {
  const char *name; /* "unary", as the file */
  const char *doc;  /* a heading for the documentation */
  const ol_op *ops; /* ends with a name of NULL */
} ol_family;

/* Every family; ends with NULL. */
extern const ol_family *const ol_families[];

/* Finds an op by name, or NULL. */
const ol_op *ol_op_find(const char *name);

#endif
