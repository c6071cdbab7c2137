/* registry: the list of families, and finding an op in it. */
#include "ops/registry.h"

#include <string.h>

#include "ops/families.h"

#define ENTRY(name) &ol_##name##_ops,
const ol_family *const ol_families[] = { OL_FAMILIES(ENTRY) NULL };

const ol_op *ol_op_find(const char *name) {
  for (const ol_family *const *family = ol_families; *family; family++)
    for (const ol_op *op = (*family)->ops; op->name; op++)
      if (strcmp(op->name, name) == 0) return op;
  return NULL;
}
