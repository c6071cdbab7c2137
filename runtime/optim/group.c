/* group: making one, its shapes and layouts. */
#include "optim/group.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "optim/slab.h"

static void drop_layouts(ol_layout *layouts, int count) {
  for (int l = 0; l < count; l++)
    for (int k = 0; k < OL_LAYOUT_SLOTS; k++)
      for (int s = 0; s < 2; s++) ol_release(layouts[l].slab[k][s]);
  ol_free(layouts);
}

static void destroy(ol_object *object) {
  ol_group *self = (ol_group *)object;
  for (int64_t i = 0; self->member && i < self->count; i++) {
    ol_member_shrink(&self->member[i], 0);
    ol_release(self->member[i].seen);
    ol_release(self->member[i].param);
    ol_free(self->member[i].name);
  }
  ol_free(self->member);
  ol_free(self->rank);
  ol_free(self->shape);
  ol_free(self->slots);
  drop_layouts(self->layout, self->layouts);
  ol_free(self);
}

static ol_status check_param(ol_error *error, const ol_tensor *param, const char *name) {
  if (param->node)
    return ol_fail(error, OL_ARGUMENT,
                   "parameter '%s' is the result of an operation; an optimizer updates leaves",
                   name);
  if (!ol_dtype_computes(param->dtype))
    return ol_fail(error, OL_DTYPE, "parameter '%s' is %s; an optimizer updates float32 or float64",
                   name, ol_dtype_name(param->dtype));
  if (ol_tensor_overlaps_itself(param))
    return ol_fail(error, OL_ARGUMENT, "parameter '%s' is expanded: its elements share memory",
                   name);
  return OL_OK;
}

/* Finds or adds a shape; there is room for one more. */
static int intern_shape(ol_group *self, const ol_shape *shape) {
  int i = 0;
  while (i < self->shapes && !ol_shape_equal(&self->shape[i], shape)) i++;
  if (i == self->shapes) self->shape[self->shapes++] = *shape;
  return i;
}

static ol_status add_member(ol_error *error, ol_group *self, ol_tensor *param, const char *name) {
  ol_member *m = &self->member[self->count];
  size_t size = strlen(name) + 1;
  OL_TRY(check_param(error, param, name));
  *m = (ol_member){ .given = self->count, .place = -1, .layout = -1 };
  m->numel = param->numel;
  m->dtype = param->dtype;
  OL_TRY(OL_ALLOC(error, size, "a parameter's name", &m->name));
  memcpy(m->name, name, size);
  m->salt = ol_name_key(name);
  m->param = ol_retain(param);
  m->storage = param->storage;
  m->shape = intern_shape(self, &param->shape);
  self->count++;
  return OL_OK;
}

static ol_status make_room(ol_error *error, ol_group *self, int64_t count) {
  size_t n = (size_t)count;
  OL_TRY(OL_ALLOC(error, n * sizeof *self->member, "a group", &self->member));
  OL_TRY(OL_ALLOC(error, n * sizeof *self->rank, "a group", &self->rank));
  return OL_ALLOC(error, n * sizeof *self->shape, "a group", &self->shape);
}

static ol_status pack(ol_error *error, ol_group *self) {
  void *scratch;
  OL_TRY(ol_alloc_for(error, (size_t)self->count * sizeof *self->member, "a group", &scratch));
  ol_slab_pack(self, scratch);
  ol_free(scratch);
  return ol_slab_settle(error, self);
}

static ol_status fill(ol_error *error, ol_group *self, ol_tensor *const *params,
                      const char *const *names, int64_t count) {
  OL_TRY(make_room(error, self, count));
  for (int64_t i = 0; i < count; i++) OL_TRY(add_member(error, self, params[i], names[i]));
  return pack(error, self);
}

ol_status ol_group_new(ol_error *error, ol_tensor *const *params, const char *const *names,
                       int64_t count, ol_group **out) {
  ol_group *self;
  OL_TRY(OL_ALLOC(error, sizeof *self, "a group", &self));
  *self = (ol_group){ .max_norm = HUGE_VAL };
  ol_object_init(&self->object, destroy);
  ol_status status = fill(error, self, params, names, count);
  if (status == OL_OK)
    *out = self;
  else
    ol_release(self);
  return status;
}

/* Whether a member whose slots follow `old` may go on with `new`. */
static bool extends(const ol_layout *new, const ol_layout *old, int made) {
  if (new->count < made) return false;
  for (int k = 0; k < made; k++)
    if (!ol_slot_spec_equal(&new->spec[k], &old->spec[k])) return false;
  return true;
}

static ol_status check_layouts(ol_error *error, const ol_group *group, const ol_layout *layouts,
                               const int *of_shape) {
  for (int64_t i = 0; i < group->count; i++) {
    const ol_member *m = &group->member[i];
    if (m->made == 0 || extends(&layouts[of_shape[m->shape]], &group->layout[m->layout], m->made))
      continue;
    return ol_fail(error, OL_STATE, "the states of parameter '%s' cannot change while they exist",
                   m->name);
  }
  return OL_OK;
}

