/* tape: applies ops and records them. */
#include "autograd/tape.h"

#include "autograd/anomaly.h"
#include "autograd/node.h"
#include "base/local.h"

OL_THREAD_LOCAL bool recording = true;
OL_THREAD_LOCAL uint64_t sequence; /* of the last node */

bool ol_recording(void) { return recording; }

void ol_set_recording(bool on) { recording = on; }

/* Whether a parameter of this kind holds one tensor. */
static bool is_tensor(ol_kind kind) { return kind == OL_TENSOR || kind == OL_OPERAND; }

/* What a call's tensors ask for. */
typedef struct survey {
  int inputs; /* tensors among the arguments */
  int items;  /* those of them that stand in lists */
  int needs;  /* those of them that require a gradient */
} survey;

static survey survey_call(const ol_call *call) {
  survey s = { 0 };
  for (const ol_param *param = call->op->param; param->name; param++) {
    const ol_value *value = &call->arg[param - call->op->param];
    if (is_tensor(param->kind)) {
      s.inputs++;
      s.needs += value->tensor && value->tensor->requires_grad;
    } else if (param->kind == OL_TENSORS) {
      s.inputs += value->tensors.count;
      s.items += value->tensors.count;
      for (int i = 0; i < value->tensors.count; i++)
        s.needs += value->tensors.item[i]->requires_grad;
    }
  }
  return s;
}

/* Whether backward reads the tensors of parameter p. */
static bool is_saved(const ol_call *call, const survey *s, int p) {
  const ol_tensor *own = is_tensor(call->op->param[p].kind) ? call->arg[p].tensor : NULL;
  if (call->op->saves & OL_SAVE_ARG(p)) return true;
  return call->op->saves & OL_SAVE_FOR_OTHERS(p) && s->needs > (own && own->requires_grad);
}

/* Connects the tensors of the arguments, and keeps the arguments with the tensors that are saved.
 * Outputs are saved as aliases, later. */
static void take_arguments(ol_node *node, const ol_call *call, const survey *s) {
  ol_tensor **items = (ol_tensor **)(node->arg + ol_op_params(call->op));
  int input = 0;
  for (int p = 0; call->op->param[p].name; p++) {
    const ol_value *value = &call->arg[p];
    bool saved = is_saved(call, s, p);
    node->arg[p] = *value;
    if (is_tensor(call->op->param[p].kind)) {
      if (value->tensor) ol_node_connect(node, input, value->tensor);
      input++;
      if (saved && value->tensor)
        ol_node_save(node, value->tensor);
      else
        node->arg[p].tensor = NULL;
    } else if (call->op->param[p].kind == OL_TENSORS) {
      node->arg[p].tensors.item = items;
      for (int i = 0; i < value->tensors.count; i++) {
        ol_node_connect(node, input++, value->tensors.item[i]);
        items[i] = saved ? value->tensors.item[i] : NULL;
        if (saved) ol_node_save(node, items[i]);
      }
      items += value->tensors.count;
    }
  }
}

static ol_status make_node(ol_error *error, const ol_call *call, const survey *s, ol_node **out) {
  ol_node *node;
  OL_TRY(ol_node_new(error, s->inputs, s->inputs + OL_MAX_OUTPUTS, ol_op_params(call->op), s->items,
                     &node));
  node->op = call->op;
  take_arguments(node, call, s);
  *out = node;
  return OL_OK;
}

/* Makes output the product of node. */
static void attach(ol_node *node, ol_tensor *output, int place) {
  if (!ol_dtype_is_float(output->dtype)) return;
  ol_object_release(output->node);
  output->node = &ol_retain(node)->object;
  output->output = place;
  output->requires_grad = true;
}

/* Aliases of the outputs that backward reads: without history, so that no cycle arises. */
static ol_status alias_outputs(ol_error *error, ol_node *node, ol_tensor *const *outputs) {
  for (int i = 0; i < OL_MAX_OUTPUTS; i++)
    if (node->op->saves & OL_SAVE_OUT(i) && outputs[i])
      OL_TRY(ol_tensor_alias(error, outputs[i], &node->out[i]));
  return OL_OK;
}

/* Whether forward handed back one of its arguments: then there is nothing to record. */
static bool is_identity(const ol_call *call) {
  for (int p = 0; call->op->param[p].name; p++)
    if (is_tensor(call->op->param[p].kind) && call->arg[p].tensor == call->out[0]) return true;
  return false;
}

static void drop_outputs(ol_call *call) {
  for (int i = 0; i < OL_MAX_OUTPUTS; i++) {
    ol_release(call->out[i]);
    call->out[i] = NULL;
  }
}

static void drop_kept(ol_call *call) {
  for (int i = 0; i < OL_MAX_KEPT; i++) {
    ol_release(call->kept[i]);
    call->kept[i] = NULL;
  }
}

/* Finishes the record after forward has run. */
static void finish(ol_node *node, ol_call *call) {
  for (int i = 0; i < OL_MAX_KEPT; i++) {
    node->kept[i] = call->kept[i];
    call->kept[i] = NULL;
  }
  node->sequence = ++sequence;
  for (int i = 0; i < OL_MAX_OUTPUTS; i++) {
    if (node->out[i]) ol_node_save(node, node->out[i]);
    if (call->out[i]) attach(node, call->out[i], i);
  }
}

