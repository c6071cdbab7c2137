/* backward: walks the recorded graph from one tensor to the leaves.
 *
 * Nodes are visited in reverse order of recording, so that each has all its contributions when its
 * turn comes. Leaves collect theirs in `pending`, and take them over only when everything has
 * succeeded; those of a leaf with a taker go to that as soon as they are complete. */
#include <stdlib.h>
#include <string.h>

#include "autograd/anomaly.h"
#include "autograd/node.h"
#include "base/local.h"
#include "base/memory.h"
#include "tensor/accumulate.h"

OL_THREAD_LOCAL uint64_t visits; /* number of the last walk */

/* A growing list of references. */
typedef struct list {
  void **item;
  int64_t count, capacity;
} list;

/* One walk. */
typedef struct walk {
  uint64_t visit;
  list nodes;  /* reached; then sorted, last recorded first */
  list leaves; /* reached */
  list takers; /* of those, each once */
  int inputs;  /* the most that any node has */
} walk;

static ol_status append(ol_error *error, list *l, void *item) {
  if (l->count == l->capacity) {
    int64_t capacity = l->capacity ? 2 * l->capacity : 32;
    void *grown;
    OL_TRY(ol_alloc_for(error, (size_t)capacity * sizeof *l->item, "backward", &grown));
    if (l->count) memcpy(grown, l->item, (size_t)l->count * sizeof *l->item);
    ol_free(l->item);
    l->item = grown;
    l->capacity = capacity;
  }
  l->item[l->count++] = item;
  return OL_OK;
}

static ol_status reach_node(ol_error *error, walk *w, ol_node *node) {
  if (node->visit == w->visit) return OL_OK;
  if (node->spent)
    return ol_fail(error, OL_STATE,
                   "backward: the graph of this tensor was freed by an earlier backward; pass "
                   "{ retain_graph = true } to that one");
  OL_TRY(append(error, &w->nodes, node));
  (void)ol_retain(node);
  node->visit = w->visit;
  if (node->inputs > w->inputs) w->inputs = node->inputs;
  return OL_OK;
}

/* A backward that a hook calls must not meet the one that it runs in: every node leads to a leaf,
 * so this also keeps it from a graph that is still to be walked. */
static ol_status reach_leaf(ol_error *error, walk *w, ol_tensor *leaf) {
  if (leaf->visit != 0 && leaf->visit != w->visit)
    return ol_fail(error, OL_STATE,
                   "backward: called from inside a backward that uses the same leaf");
  if (leaf->visit == 0) {
    OL_TRY(append(error, &w->leaves, leaf));
    (void)ol_retain(leaf);
    leaf->visit = w->visit;
  }
  leaf->awaited++;
  return OL_OK;
}

/* Finds every node and leaf below root; w->nodes is its own queue. */
static ol_status discover(ol_error *error, walk *w, ol_node *root) {
  OL_TRY(reach_node(error, w, root));
  for (int64_t i = 0; i < w->nodes.count; i++) {
    ol_node *node = w->nodes.item[i];
    for (int k = 0; k < node->inputs; k++) {
      if (node->edge[k].node) OL_TRY(reach_node(error, w, node->edge[k].node));
      if (node->edge[k].leaf) OL_TRY(reach_leaf(error, w, node->edge[k].leaf));
    }
  }
  return OL_OK;
}

