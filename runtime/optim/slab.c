/* slab: the packing, and the moves. */
#include "optim/slab.h"

#include <string.h>

#include "base/memory.h"

enum { ALIGNED, LOOSE, LARGE, KINDS };

static int kind_of(const ol_tensor *param) {
  int64_t bytes = param->numel * (int64_t)ol_dtype_size(param->dtype);
  if (param->numel >= OL_SLAB_LIMIT) return LARGE;
  return bytes % OL_ALIGNMENT == 0 ? ALIGNED : LOOSE;
}

/* Copies the members of one kind behind those that are sorted already. */
static int64_t take(ol_group *group, ol_member *sorted, int64_t at, int slab, int kind) {
  for (int64_t i = 0; i < group->count; i++) {
    const ol_tensor *param = group->member[i].param;
    if (ol_slab_of(param->dtype) != slab || kind_of(param) != kind) continue;
    sorted[at] = group->member[i];
    sorted[at++].place = kind == LARGE ? -1 : group->packed[slab];
    if (kind != LARGE) group->packed[slab] += param->numel;
  }
  return at;
}

void ol_slab_pack(ol_group *group, ol_member *scratch) {
  int64_t at = 0;
  for (int slab = 0; slab < 2; slab++)
    for (int kind = 0; kind < KINDS; kind++) at = take(group, scratch, at, slab, kind);
  memcpy(group->member, scratch, (size_t)group->count * sizeof *scratch);
  for (int64_t i = 0; i < group->count; i++) group->rank[group->member[i].given] = i;
}

/* Whether a tensor is all that its storage holds, in order: moving the storage keeps it dense. */
static bool covers(const ol_tensor *tensor) {
  size_t bytes = (size_t)tensor->numel * ol_dtype_size(tensor->dtype);
  return tensor->offset == 0 && tensor->storage->size == bytes && ol_tensor_is_contiguous(tensor);
}

/* What settling allocates before it moves anything. */
typedef struct settlement {
  ol_storage *params[2], *grads[2];
  ol_tensor **grad; /* new ones, by member */
} settlement;

static void drop(const ol_group *group, settlement *s) {
  for (int slab = 0; slab < 2; slab++) {
    ol_release(s->params[slab]);
    ol_release(s->grads[slab]);
  }
  for (int64_t i = 0; s->grad && i < group->count; i++) ol_release(s->grad[i]);
  ol_free(s->grad);
}

static ol_status make_slabs(ol_error *error, const ol_group *group, settlement *s) {
  for (int slab = 0; slab < 2; slab++) {
    size_t bytes = (size_t)group->packed[slab] * ol_dtype_size(slab ? OL_F64 : OL_F32);
    if (bytes == 0) continue;
    OL_TRY(ol_storage_new(error, bytes, true, &s->params[slab]));
    OL_TRY(ol_storage_new(error, bytes, true, &s->grads[slab]));
  }
  return OL_OK;
}

/* Makes gradients for parameters that have none yet, so that the first backward writes into the
 * slab. */
static ol_status make_gradients(ol_error *error, const ol_group *group, settlement *s) {
  OL_TRY(OL_ALLOC(error, (size_t)group->count * sizeof(ol_tensor *), "gradients", &s->grad));
  memset(s->grad, 0, (size_t)group->count * sizeof(ol_tensor *));
  for (int64_t i = 0; i < group->count; i++) {
    const ol_member *m = &group->member[i];
    if (m->place >= 0 && m->param->numel > 0 && m->param->requires_grad && !m->param->grad)
      OL_TRY(ol_tensor_zeros(error, m->param->dtype, &m->param->shape, &s->grad[i]));
  }
  return OL_OK;
}

static void move(ol_tensor *tensor, ol_storage *home, int64_t place) {
  if (covers(tensor))
    ol_storage_move(tensor->storage, home, (size_t)place * ol_dtype_size(tensor->dtype));
}

static void settle_member(const ol_member *m, const settlement *s, ol_tensor **fresh) {
  int slab = ol_slab_of(m->param->dtype);
  if (m->place < 0 || m->param->numel == 0) return;
  move(m->param, s->params[slab], m->place);
  if (*fresh) {
    m->param->grad = *fresh;
    *fresh = NULL;
  }
  if (m->param->grad) move(m->param->grad, s->grads[slab], m->place);
}

ol_status ol_slab_settle(ol_error *error, ol_group *group) {
  settlement s = { 0 };
  if (group->count < 2) return OL_OK;
  ol_status status = make_slabs(error, group, &s);
  if (status == OL_OK) status = make_gradients(error, group, &s);
  for (int64_t i = 0; status == OL_OK && i < group->count; i++)
    settle_member(&group->member[i], &s, &s.grad[i]);
  drop(group, &s);
  return status;
}
