/* program: compiles a graph, and owns the result. */
#include "rule/program.h"

#include <string.h>

#include "base/memory.h"
#include "rule/native.h"
#include "rule/schedule.h"

static void free_code(ol_code *code) {
  if (!code) return;
  for (int i = 0; i < code->passes; i++) ol_pass_clear(&code->pass[i]);
  ol_free(code->pass);
  ol_free(code->number_op);
  ol_free(code->product);
  ol_free(code->buffer);
  ol_free(code->shape);
  ol_free(code);
}

static void destroy(ol_object *object) {
  ol_program *self = (ol_program *)object;
  free_code(self->code);
  ol_free(self);
}

/* Passes: for each level first those that write arrays, shape by shape, then reductions over a
 * dimension. */

enum { KEYS = OL_GRAPH_NODES + OL_GRAPH_SHAPES * OL_GRAPH_OPERANDS };

static int pass_keys(const ol_plan *plan, ol_pass_key *keys) {
  int count = 0;
  const ol_graph *graph = plan->graph;
  ol_root roots[OL_ROOTS];
  for (int level = 0; level < plan->levels; level++) {
    for (int shape = 0; shape < graph->shapes; shape++) {
      ol_pass_key key = { level, shape, -1 };
      if (ol_plan_roots(plan, key, roots) > 0) keys[count++] = key;
    }
    for (int n = 0; n < graph->nodes; n++) {
      const ol_graph_node *node = &graph->node[n];
      bool dim = plan->needed[n] && ol_rule_op_is_reduction(node->op) && node->dim >= 0;
      if (dim && plan->level[n] == level)
        keys[count++] = (ol_pass_key){ level, graph->node[node->in[0]].shape, n };
    }
  }
  return count;
}

/* The pass again, of plain instructions, from which machine code can be made. */
static ol_status make_native(ol_error *error, const ol_plan *plan, ol_pass_key key,
                             const ol_root *roots, int count, ol_pass *pass) {
  ol_pass plain;
  if (!ol_kernel_goes_native()) return OL_OK;
  OL_TRY(ol_schedule(error, plan, key, roots, count, false, &plain));
  pass->native = ol_native_compile(plan->graph, &plain);
  ol_pass_clear(&plain);
  return OL_OK;
}

static ol_status make_passes(ol_error *error, const ol_plan *plan, ol_code *code) {
  ol_pass_key keys[KEYS];
  ol_root roots[OL_ROOTS];
  int count = pass_keys(plan, keys);
  OL_TRY(OL_ALLOC(error, sizeof *code->pass * (size_t)count, "a program", &code->pass));
  for (int i = 0; i < count; i++) {
    int wanted = ol_plan_roots(plan, keys[i], roots);
    OL_TRY(ol_schedule(error, plan, keys[i], roots, wanted, true, &code->pass[i]));
    code->passes++;
    OL_TRY(make_native(error, plan, keys[i], roots, wanted, &code->pass[i]));
  }
  return OL_OK;
}

/* Numbers that follow from reductions; done at the end of the level before they can be used. */
static ol_status make_number_ops(ol_error *error, const ol_plan *plan, ol_code *code) {
  const ol_graph *graph = plan->graph;
  size_t size = sizeof *code->number_op * (size_t)graph->nodes;
  OL_TRY(OL_ALLOC(error, size, "a program", &code->number_op));
  for (int n = 0; n < graph->nodes; n++) {
    const ol_graph_node *node = &graph->node[n];
    if (!plan->needed[n] || node->shape != OL_RULE_SCALAR || !ol_rule_op_is_elementwise(node->op))
      continue;
    ol_number_op *op = &code->number_op[code->number_ops++];
    *op = (ol_number_op){ .level = (int16_t)(plan->level[n] - 1), .op = node->op };
    op->out = plan->number[n];
    for (int i = 0; i < 3; i++) op->in[i] = node->in[i] >= 0 ? plan->number[node->in[i]] : -1;
  }
  return OL_OK;
}

/* An operand of a product, seen through a transposition. */
static int product_operand(const ol_plan *plan, int n, int level, bool *turned) {
  const ol_graph *graph = plan->graph;
  n = ol_plan_strip(graph, n);
  *turned = graph->node[n].op == OL_RULE_T;
  if (*turned) n = ol_plan_strip(graph, graph->node[n].in[0]);
  return ol_plan_array(plan, n, level + 1);
}