/* An op that writes in place is refused where the record would lie. */
static ol_status check_in_place(ol_error *error, const ol_call *call) {
  const ol_tensor *self = call->arg[0].tensor;
  if (self->requires_grad && ol_is_leaf(self))
    return ol_fail(error, OL_STATE,
                   "%s: a leaf that requires a gradient cannot be changed in place; do it inside "
                   "optlua.no_grad",
                   call->op->name);
  if (self->storage->object.references > 1)
    return ol_fail(error, OL_STATE,
                   "%s: the tensor shares its memory with a view, or with a value that backward "
                   "needs; use the form that makes a new tensor",
                   call->op->name);
  return OL_OK;
}

/* In place, everything that can fail comes before forward writes. */
static ol_status forward_in_place(ol_error *error, ol_node *node, ol_call *call) {
  ol_tensor *outputs[OL_MAX_OUTPUTS] = { call->arg[0].tensor };
  OL_TRY(check_in_place(error, call));
  OL_TRY(alias_outputs(error, node, outputs));
  OL_TRY(call->op->forward(error, call));
  finish(node, call);
  return OL_OK;
}

static ol_status forward(ol_error *error, ol_node *node, ol_call *call) {
  OL_TRY(call->op->forward(error, call));
  if (is_identity(call)) return OL_OK;
  OL_TRY(alias_outputs(error, node, call->out));
  finish(node, call);
  return OL_OK;
}

static ol_status apply_recorded(ol_error *error, ol_call *call, const survey *s) {
  ol_node *node;
  OL_TRY(make_node(error, call, s, &node));
  ol_status status = call->op->flags & OL_OP_INPLACE ? forward_in_place(error, node, call)
                                                     : forward(error, node, call);
  ol_release(node);
  return status;
}

ol_status ol_apply(ol_error *error, const ol_op *op, ol_call *call) {
  survey s = { 0 };
  call->op = op;
  if (recording && op->backward) s = survey_call(call);
  call->recording = s.needs;
  ol_status status = s.needs ? apply_recorded(error, call, &s) : op->forward(error, call);
  if (status == OL_OK && ol_watching()) status = ol_watch_forward(error, call);
  drop_kept(call);
  if (status != OL_OK) drop_outputs(call);
  return status;
}

ol_status ol_record(ol_error *error, ol_function *function, ol_tensor *const *inputs, int count,
                    ol_tensor *const *outputs, int output_count) {
  ol_node *node;
  bool needs = false;
  for (int i = 0; i < count; i++) needs |= inputs[i]->requires_grad;
  if (!recording || !needs) return OL_OK;
  if (output_count > OL_MAX_OUTPUTS)
    return ol_fail(error, OL_ARGUMENT, "%s: at most %d outputs can be recorded", function->name,
                   OL_MAX_OUTPUTS);
  OL_TRY(ol_node_new(error, count, 0, 0, 0, &node));
  node->function = ol_retain(function);
  for (int i = 0; i < count; i++) ol_node_connect(node, i, inputs[i]);
  node->sequence = ++sequence;
  for (int i = 0; i < output_count; i++) attach(node, outputs[i], i);
  ol_release(node);
  return OL_OK;
}

ol_status ol_set_requires_grad(ol_error *error, ol_tensor *tensor, bool on) {
  if (!ol_is_leaf(tensor))
    return on ? OL_OK
              : ol_fail(error, OL_STATE,
                        "requires_grad: the result of %s is not a leaf; use :detach()",
                        ol_made_by(tensor));
  if (on && !ol_dtype_computes(tensor->dtype))
    return ol_fail(error, OL_DTYPE,
                   "requires_grad: only float32 and float64 tensors have gradients, not %s",
                   ol_dtype_name(tensor->dtype));
  tensor->requires_grad = on;
  return OL_OK;
}

ol_status ol_set_grad(ol_error *error, ol_tensor *tensor, ol_tensor *gradient) {
  ol_tensor *copy = NULL;
  if (!gradient) {
    tensor->has_grad = false;
    return OL_OK;
  }
  if (gradient->dtype != tensor->dtype || !ol_shape_equal(&gradient->shape, &tensor->shape)) {
    char own[OL_SHAPE_TEXT], other[OL_SHAPE_TEXT];
    return ol_fail(error, OL_SHAPE, "grad: a gradient of %s %s was expected, got %s %s",
                   ol_dtype_name(tensor->dtype), ol_shape_text(&tensor->shape, own),
                   ol_dtype_name(gradient->dtype), ol_shape_text(&gradient->shape, other));
  }
  if (tensor->grad == gradient) {
    tensor->has_grad = true;
    return OL_OK;
  }
  if (tensor->grad && ol_grad_is_spare(tensor))
    OL_TRY(ol_tensor_copy(error, tensor->grad, gradient));
  else {
    OL_TRY(ol_tensor_clone(error, gradient, &copy));
    ol_release(tensor->grad);
    tensor->grad = copy;
  }
  tensor->has_grad = true;
  return OL_OK;
}

static ol_hook **hook_place(ol_tensor *tensor) {
  if (!tensor->node) return (ol_hook **)&tensor->hook;
  return &((ol_node *)tensor->node)->hook[tensor->output];
}

ol_status ol_set_hook(ol_error *error, ol_tensor *tensor, ol_hook *hook) {
  if (!tensor->requires_grad)
    return ol_fail(error, OL_STATE, "hook: the tensor does not require a gradient");
  ol_hook **place = hook_place(tensor), *old = *place;
  *place = hook ? ol_retain(hook) : NULL;
  ol_release(old);
  return OL_OK;
}

ol_hook *ol_hook_of(const ol_tensor *tensor) { return *hook_place((ol_tensor *)tensor); }

const char *ol_made_by(const ol_tensor *tensor) {
  return tensor->node ? ol_node_name((const ol_node *)tensor->node) : NULL;
}
