/* node: memory and references of one recorded op. */
#include "autograd/node.h"

#include <string.h>

#include "autograd/anomaly.h"
#include "base/memory.h"

const char *ol_node_name(const ol_node *node) {
  return node->op ? node->op->name : node->function->name;
}

int ol_op_params(const ol_op *op) {
  int count = 0;
  while (op->param[count].name) count++;
  return count;
}

void ol_node_spend(ol_node *node) {
  for (int i = 0; i < node->saved_count; i++) ol_release(node->saved[i].tensor);
  node->saved_count = 0;
  for (int i = 0; i < OL_MAX_OUTPUTS; i++) {
    ol_release(node->out[i]);
    node->out[i] = NULL;
  }
  for (int i = 0; i < OL_MAX_KEPT; i++) {
    ol_release(node->kept[i]);
    node->kept[i] = NULL;
  }
  for (int i = 0; i < node->inputs; i++) {
    ol_release(node->edge[i].node);
    ol_release(node->edge[i].leaf);
    node->edge[i].node = NULL;
    node->edge[i].leaf = NULL;
  }
  node->spent = true;
}

static void destroy(ol_object *object) {
  ol_node *self = (ol_node *)object;
  ol_node_spend(self);
  for (int i = 0; i < OL_MAX_OUTPUTS; i++) {
    ol_release(self->grad[i]);
    ol_release(self->hook[i]);
  }
  ol_release(self->function);
  ol_free(self->place);
  ol_free(self);
}

/* One block: the node, then its arrays. */
ol_status ol_node_new(ol_error *error, int inputs, int saved, int params, int items,
                      ol_node **out) {
  size_t size = sizeof(ol_node) + (size_t)inputs * sizeof(ol_edge) +
                (size_t)saved * sizeof(ol_saved) + (size_t)params * sizeof(ol_value) +
                (size_t)items * sizeof(ol_tensor *);
  ol_node *self = ol_alloc(size);
  if (!self) return ol_fail(error, OL_MEMORY, "out of memory: %zu bytes for the tape", size);
  memset(self, 0, size);
  ol_object_init(&self->object, destroy);
  self->inputs = inputs;
  self->edge = (ol_edge *)(self + 1);
  self->saved = (ol_saved *)(self->edge + inputs);
  self->arg = (ol_value *)(self->saved + saved);
  ol_status status = ol_keep_place(error, &self->place);
  if (status != OL_OK)
    ol_release(self);
  else
    *out = self;
  return status;
}

void ol_node_connect(ol_node *node, int i, ol_tensor *tensor) {
  ol_edge *edge = &node->edge[i];
  edge->shape = tensor->shape;
  edge->dtype = tensor->dtype;
  if (!tensor->requires_grad) return;
  edge->output = tensor->output;
  if (tensor->node)
    edge->node = ol_retain((ol_node *)tensor->node);
  else
    edge->leaf = ol_retain(tensor);
}

void ol_node_save(ol_node *node, ol_tensor *tensor) {
  node->saved[node->saved_count++] =
      (ol_saved){ .tensor = ol_retain(tensor), .version = tensor->storage->version };
}

ol_status ol_node_check(ol_error *error, const ol_node *node) {
  for (int i = 0; i < node->saved_count; i++)
    if (node->saved[i].tensor->storage->version != node->saved[i].version)
      return ol_fail(error, OL_STATE,
                     "backward: a tensor that %s needs was changed in place after the forward pass",
                     ol_node_name(node));
  return OL_OK;
}