static ol_status make_products(ol_error *error, const ol_plan *plan, ol_code *code) {
  const ol_graph *graph = plan->graph;
  size_t size = sizeof *code->product * (size_t)graph->nodes;
  OL_TRY(OL_ALLOC(error, size, "a program", &code->product));
  for (int level = 0; level < plan->levels; level++)
    for (int n = 0; n < graph->nodes; n++) {
      const ol_graph_node *node = &graph->node[n];
      if (!plan->needed[n] || node->op != OL_RULE_MATMUL || plan->level[n] != level) continue;
      ol_product *product = &code->product[code->products++];
      const ol_shape *a = &graph->shape[graph->node[node->in[0]].shape];
      const ol_shape *c = &graph->shape[node->shape];
      *product = (ol_product){ .level = (int16_t)level, .c = plan->buffer[n] };
      product->m = c->size[0], product->n = c->size[1], product->k = a->size[1];
      product->a = (int16_t)product_operand(plan, node->in[0], level, &product->turned_a);
      product->b = (int16_t)product_operand(plan, node->in[1], level, &product->turned_b);
    }
  return OL_OK;
}

static ol_status make_arrays(ol_error *error, const ol_plan *plan, ol_code *code) {
  const ol_graph *graph = plan->graph;
  size_t shapes = sizeof *code->shape * (size_t)graph->shapes;
  OL_TRY(OL_ALLOC(error, (size_t)plan->buffers, "a program", &code->buffer));
  OL_TRY(OL_ALLOC(error, shapes, "a program", &code->shape));
  memcpy(code->shape, graph->shape, shapes);
  memcpy(code->buffer, plan->buffer_shape, (size_t)plan->buffers);
  code->shapes = graph->shapes;
  code->buffers = plan->buffers;
  code->numbers = plan->numbers;
  for (int i = 0; i < graph->operands; i++) {
    code->operand_dtype[i] = graph->operand[i].dtype;
    code->operand_packing[i] = graph->operand[i].packing;
    code->operand_shape[i] = graph->operand[i].shape;
  }
  for (int i = 0; i < graph->totals; i++) {
    code->total[i].slot = graph->total[i].slot;
    code->total[i].number = plan->number[graph->total[i].node];
  }
  code->totals = graph->totals;
  return OL_OK;
}

static ol_status make_code(ol_error *error, const ol_plan *plan, ol_code *code) {
  OL_TRY(make_passes(error, plan, code));
  OL_TRY(make_number_ops(error, plan, code));
  OL_TRY(make_products(error, plan, code));
  return make_arrays(error, plan, code);
}

/* What is said about a program. */

static double share(const ol_program *self, int shape) {
  double own = (double)ol_shape_numel(&self->code->shape[OL_RULE_OWN]);
  if (shape == OL_RULE_OWN || own == 0) return 1;
  return (double)ol_shape_numel(&self->code->shape[shape]) / own;
}

/* Counts the bytes that move when `array` is read or written once. */
static void touch(ol_program *self, int array, bool write) {
  const ol_code *code = self->code;
  bool operand = array < self->operands;
  int shape = operand ? code->operand_shape[array] : code->buffer[array - self->operands];
  ol_dtype dtype = operand ? (ol_dtype)code->operand_dtype[array] : self->dtype;
  bool coded = operand && code->operand_packing[array] & OL_PACK_CODES;
  self->bytes += (double)ol_dtype_size(dtype) * share(self, shape);
  if (coded) self->bytes += (double)sizeof(float) / OL_CODES_BLOCK;
  if (!operand) return;
  if (write)
    self->writes |= UINT32_C(1) << array;
  else
    self->reads |= UINT32_C(1) << array;
}

static int slot_array(const ol_pass *pass, int slot) {
  return pass->slot[slot].kind == OL_SLOT_ARRAY ? pass->slot[slot].index : -1;
}

/* The array that an instruction reads as input k, or -1. */
static int array_read(const ol_pass *pass, const ol_instruction *op, int k) {
  if (op->code == OL_CODE_LOAD) return pass->access[op->in[0]].array;
  if (op->code == OL_CODE_REDUCE) k = 0;
  return slot_array(pass, op->in[k]);
}

