/* group: the parameters that are updated with the same hyperparameters, their states and counts.
 *
 * Small parameters of a group, their gradients and their states live in slabs: packed side by side,
 * in one order for all of them, so that a step sees a few long runs instead of many short ones.
 * Large ones (OL_SLAB_LIMIT elements and more) keep memory of their own. Members stand in packed
 * order; callers know them by the order in which they were given. */
#ifndef OL_OPTIM_GROUP_H
#define OL_OPTIM_GROUP_H

#include "optim/layout.h"
#include "tensor/tensor.h"

#define OL_SLAB_LIMIT 65536 /* elements */

/* Where a state is. */
typedef struct ol_slot {
  ol_storage *storage; /* a reference */
  int64_t offset;      /* bytes */
} ol_slot;

/* What a step reads of each of thousands of members stands first. */
typedef struct ol_member {
  ol_tensor *param;
  ol_storage *storage; /* the parameter's */
  ol_tensor *seen;     /* of a small one: the gradient that the addresses below were taken from, one
                          reference; NULL: to be looked up anew */
  void *param_data;    /* addresses of contiguous elements, during a step */
  void *grad_data;
  int64_t numel;
  int64_t steps; /* updates that were committed */
  int64_t place; /* element offset in the slabs of its dtype; -1: none */
  ol_slot *slot; /* in the slots of its group, where its layout is known */
  ol_dtype dtype;
  int32_t shape;  /* index into the shapes of the group */
  int32_t layout; /* index into its layouts; -1: not known yet */
  int32_t made;   /* slots that exist */
  char *name;
  uint64_t salt; /* of the name */
  int64_t given; /* its place in the order in which parameters were given */
} ol_member;

typedef struct ol_group {
  ol_object object;
  int64_t count;
  ol_member *member; /* in packed order */
  int64_t *rank;     /* of the parameter that was given i-th: its place in member */
  int64_t packed[2]; /* elements in the slabs, by ol_slab_of(dtype) */
  int shapes;        /* distinct ones */
  ol_shape *shape;
  int layouts;
  ol_layout *layout;
  int width;                     /* the most slots of a layout */
  ol_slot *slots;                /* room for so many of each member, side by side */
  uint64_t seed;                 /* of stochastic rounding */
  uint64_t moves;                /* ol_storage_moves when addresses were taken */
  double total[OL_GRAPH_TOTALS]; /* numbers of the group that a step adds to */
  double max_norm;               /* its gradients with a larger norm are scaled down to it */
  double factor;                 /* what a step multiplies its gradients with */
} ol_group;

static inline int ol_slab_of(ol_dtype dtype) { return dtype == OL_F64; }

/* Makes a group of leaves that compute; names are copied. Moves small parameters into slabs and
 * gives them memory for gradients there; their values, and all who look at them, stay as they are.
 * Fails, naming the parameter, for one that is not a leaf, does not compute, or is expanded. */
ol_status ol_group_new(ol_error *error, ol_tensor *const *params, const char *const *names,
                       int64_t count, ol_group **out);

/* Says which states parameters keep: of_shape[i] is the layout for shape i. States that exist stay;
 * the layout of a parameter may only gain slots at its end. Not between the collection of a step
 * and its preparation. */
ol_status ol_group_set_layouts(ol_error *error, ol_group *group, const ol_layout *layouts,
                               int count, const int *of_shape);

/* Forgets the addresses of elements if storages have moved. */
void ol_group_look_again(ol_group *group);

/* Makes the gradients absent; their memory is kept. */
void ol_group_zero_grad(ol_group *group);

/* Whether a member takes part in a step: its gradient is present and it is not frozen. */
static inline bool ol_member_is_present(const ol_member *member) {
  return member->param->has_grad && member->param->requires_grad;
}

/* The dtype and the shape of a slot of a member. */
ol_dtype ol_member_slot_dtype(const ol_group *group, const ol_member *member, int slot);
const ol_shape *ol_member_slot_shape(const ol_group *group, const ol_member *member, int slot);

static inline bool ol_member_slot_is_coded(const ol_group *group, const ol_member *member,
                                           int slot) {
  return group->layout[member->layout].spec[slot].packing & OL_PACK_CODES;
}

/* Bytes of a slot, scales of codes included. */
size_t ol_member_slot_bytes(const ol_group *group, const ol_member *member, int slot);

/* The address of a slot that exists. */
static inline void *ol_member_slot_data(const ol_member *member, int slot) {
  return (char *)member->slot[slot].storage->data + member->slot[slot].offset;
}

/* A tensor that looks at a slot; *out is NULL while the slot does not exist. Codes are uint8. */
ol_status ol_member_slot(ol_error *error, const ol_group *group, const ol_member *member, int slot,
                         ol_tensor **out);

/* The same of the scales of a slot of codes, float32, one for each block; *out is NULL for other
 * slots too. */
ol_status ol_member_scales(ol_error *error, const ol_group *group, const ol_member *member,
                           int slot, ol_tensor **out);

/* Makes the slots that a member's layout has and the member has not. On failure none is made. */
ol_status ol_member_grow(ol_error *error, ol_group *group, ol_member *member);

/* Drops slots until `count` are left. */
void ol_member_shrink(ol_member *member, int count);

/* Gives a member its count and makes its slots anew, with the elements of states: as many tensors
 * as its layout has slots, of their shape; or, count being 0, no slots. scales[k] are those of
 * states[k] where it is codes, else NULL. What is stored in another way than its slot is converted.
 */
ol_status ol_member_restore(ol_error *error, ol_group *group, ol_member *member, int64_t steps,
                            ol_tensor *const *states, ol_tensor *const *scales, int count);

/* Makes a group of the same parameters in the same order, without states, layouts and counts: to be
 * filled at leisure and then exchanged. */
ol_status ol_group_twin(ol_error *error, const ol_group *group, ol_group **out);

/* Exchanges states, layouts and counts of a group and its twin. Cannot fail. */
void ol_group_exchange(ol_group *group, ol_group *twin);

/* Finds two tensors that share memory: *first < *second, or -1 when there are none. */
ol_status ol_find_overlap(ol_error *error, ol_tensor *const *tensors, int64_t count, int64_t *first,
                          int64_t *second);

#endif
