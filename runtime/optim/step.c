/* step: its beginning and its end. */
#include "optim/step.h"

#include "base/memory.h"
#include "optim/list.h"

ol_status ol_step_new(ol_error *error, ol_step **out) {
  ol_step *step;
  OL_TRY(OL_ALLOC(error, sizeof *step, "an optimizer's step", &step));
  *step = (ol_step){ 0 };
  ol_status status = ol_machine_new(error, &step->machine);
  if (status == OL_OK)
    *out = step;
  else
    ol_free(step);
  return status;
}

void ol_step_free(ol_step *step) {
  if (!step) return;
  ol_step_abort(step);
  ol_machine_free(step->machine);
  ol_list *lists[] = { &step->groups, &step->entries, &step->batches, &step->numbers, &step->runs,
                       &step->arrays, &step->noise,   &step->inputs,  &step->parts };
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) ol_free(lists[i]->item);
  ol_free(step);
}

/* Forgets entries and batches. */
static void empty(ol_step *step) {
  for (int64_t i = 0; step->holds && i < step->entries.count; i++) {
    ol_entry *entry = ol_list_at(&step->entries, ol_entry, i);
    ol_release(entry->grad);
    ol_release(entry->packed);
  }
  for (int64_t b = 0; b < step->batches.count; b++) {
    ol_step_batch *batch = ol_list_at(&step->batches, ol_step_batch, b);
    ol_release(batch->program);
  }
  for (int64_t g = 0; g < step->groups.count; g++)
    ol_release(*ol_list_at(&step->groups, ol_group *, g));
  step->groups.count = 0;
  step->entries.count = step->batches.count = step->numbers.count = step->next = 0;
  step->group = NULL;
  step->prepared = step->holds = false;
}

/* Counts the update, while the members are in a cache. */
static void count(ol_step *step) {
  for (int64_t i = 0; i < step->entries.count; i++) {
    const ol_entry *entry = ol_list_at(&step->entries, ol_entry, i);
    if (i + OL_AHEAD < step->entries.count)
      __builtin_prefetch(&entry[OL_AHEAD].member->storage->version, 1);
    if (step->updates) entry->member->steps++;
    entry->member->storage->version++;
  }
}

/* Copies parameters that are not contiguous back to where they are. */
static void unpack(ol_step *step) {
  ol_error unused;
  for (int64_t i = 0; step->holds && i < step->entries.count; i++) {
    const ol_entry *entry = ol_list_at(&step->entries, ol_entry, i);
    if (entry->packed) /* cannot fail: the copy has the parameter's shape and dtype */
      (void)ol_tensor_copy(&unused, entry->member->param, entry->packed);
  }
}

void ol_step_commit(ol_step *step) {
  if (!step->prepared) return;
  count(step);
  ol_machine_commit(step->machine);
  unpack(step);
  empty(step);
}

void ol_step_abort(ol_step *step) {
  for (int64_t i = 0; i < step->entries.count; i++) {
    const ol_entry *entry = ol_list_at(&step->entries, ol_entry, i);
    ol_member_shrink(entry->member, entry->made);
  }
  empty(step);
}