/* The array that it writes, or -1. */
static int array_written(const ol_pass *pass, const ol_instruction *op) {
  if (op->code == OL_CODE_REDUCE) return -1;
  if (op->code == OL_CODE_STORE) return pass->access[op->out].array;
  return slot_array(pass, op->out);
}

/* In a pass each array counts once for all reads and once for all writes. What is written and then
 * read back comes from the cache. */
static void touch_arrays(ol_program *self, const ol_pass *pass) {
  bool read[OL_GRAPH_OPERANDS + OL_GRAPH_NODES] = { false };
  bool written[OL_GRAPH_OPERANDS + OL_GRAPH_NODES] = { false };
  for (int i = 0; i < pass->instructions; i++) {
    for (int k = 0; k < OL_FORM_ARRAYS; k++) {
      int array = array_read(pass, &pass->instruction[i], k);
      if (array < 0 || read[array] || written[array]) continue;
      touch(self, array, false);
      read[array] = true;
    }
    int array = array_written(pass, &pass->instruction[i]);
    if (array < 0 || written[array]) continue;
    touch(self, array, true);
    written[array] = true;
  }
  if (pass->dim < 0) return;
  int array = slot_array(pass, pass->result);
  if (array >= 0) touch(self, array, false);
  touch(self, pass->target, true);
}

/* Whether a number that was reduced is used for anything but totals. */
static bool uses_reduced_numbers(const ol_plan *plan) {
  const ol_graph *graph = plan->graph;
  for (int n = 0; n < graph->nodes; n++) {
    const ol_graph_node *node = &graph->node[n];
    if (!plan->needed[n] || node->op <= OL_RULE_NUMBER) continue;
    for (int i = 0; i < ol_rule_op_table[node->op].inputs; i++) {
      const ol_graph_node *in = &graph->node[node->in[i]];
      if (in->shape == OL_RULE_SCALAR && in->op != OL_RULE_NUMBER) return true;
    }
  }
  for (int i = 0; i < graph->totals; i++)
    if (graph->node[graph->total[i].node].op != OL_RULE_SUM) return true;
  return false;
}

static void describe(ol_program *self, const ol_plan *plan) {
  const ol_graph *graph = plan->graph;
  self->dtype = graph->dtype;
  self->operands = graph->operands;
  self->numbers = graph->numbers;
  self->shape_bound = graph->shape_bound;
  self->levels = plan->levels;
  self->multiplies = self->code->products > 0;
  self->coalesces = !graph->shape_bound && !uses_reduced_numbers(plan);
  for (int i = 0; i < graph->operands; i++) {
    const int packing = graph->operand[i].packing;
    if (packing & OL_PACK_CODES) self->coalesces = false; /* blocks begin where a tensor does */
    if (packing & OL_PACK_RANDOM && graph->operand[i].store >= 0) self->random = true;
  }
  for (int i = 0; i < graph->totals; i++)
    if (graph->total[i].slot >= self->total_count) self->total_count = graph->total[i].slot + 1;
  for (int i = 0; i < self->code->passes; i++) {
    const ol_pass *pass = &self->code->pass[i];
    self->instructions += pass->instructions;
    self->reduces |= pass->accumulators > 0;
    touch_arrays(self, pass);
  }
  for (int i = 0; i < self->code->products; i++) {
    const ol_product *product = &self->code->product[i];
    touch(self, product->a, false);
    touch(self, product->b, false);
    touch(self, product->c, true);
  }
}

ol_status ol_program_compile(ol_error *error, const ol_graph *graph, ol_program **out) {
  ol_plan *plan;
  ol_program *self = NULL;
  OL_TRY(OL_ALLOC(error, sizeof *plan, "compiling a rule", &plan));
  ol_plan_make(graph, plan);
  ol_status status = OL_ALLOC(error, sizeof *self, "a program", &self);
  if (status != OL_OK) goto done;
  *self = (ol_program){ 0 };
  ol_object_init(&self->object, destroy);
  self->code = ol_alloc_zero(sizeof *self->code);
  if (self->code)
    status = make_code(error, plan, self->code);
  else
    status = ol_fail(error, OL_MEMORY, "out of memory for a program");
  if (status != OL_OK) goto done;
  describe(self, plan);
  *out = ol_retain(self);
done:
  ol_release(self);
  ol_free(plan);
  return status;
}
