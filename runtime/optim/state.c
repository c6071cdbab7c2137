/* state: the slots of members: made, looked at, dropped, restored. */
#include <string.h>

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

static int64_t slot_numel(const ol_group *group, const ol_member *member, int slot) {
  return ol_shape_numel(ol_member_slot_shape(group, member, slot));
}

size_t ol_member_slot_bytes(const ol_group *group, const ol_member *member, int slot) {
  int64_t numel = slot_numel(group, member, slot);
  if (ol_member_slot_is_coded(group, member, slot)) return ol_codes_size(numel);
  return (size_t)numel * ol_dtype_size(ol_member_slot_dtype(group, member, slot));
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

static ol_status view_scales(ol_error *error, const ol_group *group, const ol_member *member,
                             int slot, ol_tensor **out) {
  int64_t numel = slot_numel(group, member, slot), stride = 1;
  ol_shape shape = { 1, { ol_codes_blocks(numel) } };
  ol_tensor base = { .storage = member->slot[slot].storage, .dtype = OL_F32 };
  int64_t offset = member->slot[slot].offset + (int64_t)ol_codes_scales(numel);
  return ol_tensor_view(error, &base, &shape, &stride, offset / (int64_t)sizeof(float), out);
}

ol_status ol_member_scales(ol_error *error, const ol_group *group, const ol_member *member,
                           int slot, ol_tensor **out) {
  *out = NULL;
  if (slot >= member->made || !ol_member_slot_is_coded(group, member, slot)) return OL_OK;
  return view_scales(error, group, member, slot, out);
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
  if (member->place < 0 || spec_of(group, member, slot)->own_shape ||
      ol_member_slot_is_coded(group, member, slot))
    return ol_storage_new(error, ol_member_slot_bytes(group, member, slot), true, &out->storage);
  OL_TRY(find_slab(error, group, member, slot, &out->storage));
  (void)ol_retain(out->storage);
  out->offset = member->place * (int64_t)element;
  return OL_OK;
}

/* Writes elements of a contiguous float32 tensor as codes, rounded to nearest. */
static void encode(const ol_group *group, const ol_member *member, int slot,
                   const ol_tensor *from) {
  const float *x = ol_tensor_data(from);
  int packing = spec_of(group, member, slot)->packing & ~OL_PACK_RANDOM;
  for (int64_t at = 0; at < from->numel; at += OL_CODES_BLOCK) {
    int64_t left = from->numel - at;
    ol_codes_store(x + at, left < OL_CODES_BLOCK ? (int)left : OL_CODES_BLOCK,
                   ol_member_slot_data(member, slot), from->numel, at, packing, 0);
  }
}

/* The elements of codes and their scales, contiguous. */
static ol_status decode(ol_error *error, const ol_tensor *codes, const ol_tensor *scales,
                        int packing, ol_tensor *out) {
  void *array;
  float *x = ol_tensor_data(out);
  size_t size = ol_codes_size(codes->numel);
  OL_TRY(ol_alloc_for(error, size, "codes of a state", &array));
  memcpy(array, ol_tensor_data(codes), (size_t)codes->numel);
  memcpy((char *)array + ol_codes_scales(codes->numel), ol_tensor_data(scales),
         sizeof(float) * (size_t)scales->numel);
  for (int64_t k = 0; k < codes->numel; k++) x[k] = ol_codes_load(array, codes->numel, packing, k);
  ol_free(array);
  return OL_OK;
}

static ol_status copy_scales(ol_error *error, const ol_group *group, const ol_member *member,
                             int slot, const ol_tensor *scales) {
  ol_tensor *view;
  OL_TRY(view_scales(error, group, member, slot, &view));
  ol_status status = ol_tensor_copy(error, view, scales);
  ol_release(view);
  return status;
}

/* Copies a tensor of the slot's shape, with its scales where it is codes, into a slot that is
 * stored in another way. */
static ol_status convert(ol_error *error, const ol_group *group, const ol_member *member, int slot,
                         const ol_tensor *state, const ol_tensor *scales) {
  ol_tensor *wide, *view = NULL;
  OL_TRY(ol_tensor_new(error, OL_F32, &state->shape, &wide));
  int packing = spec_of(group, member, slot)->packing;
  ol_status status =
      scales ? decode(error, state, scales, packing, wide) : ol_tensor_copy(error, wide, state);
  if (status == OL_OK) status = view_slot(error, group, member, slot, &view);
  if (status == OL_OK && ol_member_slot_is_coded(group, member, slot))
    encode(group, member, slot, wide);
  else if (status == OL_OK)
    status = ol_tensor_copy(error, view, wide);
  ol_release(view);
  ol_release(wide);
  return status;
}

static ol_status copy_slot(ol_error *error, const ol_group *group, const ol_member *member,
                           int slot, const ol_tensor *state, const ol_tensor *scales) {
  ol_tensor *view;
  bool coded = ol_member_slot_is_coded(group, member, slot);
  if (coded != (scales != NULL)) return convert(error, group, member, slot, state, scales);
  OL_TRY(view_slot(error, group, member, slot, &view));
  ol_status status = ol_tensor_copy(error, view, state);
  ol_release(view);
  if (status == OL_OK && coded) status = copy_scales(error, group, member, slot, scales);
  return status;
}

/* Fills a slot with one value. */
static ol_status fill_slot(ol_error *error, const ol_group *group, const ol_member *member,
                           int slot, double value) {
  ol_tensor *whole;
  bool coded = ol_member_slot_is_coded(group, member, slot);
  if (!coded)
    OL_TRY(view_slot(error, group, member, slot, &whole));
  else
    OL_TRY(ol_tensor_new(error, OL_F32, &member->param->shape, &whole));
  ol_status status = ol_tensor_fill(error, whole, value);
  if (status == OL_OK && coded) encode(group, member, slot, whole);
  ol_release(whole);
  return status;
}

static ol_status start_slot(ol_error *error, const ol_group *group, const ol_member *member,
                            int slot) {
  const ol_slot_spec *spec = spec_of(group, member, slot);
  if (spec->init == OL_SLOT_PARAM)
    return copy_slot(error, group, member, slot, member->param, NULL);
  return spec->value == 0 ? OL_OK : fill_slot(error, group, member, slot, spec->value);
}

static ol_status make_slot(ol_error *error, ol_group *group, ol_member *member) {
  int slot = member->made;
  OL_TRY(place_slot(error, group, member, slot, &member->slot[slot]));
  member->made++;
  return start_slot(error, group, member, slot);
}

ol_status ol_member_grow(ol_error *error, ol_group *group, ol_member *member) {
  int before = member->made, count = group->layout[member->layout].count;
  ol_status status = OL_OK;
  if (before == count) return OL_OK;
  while (status == OL_OK && member->made < count) status = make_slot(error, group, member);
  if (status != OL_OK) ol_member_shrink(member, before);
  return status;
}

void ol_member_shrink(ol_member *member, int count) {
  while (member->made > count) {
    member->made--;
    ol_release(member->slot[member->made].storage);
  }
}

ol_status ol_member_restore(ol_error *error, ol_group *group, ol_member *member, int64_t steps,
                            ol_tensor *const *states, ol_tensor *const *scales, int count) {
  ol_status status = OL_OK;
  ol_member_shrink(member, 0);
  member->steps = steps;
  if (count == 0) return OL_OK;
  if (count != group->layout[member->layout].count)
    return ol_fail(error, OL_ARGUMENT, "parameter '%s' has %d states, not %d", member->name,
                   group->layout[member->layout].count, count);
  OL_TRY(ol_member_grow(error, group, member));
  for (int k = 0; status == OL_OK && k < count; k++)
    status = copy_slot(error, group, member, k, states[k], scales[k]);
  return status;
}
