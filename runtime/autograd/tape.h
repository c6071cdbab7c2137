/* tape: records ops and walks them backwards.
 *
 * A recorded op is a node; it holds what backward reads and points to the nodes (or leaves) that
 * its inputs came from. Tensors point to the node that made them; nothing points back, so that
 * reference counts free the graph. There is no double backward: gradients have no history. */
#ifndef OL_AUTOGRAD_TAPE_H
#define OL_AUTOGRAD_TAPE_H

#include "autograd/op.h"

/* Runs op.forward on call->arg and records it where a gradient can flow. On success call->out holds
 * one reference each; call->kept is released. */
ol_status ol_apply(ol_error *error, const ol_op *op, ol_call *call);

/* Whether ops are recorded (true at first), of this thread. */
bool ol_recording(void);
void ol_set_recording(bool on);

/* Computes the gradients of tensor with respect to all leaves and adds them to their grad, or hands
 * them to their takers. seed is the gradient of tensor itself, of its shape and dtype; NULL for
 * ones where tensor has one element. Saved tensors are freed on the way unless retain. On failure
 * no leaf has changed; what takers have taken stays with them. */
ol_status ol_backward(ol_error *error, ol_tensor *tensor, ol_tensor *seed, bool retain);

/* Makes a leaf want a gradient or not. Fails for a tensor that is not a leaf, or does not compute
 * (bfloat16, integers). */
ol_status ol_set_requires_grad(ol_error *error, ol_tensor *tensor, bool on);

/* Whether a tensor was not made by a recorded op. */
static inline bool ol_is_leaf(const ol_tensor *tensor) { return tensor->node == NULL; }

/* The gradient of a leaf when it is present, else NULL; borrowed. */
static inline ol_tensor *ol_grad(const ol_tensor *tensor) {
  return tensor->has_grad ? tensor->grad : NULL;
}

/* Makes the gradient absent; its memory is kept for the next one. */
static inline void ol_zero_grad(ol_tensor *tensor) { tensor->has_grad = false; }

/* Whether the memory of a gradient that becomes absent may be written by the next one: nobody else
 * holds it (a script may have kept the old gradient), or it lives in a home, where it stays. */
static inline bool ol_grad_is_spare(const ol_tensor *tensor) {
  return tensor->grad->storage->home || tensor->grad->object.references == 1;
}

/* Sets the gradient of a leaf to a copy of gradient (same shape and dtype), or to absent (NULL). */
ol_status ol_set_grad(ol_error *error, ol_tensor *tensor, ol_tensor *gradient);

/* A function that sees the gradient of a tensor during backward, after all its contributions. It
 * may hand over another gradient of the same shape and dtype in *replacement. */
typedef struct ol_hook {
  ol_object object;
  ol_status (*call)(struct ol_hook *self, ol_error *error, ol_tensor *gradient,
                    ol_tensor **replacement);
} ol_hook;

/* Sets the hook of a tensor that requires a gradient, leaf or not; NULL removes it. Takes a
 * reference. */
ol_status ol_set_hook(ol_error *error, ol_tensor *tensor, ol_hook *hook);

/* The hook of a tensor, or NULL; borrowed. */
ol_hook *ol_hook_of(const ol_tensor *tensor);

/* What takes the gradients of leaves, each as soon as all its contributions are there: they never
 * become the leaf's grad, and their memory is freed while backward runs. It may write the leaf
 * then: all that was computed from it and not detached has been passed. */
typedef struct ol_taker {
  ol_object object;
  uint64_t visit; /* the walk that has begun and not ended, the innermost; else 0; its own to set */
  /* Before anything is computed: gradients of the leaves with this visit are awaited. */
  ol_status (*begin)(struct ol_taker *self, ol_error *error, uint64_t visit);
  /* A gradient is complete. It may be of any strides, and others may see its memory. */
  ol_status (*take)(struct ol_taker *self, ol_error *error, ol_tensor *leaf, ol_tensor *gradient);
  /* The walk is over, or has failed; also when `begin` did. */
  void (*end)(struct ol_taker *self, uint64_t visit);
} ol_taker;

/* Gives a leaf's gradients to a taker from the next backward on; NULL: they are the leaf's again.
 * Takes no reference: a taker takes itself away before it is destroyed. Its seat, a note of the
 * taker that the leaf had, is 0 then. */
static inline void ol_set_taker(ol_tensor *leaf, ol_taker *taker) {
  leaf->taker = taker ? &taker->object : NULL;
  leaf->seat = 0;
}

/* A differentiable function that is not an op of the registry: backward fills back->grad from
 * back->grad_out; back->arg, out and kept are NULL. It owns what it needs. */
typedef struct ol_function {
  ol_object object;
  const char *name; /* lives as long as the function */
  ol_status (*backward)(struct ol_function *self, ol_error *error, ol_back *back);
} ol_function;

/* Records that outputs (new tensors without history) were made by function from inputs. Nothing
 * happens when nothing is to be recorded. Takes a reference to function. */
ol_status ol_record(ol_error *error, ol_function *function, ol_tensor *const *inputs, int count,
                    ol_tensor *const *outputs, int output_count);

/* For backward functions: makes an uninitialised contiguous tensor for back->grad[input], of the
 * input's shape and dtype. Where the gradient is the first one of a leaf it is the leaf's own
 * memory, which saves a copy. */
ol_status ol_back_new(ol_error *error, ol_back *back, int input, ol_tensor **out);

/* The name of the op that made tensor, or NULL for a leaf. */
const char *ol_made_by(const ol_tensor *tensor);

#endif
