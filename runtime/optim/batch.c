/* batch: which members one run of a rule serves. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "optim/arrival.h"
#include "optim/list.h"

static ol_entry *entry_at(const ol_step *step, int64_t i) {
  return ol_list_at(&step->entries, ol_entry, i);
}

#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b))

/* Members that may share a batch stand together, in packed order. */
static int by_key(const void *a, const void *b) {
  const ol_member *x = ((const ol_entry *)a)->member, *y = ((const ol_entry *)b)->member;
  int order = COMPARE(x->dtype, y->dtype);
  if (!order) order = COMPARE(x->layout, y->layout);
  if (!order) order = COMPARE(x->steps, y->steps);
  return order ? order : COMPARE(x, y);
}

static bool same_key(const ol_entry *a, const ol_entry *b) {
  const ol_member *x = a->member, *y = b->member;
  return x->dtype == y->dtype && x->layout == y->layout && x->steps == y->steps;
}

static void sort(ol_step *step, int64_t begin, int64_t end) {
  qsort(entry_at(step, begin), (size_t)(end - begin), sizeof(ol_entry), by_key);
}

/* The end of the entries that have the key of one: those after it are sorted. */
static int64_t end_of_key(const ol_step *step, int64_t begin) {
  int64_t low = begin, high = step->entries.count;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (same_key(entry_at(step, begin), entry_at(step, middle)))
      low = middle;
    else
      high = middle;
  }
  return high;
}

/* Which members are collected. */
typedef enum who { PRESENT, AWAITED, UPDATED } who;

static ol_status check_awaited(ol_error *error, const ol_member *m) {
  if (m->param->seat == OL_SEAT_UPDATED)
    return ol_fail(error, OL_STATE,
                   "in_backward: parameter '%s' was updated by a backward before; call the "
                   "optimizer's step() after each backward",
                   m->name);
  if (m->param->has_grad)
    return ol_fail(
        error, OL_STATE,
        "in_backward: parameter '%s' has a gradient already, to which none can be added; "
        "call zero_grad() before backward",
        m->name);
  return OL_OK;
}

static bool takes_part(const ol_member *m, who which, uint64_t visit) {
  if (which == PRESENT) return ol_member_is_present(m);
  if (which == UPDATED) return m->steps > 0;
  return m->param->visit == visit && m->param->requires_grad;
}

/* Adds the members of a group that take part. */
static ol_status add_entries(ol_error *error, ol_step *step, ol_group *group, who which,
                             uint64_t visit) {
  bool sorted = true;
  int64_t begin = step->entries.count, end = begin;
  for (int64_t i = 0; i < group->count; i++) {
    ol_member *m = &group->member[i];
    if (i + OL_AHEAD < group->count) __builtin_prefetch(m[OL_AHEAD].param);
    if (!takes_part(m, which, visit)) continue;
    if (which == AWAITED) OL_TRY(check_awaited(error, m));
    *entry_at(step, end) = (ol_entry){ .member = m, .made = m->made };
    if (end > begin && by_key(entry_at(step, end - 1), entry_at(step, end)) > 0) sorted = false;
    end++;
  }
  if (!sorted) sort(step, begin, end);
  step->entries.count = end;
  return OL_OK;
}

static ol_status collect(ol_error *error, ol_step *step, ol_group *group, who which, uint64_t visit,
                         int64_t *count) {
  int64_t before = step->entries.count;
  if (step->next < before)
    return ol_fail(error, OL_STATE, "a group is collected before another one was traced");
  OL_TRY(ol_list_reserve(error, &step->entries, group->count, sizeof(ol_entry)));
  OL_TRY(ol_list_reserve(error, &step->groups, 1, sizeof(ol_group *)));
  *ol_list_at(&step->groups, ol_group *, step->groups.count++) = ol_retain(group);
  ol_group_look_again(group);
  OL_TRY(add_entries(error, step, group, which, visit));
  step->group = group;
  step->updates = which != UPDATED;
  *count = step->entries.count - before;
  return OL_OK;
}

ol_status ol_step_collect(ol_error *error, ol_step *step, ol_group *group, int64_t *count) {
  return collect(error, step, group, PRESENT, 0, count);
}

ol_status ol_step_collect_awaited(ol_error *error, ol_step *step, ol_group *group, uint64_t visit,
                                  int64_t *count) {
  return collect(error, step, group, AWAITED, visit, count);
}

ol_status ol_step_collect_updated(ol_error *error, ol_step *step, ol_group *group, int64_t *count) {
  return collect(error, step, group, UPDATED, 0, count);
}

ol_status ol_step_next(ol_error *error, ol_step *step, ol_graph *graph, const ol_member **out) {
  ol_operand operand[OL_GRAPH_OPERANDS];
  *out = NULL;
  if (step->next == step->entries.count) return OL_OK;
  const ol_member *m = entry_at(step, step->next)->member;
  step->until = end_of_key(step, step->next);
  *out = m;
  if (m->layout < 0)
    return ol_fail(error, OL_STATE, "the states of parameter '%s' are not known", m->name);
  int slots = step->group->layout[m->layout].count;
  operand[0] = operand[1] = (ol_operand){ .dtype = m->dtype };
  for (int k = 0; k < slots; k++) {
    const ol_slot_spec *spec = &step->group->layout[m->layout].spec[k];
    operand[2 + k] = (ol_operand){ .dtype = ol_member_slot_dtype(step->group, m, k),
                                   .shape = spec->own_shape ? &spec->shape : NULL,
                                   .packing = spec->packing };
  }
  return ol_graph_begin(error, graph, &m->param->shape, operand, 2 + slots);
}

/* Brings the entries with the shape of the first one to the front; where they end. */
static int64_t gather(ol_step *step, int64_t begin, int64_t end) {
  int32_t shape = entry_at(step, begin)->member->shape;
  int64_t at = begin;
  for (int64_t i = begin; i < end; i++) {
    ol_entry entry = *entry_at(step, i);
    if (entry.member->shape != shape) continue;
    *entry_at(step, i) = *entry_at(step, at);
    *entry_at(step, at++) = entry;
  }
  sort(step, begin, at);
  return at;
}

ol_status ol_step_record(ol_error *error, ol_step *step, ol_program_cache *cache,
                         const ol_graph *graph, bool by_shape) {
  ol_step_batch batch = { .group = step->group,
                          .begin = step->next,
                          .numbers = step->numbers.count };
  OL_TRY(ol_list_reserve(error, &step->batches, 1, sizeof batch));
  /* One more, so that the list of a rule without numbers is not NULL. */
  OL_TRY(ol_list_reserve(error, &step->numbers, graph->numbers + 1, sizeof(double)));
  OL_TRY(ol_program_cache_get(error, cache, graph, &batch.program));
  memcpy(ol_list_at(&step->numbers, double, batch.numbers), graph->number,
         (size_t)graph->numbers * sizeof(double));
  step->numbers.count += graph->numbers;
  batch.end = step->until;
  if (by_shape || graph->shape_bound) batch.end = gather(step, step->next, step->until);
  step->next = batch.end;
  *ol_list_at(&step->batches, ol_step_batch, step->batches.count++) = batch;
  return OL_OK;
}