/* Slabs of a slot that stays as it was are kept. */
static void keep_slabs(ol_layout *new, ol_layout *old) {
  for (int k = 0; k < new->count &&k < old->count; k++) {
    if (!ol_slot_spec_equal(&new->spec[k], &old->spec[k])) break;
    memcpy(new->slab[k], old->slab[k], sizeof new->slab[k]);
    memset(old->slab[k], 0, sizeof old->slab[k]);
  }
}

/* Makes room for the slots of these layouts; those that are made move there. */
static ol_status reserve_slots(ol_error *error, ol_group *group, const ol_layout *layouts,
                               int count) {
  int width = group->width;
  ol_slot *slots;
  for (int l = 0; l < count; l++)
    if (layouts[l].count > width) width = layouts[l].count;
  if (width == group->width) return OL_OK;
  OL_TRY(OL_ALLOC(error, (size_t)(group->count * width) * sizeof *slots, "states", &slots));
  for (int64_t i = 0; i < group->count; i++) {
    ol_member *m = &group->member[i];
    for (int k = 0; k < m->made; k++) slots[i * width + k] = m->slot[k];
    m->slot = &slots[i * width];
  }
  ol_free(group->slots);
  group->slots = slots;
  group->width = width;
  return OL_OK;
}

ol_status ol_group_set_layouts(ol_error *error, ol_group *group, const ol_layout *layouts,
                               int count, const int *of_shape) {
  ol_layout *copy;
  OL_TRY(check_layouts(error, group, layouts, of_shape));
  OL_TRY(reserve_slots(error, group, layouts, count));
  OL_TRY(OL_ALLOC(error, (size_t)count * sizeof *copy, "states", &copy));
  if (count > 0) memcpy(copy, layouts, (size_t)count * sizeof *copy);
  for (int l = 0; l < count; l++) {
    memset(copy[l].slab, 0, sizeof copy[l].slab);
    for (int k = 0; k < copy[l].count; k++) copy[l].salt[2 + k] = copy[l].spec[k].salt;
  }
  for (int l = 0; l < count && l < group->layouts; l++) keep_slabs(&copy[l], &group->layout[l]);
  drop_layouts(group->layout, group->layouts);
  group->layout = copy;
  group->layouts = count;
  for (int64_t i = 0; i < group->count; i++)
    group->member[i].layout = of_shape[group->member[i].shape];
  return OL_OK;
}

void ol_group_look_again(ol_group *group) {
  if (group->moves == ol_storage_moves) return;
  for (int64_t i = 0; i < group->count; i++) {
    ol_release(group->member[i].seen);
    group->member[i].seen = NULL;
  }
  group->moves = ol_storage_moves;
}

void ol_group_zero_grad(ol_group *group) {
  for (int64_t i = 0; i < group->count; i++) group->member[i].param->has_grad = false;
}

ol_status ol_group_twin(ol_error *error, const ol_group *group, ol_group **out) {
  ol_group *self;
  OL_TRY(OL_ALLOC(error, sizeof *self, "a group", &self));
  *self = (ol_group){ .max_norm = HUGE_VAL };
  ol_object_init(&self->object, destroy);
  ol_status status = make_room(error, self, group->count);
  for (int64_t i = 0; status == OL_OK && i < group->count; i++) {
    status = add_member(error, self, group->member[i].param, group->member[i].name);
    self->member[i].given = group->member[i].given;
    self->member[i].place = group->member[i].place;
    self->member[i].shape = group->member[i].shape;
    self->rank[group->member[i].given] = i;
  }
  if (status == OL_OK) {
    memcpy(self->packed, group->packed, sizeof self->packed);
    memcpy(self->shape, group->shape, (size_t)group->shapes * sizeof *self->shape);
    self->shapes = group->shapes;
    *out = self;
  } else
    ol_release(self);
  return status;
}

#define EXCHANGE(a, b)                                                                             \
  do {                                                                                             \
    __typeof__(a) old_ = (a);                                                                      \
    (a) = (b);                                                                                     \
    (b) = old_;                                                                                    \
  } while (0)

void ol_group_exchange(ol_group *group, ol_group *twin) {
  EXCHANGE(group->layout, twin->layout);
  EXCHANGE(group->layouts, twin->layouts);
  EXCHANGE(group->slots, twin->slots);
  EXCHANGE(group->width, twin->width);
  for (int64_t i = 0; i < group->count; i++) {
    ol_member *a = &group->member[i], *b = &twin->member[i];
    EXCHANGE(a->steps, b->steps);
    EXCHANGE(a->layout, b->layout);
    EXCHANGE(a->made, b->made);
    EXCHANGE(a->slot, b->slot);
  }
}
