/* safetensors_writer: lays tensors out as the reference does, and writes them. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/safetensors_header.h"

/* A tensor on its way. */
typedef struct item {
  ol_named named;
  int64_t order; /* in which it was given */
  int64_t first; /* the first with the same elements; its own order where it is that */
} item;

/* What is to be written. */
typedef struct plan {
  item *item;
  ol_stored *stored; /* of those that are written */
  ol_note *note;     /* those given, and the aliases */
  int64_t count, written, notes;
} plan;

/* ---- tensors that are the same ---- */

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int same_elements(const ol_tensor *a, const ol_tensor *b) {
  int order = compare((intptr_t)ol_tensor_data(a), (intptr_t)ol_tensor_data(b));
  if (!order) order = compare(a->dtype, b->dtype);
  if (!order) order = compare(a->shape.ndim, b->shape.ndim);
  for (int d = 0; d < a->shape.ndim && !order; d++) {
    order = compare(a->shape.size[d], b->shape.size[d]);
    if (!order) order = compare(a->stride[d], b->stride[d]);
  }
  return order;
}

static int by_elements(const void *a, const void *b) {
  const item *x = a, *y = b;
  int order = same_elements(x->named.tensor, y->named.tensor);
  return order ? order : compare(x->order, y->order);
}

/* Dtypes from the end of the list of types, then names: the reference's order. */
static int by_layout(const void *a, const void *b) {
  const item *x = a, *y = b;
  int order = compare(ol_element_of(y->named.tensor->dtype) - ol_elements,
                      ol_element_of(x->named.tensor->dtype) - ol_elements);
  return order ? order : strcmp(x->named.name, y->named.name);
}

/* Sorts the items, and finds for each the first one with its elements. Empty tensors have none. */
static void find_same(plan *p) {
  qsort(p->item, (size_t)p->count, sizeof *p->item, by_elements);
  for (int64_t i = 0; i < p->count; i++) {
    const item *before = i ? &p->item[i - 1] : NULL;
    bool same = before && p->item[i].named.tensor->numel > 0 &&
                same_elements(before->named.tensor, p->item[i].named.tensor) == 0;
    p->item[i].first = same ? before->first : p->item[i].order;
  }
}

/* ---- the plan ---- */

static int by_key(const void *a, const void *b) {
  return strcmp(((const ol_note *)a)->key, ((const ol_note *)b)->key);
}

static ol_status check_notes(ol_error *error, const plan *p) {
  for (int64_t i = 1; i < p->notes; i++)
    if (strcmp(p->note[i - 1].key, p->note[i].key) == 0)
      return ol_fail(error, OL_ARGUMENT, "metadata \"%s\" is the name of a tensor that is tied",
                     p->note[i].key);
  return OL_OK;
}

/* Aliases become metadata: the name, and the first name of the same tensor. */
static ol_status add_aliases(ol_error *error, plan *p, const ol_named *tensors) {
  for (int64_t i = 0; i < p->count; i++)
    if (p->item[i].first != p->item[i].order)
      p->note[p->notes++] = (ol_note){ p->item[i].named.name, tensors[p->item[i].first].name };
  qsort(p->note, (size_t)p->notes, sizeof *p->note, by_key);
  return check_notes(error, p);
}

/* Keeps what is written, sorted, and gives each its place. */
static void lay_out(plan *p) {
  int64_t at = 0;
  for (int64_t i = 0; i < p->count; i++)
    if (p->item[i].first == p->item[i].order) p->item[p->written++] = p->item[i];
  qsort(p->item, (size_t)p->written, sizeof *p->item, by_layout);
  for (int64_t i = 0; i < p->written; i++) {
    const ol_tensor *t = p->item[i].named.tensor;
    int64_t end = at + t->numel * (int64_t)ol_dtype_size(t->dtype);
    p->stored[i] = (ol_stored){ p->item[i].named.name, ol_element_of(t->dtype), t->shape,
                                .begin = at, .end = end };
    at = end;
  }
}

static ol_status make_plan(ol_error *error, const ol_named *tensors, int64_t count,
                           const ol_note *notes, int64_t note_count, plan *p) {
  void *items, *stored, *all;
  OL_TRY(ol_alloc_for(error, (size_t)count * sizeof *p->item, "names", &items));
  p->item = items;
  OL_TRY(ol_alloc_for(error, (size_t)count * sizeof *p->stored, "names", &stored));
  p->stored = stored;
  OL_TRY(ol_alloc_for(error, (size_t)(count + note_count) * sizeof *p->note, "metadata", &all));
  p->note = all;
  for (int64_t i = 0; i < count; i++) p->item[i] = (item){ tensors[i], .order = i };
  for (int64_t i = 0; i < note_count; i++) p->note[i] = notes[i];
  p->count = count;
  p->notes = note_count;
  find_same(p);
  OL_TRY(add_aliases(error, p, tensors));
  lay_out(p);
  return OL_OK;
}

static void drop_plan(plan *p) {
  ol_free(p->item);
  ol_free(p->stored);
  ol_free(p->note);
}

/* ---- writing ---- */

static ol_status write_tensor(ol_error *error, ol_file *file, ol_tensor *tensor) {
  ol_tensor *packed;
  OL_TRY(ol_tensor_contiguous(error, tensor, &packed));
  ol_status status = ol_file_write(error, file, ol_tensor_data(packed),
                                   (size_t)packed->numel * ol_dtype_size(packed->dtype));
  ol_release(packed);
  return status;
}

static ol_status write_all(ol_error *error, ol_file *file, const plan *p, const char *header,
                           size_t size) {
  uint64_t length = size;
  OL_TRY(ol_file_write(error, file, &length, sizeof length));
  OL_TRY(ol_file_write(error, file, header, size));
  for (int64_t i = 0; i < p->written; i++)
    OL_TRY(write_tensor(error, file, p->item[i].named.tensor));
  return OL_OK;
}

static ol_status write_file(ol_error *error, const char *path, const plan *p, const char *header,
                            size_t size) {
  ol_file file;
  OL_TRY(ol_file_begin(error, path, &file));
  ol_status status = write_all(error, &file, p, header, size);
  if (status == OL_OK) return ol_file_commit(error, &file);
  ol_file_abandon(&file);
  return status;
}

ol_status ol_safetensors_write(ol_error *error, const char *path, const ol_named *tensors,
                               int64_t count, const ol_note *notes, int64_t note_count) {
  plan p = { 0 };
  char *header = NULL;
  size_t size = 0;
  ol_status status = make_plan(error, tensors, count, notes, note_count, &p);
  if (status == OL_OK)
    status = ol_safetensors_format(error, p.stored, p.written, p.note, p.notes, &header, &size);
  if (status != OL_OK)
    ol_fail_in(error, path);
  else
    status = write_file(error, path, &p, header, size);
  free(header);
  drop_plan(&p);
  return status;
}
