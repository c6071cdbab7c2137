/* state: the slots of members: made, looked at, dropped, restored. */
#include "base/memory.h"
#include "optim/group.h"

static const ol_slot_spec *spec_of(const ol_group *group, const ol_member *member, int slot) {
  return &group->layout[member->layout].spec[slot];
}

ol_dtype ol_member_slot_dtype(const ol_group *group, const ol_member *member, int slot) {
  const ol_slot_spec *spec = spec_of(group, member, slot);
  return spec->own_dtype ? spec->dtype : member->dtype;
}

const ol_shape *ol_member_slot_shape(const ol_group *group, const ol_member *member, int slot) {
  const ol_slot_spec *spec = spec_of(group, member, slot);
  return spec->own_shape ? &spec->shape : &member->param->shape;
}

/* A contiguous tensor over a slot. */
static ol_status view_slot(ol_error *error, const ol_group *group, const ol_member *member,
                           int slot, ol_tensor **out) {
  ol_dtype dtype = ol_member_slot_dtype(group, member, slot);
  const ol_shape *shape = ol_member_slot_shape(group, member, slot);
  int64_t stride[OL_MAX_DIMS];
  ol_tensor base = { .storage = member->slot[slot].storage, .dtype = dtype };
  ol_shape_strides(shape, stride);
  return ol_tensor_view(error, &base, shape, stride,
                        member->slot[slot].offset / (int64_t)ol_dtype_size(dtype), out);
}

ol_status ol_member_slot(ol_error *error, const ol_group *group, const ol_member *member, int slot,
                         ol_tensor **out) {
  *out = NULL;
  return slot < member->made ? view_slot(error, group, member, slot, out) : OL_OK;
}

/* The slab for a slot of small members, made when it is first asked for. */
static ol_status find_slab(ol_error *error, ol_group *group, const ol_member *member, int slot,
                           ol_storage **out) {
  int which = ol_slab_of(member->dtype);
  ol_storage **slab = &group->layout[member->layout].slab[slot][which];
  size_t element = ol_dtype_size(ol_member_slot_dtype(group, member, slot));
  if (!*slab) OL_TRY(ol_storage_new(error, (size_t)group->packed[which] * element, true, slab));
  *out = *slab;
  return OL_OK;
}

/* Gives a slot its memory: zeros, unless it is a place in a slab where a slot that begins otherwise
 * was made and dropped. */
static ol_status place_slot(ol_error *error, ol_group *group, const ol_member *member, int slot,
                            ol_slot *out) {
  int64_t numel;
  size_t element = ol_dtype_size(ol_member_slot_dtype(group, member, slot));
  const ol_shape *shape = ol_member_slot_shape(group, member, slot);
  OL_TRY(ol_shape_count(error, shape, element, &numel));
  out->offset = 0;
  if (member->place < 0 || spec_of(group, member, slot)->own_shape)
    return ol_storage_new(error, (size_t)numel * element, true, &out->storage);
  OL_TRY(find_slab(error, group, member, slot, &out->storage));
  (void)ol_retain(out->storage);
  out->offset = member->place * (int64_t)element;
  return OL_OK;
}

static ol_status start_slot(ol_error *error, const ol_group *group, const ol_member *member,
                            int slot) {
  ol_tensor *view;
  const ol_slot_spec *spec = spec_of(group, member, slot);
  if (spec->init == OL_SLOT_VALUE && spec->value == 0) return OL_OK;
  OL_TRY(view_slot(error, group, member, slot, &view));
  ol_status status = spec->init == OL_SLOT_PARAM ? ol_tensor_copy(error, view, member->param)
                                                 : ol_tensor_fill(error, view, spec->value);
  ol_release(view);
  return status;
}

static ol_status make_slot(ol_error *error, ol_group *group, ol_member *member) {
  int slot = member->made;
  OL_TRY(place_slot(error, group, member, slot, &member->slot[slot]));
  member->made++;
  return start_slot(error, group, member, slot);
}

static ol_status make_room(ol_error *error, ol_member *member, int count) {
  ol_slot *room;
  OL_TRY(OL_ALLOC(error, (size_t)count * sizeof *room, "states", &room));
  for (int k = 0; k < member->made; k++) room[k] = member->slot[k];
  ol_free(member->slot);
  member->slot = room;
  return OL_OK;
}

ol_status ol_member_grow(ol_error *error, ol_group *group, ol_member *member) {
  int before = member->made, count = group->layout[member->layout].count;
  ol_status status = OL_OK;
  if (before == count) return OL_OK;
  OL_TRY(make_room(error, member, count));
  while (status == OL_OK && member->made < count) status = make_slot(error, group, member);
  if (status != OL_OK) ol_member_shrink(member, before);
  return status;
}

void ol_member_shrink(ol_member *member, int count) {
  while (member->made > count) {
    member->made--;
    ol_release(member->slot[member->made].storage);
  }
  if (count > 0) return;
  ol_free(member->slot);
  member->slot = NULL;
}

static ol_status fill_slots(ol_error *error, const ol_group *group, const ol_member *member,
                            ol_tensor *const *states) {
  ol_tensor *view;
  for (int k = 0; k < member->made; k++) {
    OL_TRY(view_slot(error, group, member, k, &view));
    ol_status status = ol_tensor_copy(error, view, states[k]);
    ol_release(view);
    OL_TRY(status);
  }
  return OL_OK;
}

ol_status ol_member_restore(ol_error *error, ol_group *group, ol_member *member, int64_t steps,
                            ol_tensor *const *states, int count) {
  ol_member_shrink(member, 0);
  member->steps = steps;
  if (count == 0) return OL_OK;
  if (count != group->layout[member->layout].count)
    return ol_fail(error, OL_ARGUMENT, "parameter '%s' has %d states, not %d", member->name,
                   group->layout[member->layout].count, count);
  OL_TRY(ol_member_grow(error, group, member));
  return fill_slots(error, group, member, states);
}
