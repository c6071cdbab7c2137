/* arrival: each gradient is a step of its own, with a program that was traced before. */
#include "optim/arrival.h"

#include <string.h>

#include "optim/list.h"

static ol_status grow_batch(ol_error *error, ol_step *step, const ol_step_batch *batch) {
  for (int64_t i = batch->begin; i < batch->end; i++) {
    ol_member *m = ol_list_at(&step->entries, ol_entry, i)->member;
    if (batch->program->total_count)
      return ol_fail(
          error, OL_STATE,
          "in_backward: the rule of parameter '%s' uses group_add, a sum over parameters "
          "whose gradients are not there together",
          m->name);
    OL_TRY(ol_member_grow(error, batch->group, m));
  }
  return OL_OK;
}

ol_status ol_arrival_open(ol_error *error, ol_step *step) {
  for (int64_t b = 0; b < step->batches.count; b++)
    OL_TRY(grow_batch(error, step, ol_list_at(&step->batches, ol_step_batch, b)));
  for (int64_t i = 0; i < step->entries.count; i++)
    ol_list_at(&step->entries, ol_entry, i)->member->param->seat = i + 1;
  return OL_OK;
}

static const ol_step_batch *batch_of(const ol_step *step, int64_t entry) {
  int64_t low = 0, high = step->batches.count - 1;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (ol_list_at(&step->batches, ol_step_batch, middle)->end <= entry)
      low = middle + 1;
    else
      high = middle;
  }
  return ol_list_at(&step->batches, ol_step_batch, low);
}

/* Makes `one` a step over a single entry of `step`. */
static ol_status single_out(ol_error *error, const ol_step *step, int64_t entry, ol_step *one) {
  const ol_step_batch *batch = batch_of(step, entry);
  int numbers = batch->program->numbers;
  OL_TRY(ol_list_reserve(error, &one->groups, 1, sizeof(ol_group *)));
  OL_TRY(ol_list_reserve(error, &one->entries, 1, sizeof(ol_entry)));
  OL_TRY(ol_list_reserve(error, &one->batches, 1, sizeof(ol_step_batch)));
  OL_TRY(ol_list_reserve(error, &one->numbers, numbers + 1, sizeof(double)));
  ol_member *m = ol_list_at(&step->entries, ol_entry, entry)->member;
  *ol_list_at(&one->groups, ol_group *, 0) = ol_retain(batch->group);
  *ol_list_at(&one->entries, ol_entry, 0) = (ol_entry){ .member = m, .made = m->made };
  *ol_list_at(&one->batches, ol_step_batch, 0) =
      (ol_step_batch){ .group = batch->group, .end = 1, .program = ol_retain(batch->program) };
  memcpy(one->numbers.item, ol_list_at(&step->numbers, double, batch->numbers),
         (size_t)numbers * sizeof(double));
  one->numbers.count = numbers;
  one->groups.count = one->entries.count = one->batches.count = one->next = 1;
  one->updates = true;
  return OL_OK;
}

/* Lends the parameter its gradient for the length of a step. */
static ol_status update(ol_error *error, ol_step *one, ol_member *m, ol_tensor *gradient,
                        const ol_step_options *options) {
  ol_tensor *spare = m->param->grad;
  m->param->grad = gradient;
  ol_status status = ol_step_prepare(error, one, options);
  if (status == OL_OK)
    ol_step_commit(one);
  else
    ol_step_abort(one);
  m->param->grad = NULL;
  ol_release(spare);
  ol_release(m->seen); /* or it would keep the gradient */
  m->seen = NULL;
  return status;
}

ol_status ol_arrival_take(ol_error *error, ol_step *step, ol_step *one, ol_tensor *param,
                          ol_tensor *gradient, const ol_step_options *options) {
  int64_t entry = param->seat - 1;
  if (entry < 0) return OL_OK;
  ol_entry *own = ol_list_at(&step->entries, ol_entry, entry);
  OL_TRY(single_out(error, step, entry, one));
  OL_TRY(update(error, one, own->member, gradient, options));
  own->made = own->member->made;
  param->seat = OL_SEAT_UPDATED;
  return OL_OK;
}

void ol_arrival_close(ol_step *step) {
  for (int64_t i = 0; i < step->entries.count; i++) {
    ol_tensor *param = ol_list_at(&step->entries, ol_entry, i)->member->param;
    if (param->seat == i + 1) param->seat = 0;
  }
  ol_step_abort(step);
}

int64_t ol_arrival_count(const ol_group *group) {
  int64_t count = 0;
  for (int64_t i = 0; i < group->count; i++)
    count += group->member[i].param->seat == OL_SEAT_UPDATED;
  return count;
}

void ol_arrival_reset(ol_group *group) {
  for (int64_t i = 0; i < group->count; i++) group->member[i].param->seat = 0;
}
