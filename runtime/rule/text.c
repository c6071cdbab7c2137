/* text: programs as people read them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "rule/code.h"
#include "rule/program.h"

typedef struct text {
  const ol_program *program;
  const ol_pass *pass;
  const char *const *names;
  const double *numbers;
  char *data;
  size_t length, capacity;
  bool failed; /* out of memory; what follows is dropped */
} text;

static void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool grow(text *t, size_t need) {
  if (t->length + need < t->capacity) return true;
  size_t capacity = 2 * (t->length + need) + 1024;
  char *data = ol_alloc(capacity);
  t->failed |= !data;
  if (!data) return false;
  if (t->data) memcpy(data, t->data, t->length);
  ol_free(t->data);
  t->data = data;
  t->capacity = capacity;
  return true;
}

static void put(text *t, const char *format, ...) {
  char piece[256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(piece, sizeof piece, format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof piece) length = sizeof piece - 1;
  if (t->failed || !grow(t, (size_t)length + 1)) return;
  memcpy(t->data + t->length, piece, (size_t)length + 1);
  t->length += (size_t)length;
}

/* Values. */

static void put_array(text *t, int array) {
  int operands = t->program->operands;
  if (array < operands)
    put(t, "%s", t->names[array]);
  else
    put(t, "buffer%d", array - operands + 1);
}

/* A number without its sign. Arguments are c0, c1 …; what is computed n0, n1 … */
static void put_number(text *t, int source) {
  if (source == OL_FACTOR_ONE)
    put(t, "1");
  else if (source == OL_FACTOR_NOTHING)
    put(t, "0");
  else if (source >= t->program->numbers)
    put(t, "n%d", source - t->program->numbers);
  else if (t->numbers)
    put(t, "%.6g", t->numbers[source]);
  else
    put(t, "c%d", source);
}

/* Tiles count from 1; those of constants and the gradient come first and are not shown. */
static int tile_number(const text *t, int tile) {
  int hidden = t->pass->gradient >= 0;
  for (int i = 0; i < t->pass->slots; i++) hidden += t->pass->slot[i].kind == OL_SLOT_CONSTANT;
  return tile - hidden + 1;
}

static void put_slot(text *t, int index) {
  const ol_pass_slot *slot = &t->pass->slot[index];
  if (slot->kind == OL_SLOT_ARRAY)
    put_array(t, slot->index);
  else if (slot->kind == OL_SLOT_TILE)
    put(t, "t%d", tile_number(t, slot->index));
  else
    put_number(t, slot->factor.source);
}

/* Operations: an infix between their inputs, or a call. */

static const char *const infix[OL_RULE_OP_COUNT] = {
  [OL_RULE_ADD] = "+", [OL_RULE_SUB] = "-", [OL_RULE_MUL] = "*", [OL_RULE_DIV] = "/",
  [OL_RULE_POW] = "^", [OL_RULE_LT] = "<",  [OL_RULE_LE] = "<=", [OL_RULE_GT] = ">",
  [OL_RULE_GE] = ">=", [OL_RULE_EQ] = "==", [OL_RULE_NE] = "~=",
};

/* What stands before input i, and after the last one. */
static void put_before(text *t, int operation, int i) {
  if (!infix[operation])
    put(t, i > 0 ? ", " : "%s(", ol_rule_op_table[operation].name);
  else if (i > 0)
    put(t, " %s ", infix[operation]);
}

static void put_after(text *t, int operation) {
  if (!infix[operation]) put(t, ")");
}

/* Fused forms, without the numbers that a rule does not have. */

enum { SUM = 1, PRODUCT, POWER }; /* how tightly an expression binds */

static bool is_neutral(ol_factor factor) { return factor.source < 0 && factor.sign > 0; }

static bool is_negative(const text *t, ol_factor factor) {
  bool argument = t->numbers && factor.source >= 0 && factor.source < t->program->numbers;
  return (factor.sign < 0) != (argument && t->numbers[factor.source] < 0);
}

static void put_factor(text *t, ol_factor factor) {
  bool argument = t->numbers && factor.source >= 0 && factor.source < t->program->numbers;
  if (argument)
    put(t, "%.6g",
        t->numbers[factor.source] < 0 ? -t->numbers[factor.source] : t->numbers[factor.source]);
  else
    put_number(t, factor.source);
}

static void put_form(text *t, const ol_instruction *op, const uint8_t *at, int binding);

static ol_factor factor_at(const ol_instruction *op, uint8_t letter) {
  return op->factor[letter - 'a'];
}

/* number * value; `signed_before`: the sum around it has written the sign. */
static void put_scaled(text *t, const ol_instruction *op, const uint8_t *at, int binding,
                       bool signed_before) {
  ol_factor factor = factor_at(op, at[1]);
  bool minus = is_negative(t, factor) && !signed_before;
  bool bare = factor.source == OL_FACTOR_ONE;
  bool brackets = binding > PRODUCT && !(bare && !minus);
  if (brackets) put(t, "(");
  if (minus) put(t, "-");
  if (!bare) {
    put_factor(t, factor);
    put(t, "*");
  }
  put_form(t, op, at + 2, bare && !minus ? binding : POWER);
  if (brackets) put(t, ")");
}

static bool is_scaled(const uint8_t *at) { return *at == OL_RULE_MUL && ol_form_is_number(at[1]); }

/* left + right, or left + number */
static void put_sum(text *t, const ol_instruction *op, const uint8_t *at, int binding) {
  const uint8_t *left = at + 1, *right = ol_form_skip(left);
  bool number = ol_form_is_number(*right);
  if (number && is_neutral(factor_at(op, *right))) {
    put_form(t, op, left, binding);
    return;
  }
  if (binding > SUM) put(t, "(");
  put_form(t, op, left, SUM);
  ol_factor sign = factor_at(op, number ? *right : right[1]);
  bool minus = (number || is_scaled(right)) && is_negative(t, sign);
  put(t, minus ? " - " : " + ");
  if (number)
    put_factor(t, sign);
  else if (minus)
    put_scaled(t, op, right, PRODUCT, true);
  else
    put_form(t, op, right, PRODUCT);
  if (binding > SUM) put(t, ")");
}

/* left * right, left / right, left / number */
static void put_product(text *t, const ol_instruction *op, const uint8_t *at, int binding) {
  const uint8_t *left = at + 1, *right = ol_form_skip(left);
  bool number = ol_form_is_number(*right);
  if (number && is_neutral(factor_at(op, *right))) {
    put_form(t, op, left, binding);
    return;
  }
  if (binding > PRODUCT) put(t, "(");
  put_form(t, op, left, PRODUCT);
  put(t, *at == OL_RULE_MUL ? "*" : "/");
  if (number)
    put_number(t, factor_at(op, *right).source);
  else
    put_form(t, op, right, POWER);
  if (binding > PRODUCT) put(t, ")");
}

static void put_call(text *t, const ol_instruction *op, const uint8_t *at) {
  const uint8_t *input = at + 1;
  for (int i = 0; i < ol_form_inputs(*at); i++, input = ol_form_skip(input)) {
    put_before(t, *at, i);
    if (ol_form_is_number(*input))
      put_number(t, factor_at(op, *input).source);
    else
      put_form(t, op, input, SUM);
  }
  put_after(t, *at);
}

static void put_form(text *t, const ol_instruction *op, const uint8_t *at, int binding) {
  if (ol_form_is_array(*at))
    put_slot(t, op->in[*at - 'x']);
  else if (*at == OL_RULE_ADD)
    put_sum(t, op, at, binding);
  else if (is_scaled(at))
    put_scaled(t, op, at, binding, false);
  else if (*at == OL_RULE_MUL || *at == OL_RULE_DIV)
    put_product(t, op, at, binding);
  else
    put_call(t, op, at);
}

/* Instructions. */

static void put_plain(text *t, const ol_instruction *op) {
  int operation = op->code - OL_CODE_OP;
  for (int i = 0; i < ol_rule_op_table[operation].inputs; i++) {
    put_before(t, operation, i);
    put_slot(t, op->in[i]);
  }
  put_after(t, operation);
}

static void put_access(text *t, const ol_access *access) {
  const char *how = access->layout == OL_ACCESS_GATHERED ? "spread"
                    : access->layout == OL_ACCESS_TURNED ? "t"
                    : access->dtype != t->program->dtype ? ol_dtype_name(t->program->dtype)
                                                         : NULL;
  if (how) put(t, "%s(", how);
  put_array(t, access->array);
  if (how) put(t, ")");
}

static void put_target(text *t, const ol_instruction *op) {
  if (op->code == OL_CODE_REDUCE)
    put_number(t, t->pass->accumulator[op->out].number);
  else if (op->code == OL_CODE_STORE)
    put_array(t, t->pass->access[op->out].array);
  else
    put_slot(t, op->out);
}

static const char *storage_name(const ol_access *access) {
  return access->packing & OL_PACK_CODES ? "8bit" : ol_dtype_name((ol_dtype)access->dtype);
}

static void put_value(text *t, const ol_instruction *op) {
  if (op->code < OL_FORM_COUNT) {
    put_form(t, op, ol_form_table[op->code], SUM);
  } else if (op->code == OL_CODE_LOAD) {
    put_access(t, &t->pass->access[op->in[0]]);
  } else if (op->code == OL_CODE_STORE || op->code == OL_CODE_REDUCE) {
    bool store = op->code == OL_CODE_STORE;
    const ol_access *access = store ? &t->pass->access[op->out] : NULL;
    put(t, "%s(", store ? storage_name(access) : ol_rule_op_table[op->in[1]].name);
    put_slot(t, op->in[0]);
    put(t, store && access->packing & OL_PACK_RANDOM ? ", stochastic)" : ")");
  } else if (op->code == OL_CODE_COPY) {
    put_slot(t, op->in[0]);
  } else {
    put_plain(t, op);
  }
}

static void put_pass(text *t, const ol_pass *pass) {
  char shape[OL_SHAPE_TEXT];
  t->pass = pass;
  put(t, "pass %d", (int)(pass - t->program->code->pass) + 1);
  if (t->program->levels > 1) put(t, ", level %d", pass->level + 1);
  if (pass->shape != OL_RULE_OWN)
    put(t, ", shape %s", ol_shape_text(&t->program->code->shape[pass->shape], shape));
  put(t, "\n");
  for (int i = 0; i < pass->instructions; i++) {
    put(t, "  ");
    put_target(t, &pass->instruction[i]);
    put(t, " = ");
    put_value(t, &pass->instruction[i]);
    put(t, "\n");
  }
  if (pass->dim < 0) return;
  put(t, "  ");
  put_array(t, pass->target);
  put(t, " = %s(", ol_rule_op_table[pass->op].name);
  put_slot(t, pass->result);
  put(t, ", %d)\n", pass->dim + 1);
}

/* What happens when a level ends. */

static void put_number_op(text *t, const ol_number_op *op) {
  put(t, "  ");
  put_number(t, op->out);
  put(t, " = %s(", ol_rule_op_table[op->op].name);
  for (int i = 0; i < ol_rule_op_table[op->op].inputs; i++) {
    if (i > 0) put(t, ", ");
    put_number(t, op->in[i]);
  }
  put(t, ")\n");
}

static void put_matrix(text *t, int array, bool turned) {
  put(t, turned ? "t(" : "");
  put_array(t, array);
  put(t, turned ? ")" : "");
}

static void put_product_of_matrices(text *t, const ol_product *p) {
  put(t, "  ");
  put_array(t, p->c);
  put(t, " = matmul(");
  put_matrix(t, p->a, p->turned_a);
  put(t, ", ");
  put_matrix(t, p->b, p->turned_b);
  put(t, ")  (%" PRId64 ", %" PRId64 ", %" PRId64 ")\n", p->m, p->k, p->n);
}

static void put_level(text *t, int level) {
  const ol_code *code = t->program->code;
  for (int i = 0; i < code->passes; i++)
    if (code->pass[i].level == level) put_pass(t, &code->pass[i]);
  for (int i = 0; i < code->number_ops; i++)
    if (code->number_op[i].level == level) put_number_op(t, &code->number_op[i]);
  for (int i = 0; i < code->products; i++)
    if (code->product[i].level == level) put_product_of_matrices(t, &code->product[i]);
}

static void put_operands(text *t, const char *label, uint32_t set) {
  put(t, "%s", label);
  for (int i = 0; i < t->program->operands; i++)
    if (set >> i & 1) put(t, " %s", t->names[i]);
}

static void put_program(text *t) {
  const ol_program *p = t->program;
  const ol_code *code = p->code;
  put(t, "%s, %d %s, %d %s, %.4g bytes an element\n", ol_dtype_name(p->dtype), code->passes,
      code->passes == 1 ? "pass" : "passes", p->instructions,
      p->instructions == 1 ? "instruction" : "instructions", p->bytes);
  put_operands(t, "reads", p->reads);
  put_operands(t, ", writes", p->writes);
  put(t, "\n");
  for (int level = 0; level < p->levels; level++) put_level(t, level);
  for (int i = 0; i < code->totals; i++) {
    put(t, "group total %d += ", code->total[i].slot + 1);
    put_number(t, code->total[i].number);
    put(t, "\n");
  }
}

ol_status ol_program_text(ol_error *error, const ol_program *program, const char *const *names,
                          const double *numbers, char **out) {
  text t = { .program = program, .names = names, .numbers = numbers };
  put_program(&t);
  if (t.failed) {
    ol_free(t.data);
    return ol_fail(error, OL_MEMORY, "out of memory for the text of a program");
  }
  *out = t.data;
  return OL_OK;
}