static int later_first(const void *a, const void *b) {
  uint64_t x = (*(ol_node *const *)a)->sequence, y = (*(ol_node *const *)b)->sequence;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* The dtype of the gradient of a tensor: sums need one that computes. */
static ol_dtype gradient_dtype(ol_dtype dtype) { return ol_dtype_computes(dtype) ? dtype : OL_F32; }

/* Whether nobody else can see a tensor's elements. */
static bool is_ours(const ol_tensor *tensor) {
  return tensor->object.references == 1 && tensor->storage->object.references == 1 &&
         !ol_tensor_overlaps_itself(tensor);
}

/* sum += gradient, taking over the reference to gradient. A sum that others can see is copied
 * first. */
static ol_status contribute(ol_error *error, ol_tensor **sum, bool owned, ol_tensor *gradient) {
  ol_status status = OL_OK;
  if (!*sum) {
    *sum = gradient;
    return OL_OK;
  }
  if (!owned && !is_ours(*sum)) {
    ol_tensor *copy;
    status = ol_tensor_clone(error, *sum, &copy);
    if (status == OL_OK) {
      ol_release(*sum);
      *sum = copy;
    }
  }
  if (status == OL_OK) ol_tensor_accumulate(*sum, gradient);
  ol_release(gradient);
  return status;
}

/* Shows a gradient to a hook, which may replace it. */
static ol_status run_hook(ol_error *error, ol_hook *hook, ol_tensor **gradient) {
  ol_tensor *replacement = NULL;
  if (!hook) return OL_OK;
  (void)ol_retain(hook); /* the script may remove it meanwhile */
  ol_status status = hook->call(hook, error, *gradient, &replacement);
  ol_release(hook);
  if (status != OL_OK || !replacement) return status;
  if (replacement->dtype != (*gradient)->dtype ||
      !ol_shape_equal(&replacement->shape, &(*gradient)->shape)) {
    ol_release(replacement);
    return ol_fail(error, OL_SHAPE,
                   "hook: the gradient that it returns has another shape or dtype");
  }
  ol_release(*gradient);
  *gradient = replacement;
  return OL_OK;
}

/* Hands the gradient of a leaf to its taker, if that awaits it. */
static ol_status hand_over(ol_error *error, ol_tensor *leaf) {
  ol_taker *taker = (ol_taker *)leaf->taker;
  if (!taker || taker->visit != leaf->visit) return OL_OK;
  OL_TRY(taker->take(taker, error, leaf, leaf->pending));
  ol_release(leaf->pending);
  leaf->pending = NULL;
  return OL_OK;
}

/* A contribution to a leaf has arrived (or, NULL, will never). */
static ol_status deliver_leaf(ol_error *error, ol_tensor *leaf, ol_tensor *gradient) {
  bool owned = leaf->pending == leaf->grad && !leaf->has_grad; /* of ol_back_new, not of a hook */
  if (gradient) OL_TRY(contribute(error, &leaf->pending, owned, gradient));
  if (--leaf->awaited > 0 || !leaf->pending) return OL_OK;
  OL_TRY(run_hook(error, (ol_hook *)leaf->hook, &leaf->pending));
  return hand_over(error, leaf);
}

/* Hands gradient (taken over; may be NULL) to where input i of node came from. */
static ol_status deliver(ol_error *error, ol_node *node, int i, ol_tensor *gradient) {
  const ol_edge *edge = &node->edge[i];
  ol_tensor *fitted = NULL;
  if (gradient) {
    ol_dtype dtype = gradient_dtype(edge->dtype);
    ol_status status = ol_tensor_sum_to(error, gradient, &edge->shape, dtype, &fitted);
    ol_release(gradient);
    OL_TRY(status);
  }
  if (edge->leaf) return deliver_leaf(error, edge->leaf, fitted);
  if (!fitted) return OL_OK;
  return contribute(error, &edge->node->grad[edge->output], false, fitted);
}

ol_status ol_back_new(ol_error *error, ol_back *back, int input, ol_tensor **out) {
  ol_tensor *leaf = back->leaf[input];
  if (leaf && !leaf->pending && !leaf->has_grad && leaf->grad && leaf->awaited == 1 &&
      ol_grad_is_spare(leaf) && ol_tensor_is_contiguous(leaf->grad)) {
    *out = ol_retain(leaf->grad);
    ol_tensor_touch(leaf->grad);
    return OL_OK;
  }
  return ol_tensor_new(error, gradient_dtype(back->dtype[input]), back->shape[input], out);
}

/* Room for one call of backward on any node of a walk. */
typedef struct room {
  bool takers; /* whether leaves are written during the walk */
  const ol_shape **shape;
  ol_dtype *dtype;
  bool *needs;
  ol_tensor **leaf, **grad;
} room;

static ol_status make_room(ol_error *error, int inputs, room *r) {
  size_t n = (size_t)inputs;
  void *block;
  OL_TRY(ol_alloc_for(error, n * (3 * sizeof(void *) + sizeof(ol_dtype) + sizeof(bool)), "backward",
                      &block));
  r->shape = block;
  r->leaf = (ol_tensor **)(r->shape + n);
  r->grad = r->leaf + n;
  r->dtype = (ol_dtype *)(r->grad + n);
  r->needs = (bool *)(r->dtype + n);
  return OL_OK;
}

static ol_status call_backward(ol_error *error, ol_node *node, const room *r) {
  for (int i = 0; i < node->inputs; i++) {
    const ol_edge *edge = &node->edge[i];
    r->shape[i] = &edge->shape;
    r->dtype[i] = edge->dtype;
    r->needs[i] = edge->node || edge->leaf;
    r->leaf[i] = edge->leaf;
  }
  ol_back back = { .op = node->op,
                   .arg = node->arg,
                   .out = node->out,
                   .kept = node->kept,
                   .grad_out = node->grad,
                   .inputs = node->inputs,
                   .shape = r->shape,
                   .dtype = r->dtype,
                   .needs = r->needs,
                   .leaf = r->leaf,
                   .grad = r->grad };
  if (node->op) return node->op->backward(error, &back);
  return node->function->backward(node->function, error, &back);
}

/* Copies a gradient whose memory others see, unless it is that of one that came to the node: a
 * taker may write what lies there before the gradient is used. */
static ol_status part(ol_error *error, const ol_node *node, ol_tensor **gradient) {
  ol_tensor *g = *gradient, *copy;
  if (!g || (g->object.references == 1 && g->storage->object.references == 1)) return OL_OK;
  for (int k = 0; k < OL_MAX_OUTPUTS; k++)
    if (&node->grad[k] != gradient && node->grad[k] && node->grad[k]->storage == g->storage)
      return OL_OK;
  OL_TRY(ol_tensor_clone(error, g, &copy));
  ol_release(g);
  *gradient = copy;
  return OL_OK;
}

/* Whether any output of node has a gradient; runs the hooks of those that have. */
static ol_status run_node_hooks(ol_error *error, ol_node *node, const room *r, bool *any) {
  for (int i = 0; i < OL_MAX_OUTPUTS; i++) {
    if (!node->grad[i]) continue;
    *any = true;
    OL_TRY(run_hook(error, node->hook[i], &node->grad[i]));
    if (r->takers && node->hook[i]) OL_TRY(part(error, node, &node->grad[i]));
  }
  return OL_OK;
}

/* Looks at what reaches a node, and at what it made of that. */
static ol_status watch(ol_error *error, const ol_node *node, const room *r) {
  const char *name = ol_node_name(node);
  for (int i = 0; i < OL_MAX_OUTPUTS; i++)
    OL_TRY(ol_watch_gradient(error, node->grad[i], name, node->place, -1));
  for (int i = 0; i < node->inputs; i++)
    OL_TRY(ol_watch_gradient(error, r->grad[i], name, node->place, i));
  return OL_OK;
}

static ol_status part_all(ol_error *error, const ol_node *node, const room *r) {
  for (int i = 0; i < node->inputs; i++) OL_TRY(part(error, node, &r->grad[i]));
  return OL_OK;
}

static ol_status visit_node(ol_error *error, ol_node *node, const room *r) {
  bool any = false;
  OL_TRY(run_node_hooks(error, node, r, &any));
  for (int i = 0; i < node->inputs; i++) r->grad[i] = NULL;
  ol_status status = any ? ol_node_check(error, node) : OL_OK;
  if (status == OL_OK && any) status = call_backward(error, node, r);
  if (status == OL_OK && any && r->takers) status = part_all(error, node, r);
  if (status == OL_OK && any && ol_watching()) status = watch(error, node, r);
  for (int i = 0; i < node->inputs; i++) {
    if (status == OL_OK && (node->edge[i].node || node->edge[i].leaf))
      status = deliver(error, node, i, r->grad[i]);
    else
      ol_release(r->grad[i]);
  }
  for (int i = 0; i < OL_MAX_OUTPUTS; i++) {
    ol_release(node->grad[i]);
    node->grad[i] = NULL;
  }
  return status;
}

/* Visits all nodes; without retain each is freed as soon as it has been visited. */
static ol_status visit_all(ol_error *error, walk *w, bool retain) {
  room r = { .takers = w->takers.count > 0 };
  OL_TRY(make_room(error, w->inputs, &r));
  ol_status status = OL_OK;
  for (int64_t i = 0; i < w->nodes.count && status == OL_OK; i++) {
    ol_node *node = w->nodes.item[i];
    status = visit_node(error, node, &r);
    if (retain) continue;
    ol_node_spend(node);
    w->nodes.item[i] = NULL;
    ol_release(node);
  }
  ol_free(r.shape);
  return status;
}

/* Gives a leaf a pending gradient that taking over can use as it is: its own, dense, or apart from
 * the memory of the gradient that it may be added or copied to. */
static ol_status prepare_leaf(ol_error *error, ol_tensor *leaf) {
  ol_tensor *copy, *pending = leaf->pending;
  bool dense = is_ours(pending) && ol_tensor_is_contiguous(pending);
  bool apart = leaf->grad && leaf->grad->storage != pending->storage &&
               (leaf->has_grad || ol_grad_is_spare(leaf));
  if (pending == leaf->grad || dense || apart) return OL_OK;
  OL_TRY(ol_tensor_clone(error, pending, &copy));
  ol_release(pending);
  leaf->pending = copy;
  return OL_OK;
}

/* Adds pending to the gradient that is present, or lets it become the gradient. Memory that lives
 * in a home (an optimizer's slab) stays where it is. Cannot fail. */
static void take_over(ol_tensor *leaf) {
  ol_error unused;
  ol_tensor *pending = leaf->pending;
  leaf->pending = NULL;
  if (leaf->has_grad) {
    ol_tensor_accumulate(leaf->grad, pending);
    ol_tensor_touch(leaf->grad);
  } else if (pending != leaf->grad && leaf->grad) {
    if (is_ours(pending) && !leaf->grad->storage->home && ol_tensor_is_contiguous(pending)) {
      ol_release(leaf->grad);
      leaf->grad = ol_retain(pending);
    } else
      ol_tensor_copy(&unused, leaf->grad, pending);
  } else if (!leaf->grad)
    leaf->grad = ol_retain(pending);
  leaf->has_grad = true;
  ol_release(pending);
}

static ol_status commit(ol_error *error, walk *w) {
  for (int64_t i = 0; i < w->leaves.count; i++) {
    ol_tensor *leaf = w->leaves.item[i];
    if (leaf->pending) OL_TRY(prepare_leaf(error, leaf));
  }
  for (int64_t i = 0; i < w->leaves.count; i++) {
    ol_tensor *leaf = w->leaves.item[i];
    if (leaf->pending) take_over(leaf);
  }
  return OL_OK;
}

/* Tells the takers of leaves what is to come. */
static ol_status begin_takers(ol_error *error, walk *w) {
  for (int64_t i = 0; i < w->leaves.count; i++) {
    ol_taker *taker = (ol_taker *)((ol_tensor *)w->leaves.item[i])->taker;
    if (!taker || taker->visit == w->visit) continue;
    OL_TRY(append(error, &w->takers, taker));
    (void)ol_retain(taker);
    OL_TRY(taker->begin(taker, error, w->visit));
  }
  return OL_OK;
}

static void end_takers(walk *w) {
  for (int64_t i = 0; i < w->takers.count; i++) {
    ol_taker *taker = w->takers.item[i];
    taker->end(taker, w->visit);
    ol_release(taker);
  }
  ol_free(w->takers.item);
}

/* Releases what the walk holds; after a failure, also what it has left behind in the graph. */
static void finish(walk *w) {
  end_takers(w);
  for (int64_t i = 0; i < w->nodes.count; i++) {
    ol_node *node = w->nodes.item[i];
    for (int k = 0; node && k < OL_MAX_OUTPUTS; k++) {
      ol_release(node->grad[k]);
      node->grad[k] = NULL;
    }
    ol_release(node);
  }
  for (int64_t i = 0; i < w->leaves.count; i++) {
    ol_tensor *leaf = w->leaves.item[i];
    ol_release(leaf->pending);
    leaf->pending = NULL;
    leaf->awaited = 0;
    leaf->visit = 0;
    ol_release(leaf);
  }
  ol_free(w->nodes.item);
  ol_free(w->leaves.item);
}

/* The gradient that the walk begins with: seed, or ones. One reference. */
static ol_status make_seed(ol_error *error, ol_tensor *tensor, ol_tensor *seed, ol_tensor **out) {
  char own[OL_SHAPE_TEXT], other[OL_SHAPE_TEXT];
  if (!seed && tensor->numel != 1)
    return ol_fail(error, OL_SHAPE,
                   "backward: a tensor of shape %s needs a seed gradient of that shape, or to be "
                   "made one number before, by sum() or mean()",
                   ol_shape_text(&tensor->shape, own));
  if (seed && (seed->dtype != tensor->dtype || !ol_shape_equal(&seed->shape, &tensor->shape)))
    return ol_fail(error, OL_SHAPE, "backward: a seed gradient of %s %s was expected, got %s %s",
                   ol_dtype_name(tensor->dtype), ol_shape_text(&tensor->shape, own),
                   ol_dtype_name(seed->dtype), ol_shape_text(&seed->shape, other));
  OL_TRY(ol_tensor_new(error, gradient_dtype(tensor->dtype), &tensor->shape, out));
  ol_status status = seed ? ol_tensor_copy(error, *out, seed) : ol_tensor_fill(error, *out, 1);
  if (status != OL_OK) ol_release(*out);
  return status;
}

static ol_status walk_from(ol_error *error, walk *w, ol_tensor *tensor, ol_tensor *seed,
                           bool retain) {
  ol_tensor *first;
  if (!tensor->node)
    OL_TRY(reach_leaf(error, w, tensor));
  else
    OL_TRY(discover(error, w, (ol_node *)tensor->node));
  OL_TRY(begin_takers(error, w));
  OL_TRY(make_seed(error, tensor, seed, &first));
  if (!tensor->node)
    OL_TRY(deliver_leaf(error, tensor, first));
  else
    ((ol_node *)tensor->node)->grad[tensor->output] = first;
  if (w->nodes.count)
    qsort(w->nodes.item, (size_t)w->nodes.count, sizeof *w->nodes.item, later_first);
  OL_TRY(visit_all(error, w, retain));
  return commit(error, w);
}

ol_status ol_backward(ol_error *error, ol_tensor *tensor, ol_tensor *seed, bool retain) {
  if (!tensor->requires_grad)
    return ol_fail(error, OL_STATE,
                   "backward: the tensor does not depend on anything that requires a gradient");
  walk w = { .visit = ++visits };
  ol_status status = walk_from(error, &w, tensor, seed, retain);
  finish(&w);
  return status;
}
