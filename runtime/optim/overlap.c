/* overlap: finds parameters that share memory. */
#include <stdlib.h>

#include "base/memory.h"
#include "optim/group.h"

/* The bytes between the first and the last element of a tensor. */
typedef struct extent {
  const char *begin, *end;
  int64_t index;
} extent;

static extent extent_of(const ol_tensor *tensor, int64_t index) {
  int64_t last = 0, size = (int64_t)ol_dtype_size(tensor->dtype);
  for (int d = 0; d < tensor->shape.ndim; d++)
    last += (tensor->shape.size[d] - 1) * tensor->stride[d];
  const char *begin = ol_tensor_data(tensor);
  return (extent){ begin, begin + (last + 1) * size, index };
}

static int by_begin(const void *a, const void *b) {
  const extent *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

/* Of neighbours in memory that overlap, the pair that was given first. */
static void scan(const extent *list, int64_t count, int64_t *first, int64_t *second) {
  const extent *widest = list;
  for (int64_t i = 1; i < count; i++) {
    if (list[i].begin < widest->end) {
      int64_t a = widest->index, b = list[i].index;
      *first = a < b ? a : b;
      *second = a < b ? b : a;
      return;
    }
    if (list[i].end > widest->end) widest = &list[i];
  }
}

ol_status ol_find_overlap(ol_error *error, ol_tensor *const *tensors, int64_t count, int64_t *first,
                          int64_t *second) {
  extent *list;
  int64_t n = 0;
  OL_TRY(OL_ALLOC(error, (size_t)count * sizeof *list, "parameters", &list));
  for (int64_t i = 0; i < count; i++)
    if (tensors[i]->numel > 0) list[n++] = extent_of(tensors[i], i);
  if (n > 1) qsort(list, (size_t)n, sizeof *list, by_begin);
  *first = *second = -1;
  scan(list, n, first, second);
  ol_free(list);
  return OL_OK;
}
