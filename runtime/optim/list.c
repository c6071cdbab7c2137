/* list: the growing. */
#include "optim/list.h"

#include <string.h>

#include "base/memory.h"

ol_status ol_list_reserve(ol_error *error, ol_list *list, int64_t more, size_t size) {
  int64_t need = list->count + more, capacity = list->capacity ? list->capacity : 16;
  void *grown;
  if (need <= list->capacity) return OL_OK;
  while (capacity < need) capacity *= 2;
  OL_TRY(ol_alloc_for(error, (size_t)capacity * size, "an optimizer's step", &grown));
  if (list->count) memcpy(grown, list->item, (size_t)list->count * size);
  ol_free(list->item);
  list->item = grown;
  list->capacity = capacity;
  return OL_OK;
}
