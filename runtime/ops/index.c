/* index: an index for each position of a dimension: index_select, index_add, index_copy,
 * embedding, one_hot. */
#include "autograd/tape.h"
#include "ops/families.h"
#include "ops/gather.h"
#include "ops/indexing.h"
#include "ops/view.h"

/* ---- index_select ---- */

static ol_status check_row(ol_error *error, const char *op, const ol_tensor *index) {
  char text[OL_SHAPE_TEXT];
  if (index->shape.ndim <= 1) return OL_OK;
  return ol_fail(error, OL_SHAPE, "%s: a one-dimensional index was expected, got %s", op,
                 ol_shape_text(&index->shape, text));
}

static int64_t size_of(const ol_tensor *x, int dim) {
  return x->shape.ndim ? x->shape.size[dim] : 1;
}

static int64_t step_of(const ol_tensor *x, int dim) { return x->shape.ndim ? x->stride[dim] : 0; }

/* Reads into y, whose shape is the result's. Indices have been checked. */
static void read_rows(ol_tensor *y, const ol_tensor *x, int dim, const ol_tensor *index) {
  ol_tensor spread = ol_index_spread(index, y->shape.ndim ? dim : -1, &y->shape);
  ol_tensor lines = ol_index_lines(x, dim, &y->shape);
  ol_index_read(y, &spread, &lines, step_of(x, dim));
}

ol_status ol_index_select(ol_error *error, const char *op, ol_tensor *x, int dim, ol_tensor *index,
                          ol_tensor **out) {
  ol_shape shape = x->shape;
  ol_tensor *y;
  OL_TRY(check_row(error, op, index));
  OL_TRY(ol_index_check(error, op, index, size_of(x, dim)));
  if (shape.ndim == 0 && index->numel != 1)
    return ol_fail(error, OL_SHAPE, "%s: a 0-dimensional tensor has one position, not %lld", op,
                   (long long)index->numel);
  if (shape.ndim > 0) shape.size[dim] = index->numel;
  OL_TRY(ol_tensor_new(error, x->dtype, &shape, &y));
  read_rows(y, x, dim, index);
  *out = y;
  return OL_OK;
}

/* fn is ol_index_write or ol_index_add. Everything has been checked. */
static void write_rows(ol_tensor *target, int dim, const ol_tensor *index, const ol_tensor *source,
                       const ol_shape *shape, ol_index_fn *fn) {
  ol_tensor spread = ol_index_spread(index, shape->ndim ? dim : -1, shape);
  ol_tensor lines = ol_index_lines(target, dim, shape);
  ol_tensor part = ol_index_lines(source, -1, shape);
  fn(&lines, &spread, &part, step_of(target, dim), dim);
}

ol_status ol_index_select_add(ol_error *error, const char *op, ol_tensor *target, int dim,
                              ol_tensor *index, ol_tensor *source) {
  OL_TRY(ol_index_check(error, op, index, size_of(target, dim)));
  write_rows(target, dim, index, source, &source->shape, ol_index_add);
  return OL_OK;
}

static ol_status select_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor;
  int dim;
  OL_TRY(ol_shape_dim(error, "index_select", call->arg[1].integer, x->shape.ndim, &dim));
  return ol_index_select(error, "index_select", x, dim, call->arg[2].tensor, &call->out[0]);
}

static ol_status select_back(ol_error *error, ol_back *back) {
  ol_tensor *grad = back->grad_out[0], *x;
  int dim;
  OL_TRY(ol_shape_dim(error, "index_select", back->arg[1].integer, grad->shape.ndim, &dim));
  OL_TRY(ol_tensor_zeros(error, grad->dtype, back->shape[0], &x));
  ol_status status = ol_index_select_add(error, "index_select", x, dim, back->arg[2].tensor, grad);
  if (status != OL_OK)
    ol_release(x);
  else
    back->grad[0] = x;
  return status;
}

/* ---- index_add, index_copy ---- */

static ol_status check_put(ol_error *error, const ol_call *call, int *dim) {
  const char *op = call->op->name;
  ol_tensor *self = call->arg[0].tensor, *index = call->arg[2].tensor,
            *source = call->arg[3].tensor;
  ol_shape expected = self->shape;
  char a[OL_SHAPE_TEXT], b[OL_SHAPE_TEXT];
  OL_TRY(ol_shape_dim(error, op, call->arg[1].integer, self->shape.ndim, dim));
  OL_TRY(check_row(error, op, index));
  if (expected.ndim > 0) expected.size[*dim] = index->numel;
  if (!ol_shape_equal(&source->shape, &expected) || (expected.ndim == 0 && index->numel != 1))
    return ol_fail(
        error, OL_SHAPE, "%s: a source of shape %s was expected for %lld indices, got %s", op,
        ol_shape_text(&expected, a), (long long)index->numel, ol_shape_text(&source->shape, b));
  if (source->dtype != self->dtype)
    return ol_fail(error, OL_DTYPE, "%s: source is %s, the tensor %s", op,
                   ol_dtype_name(source->dtype), ol_dtype_name(self->dtype));
  if (call->op->flags & OL_OP_INPLACE) OL_TRY(ol_index_writable(error, op, self, index));
  return ol_index_check(error, op, index, size_of(self, *dim));
}

/* What is written, apart from the memory that it is written to; and where it is written. */
static ol_status operands_of(ol_error *error, const ol_call *call, ol_tensor **source,
                             ol_tensor **target) {
  ol_tensor *self = call->arg[0].tensor, *given = call->arg[3].tensor, *own;
  bool in_place = call->op->flags & OL_OP_INPLACE, shared = self->storage == given->storage;
  if (in_place && shared)
    OL_TRY(ol_tensor_clone(error, given, &own));
  else
    own = ol_retain(given);
  if (in_place)
    *target = ol_retain(self);
  else if (ol_tensor_clone(error, self, target) != OL_OK) {
    ol_release(own);
    return error->status;
  }
  *source = own;
  return OL_OK;
}

static ol_status put(ol_error *error, ol_call *call, ol_index_fn *fn) {
  ol_tensor *source = NULL, *target = NULL;
  int dim;
  OL_TRY(check_put(error, call, &dim));
  OL_TRY(operands_of(error, call, &source, &target));
  write_rows(target, dim, call->arg[2].tensor, source, &source->shape, fn);
  ol_tensor_touch(target);
  ol_release(source);
  call->out[0] = target;
  return OL_OK;
}

static ol_status add_forward(ol_error *error, ol_call *call) {
  OL_TRY(ol_index_adds(error, call->op->name, call->arg[0].tensor->dtype));
  return put(error, call, ol_index_add);
}

static ol_status copy_forward(ol_error *error, ol_call *call) {
  return put(error, call, ol_index_write);
}

static ol_status source_back(ol_error *error, ol_back *back) {
  int dim;
  if (!back->needs[2]) return OL_OK;
  OL_TRY(ol_shape_dim(error, "index_add", back->arg[1].integer, back->shape[0]->ndim, &dim));
  return ol_index_select(error, back->op->name, back->grad_out[0], dim, back->arg[2].tensor,
                         &back->grad[2]);
}

static ol_status add_back(ol_error *error, ol_back *back) {
  if (back->needs[0]) back->grad[0] = ol_retain(back->grad_out[0]);
  return source_back(error, back);
}

/* The gradient of self: rows that were overwritten have none. */
static ol_status copy_back(ol_error *error, ol_back *back) {
  ol_tensor *index = back->arg[2].tensor, *zero, *rest;
  ol_shape shape = *back->shape[0], scalar = { .ndim = 0 };
  int dim;
  if (!back->needs[0]) return source_back(error, back);
  OL_TRY(ol_shape_dim(error, "index_copy", back->arg[1].integer, shape.ndim, &dim));
  if (shape.ndim > 0) shape.size[dim] = index->numel;
  OL_TRY(ol_tensor_zeros(error, back->grad_out[0]->dtype, &scalar, &zero));
  ol_status status = ol_tensor_clone(error, back->grad_out[0], &rest);
  if (status == OL_OK) {
    write_rows(rest, dim, index, zero, &shape, ol_index_write);
    back->grad[0] = rest;
    status = source_back(error, back);
  }
  ol_release(zero);
  return status;
}

/* ---- embedding ---- */

static ol_status check_table(ol_error *error, const ol_value *arg, const ol_shape *table,
                             int64_t *padding) {
  char text[OL_SHAPE_TEXT];
  if (table->ndim != 2)
    return ol_fail(error, OL_SHAPE,
                   "embedding: a weight of shape (rows, width) was expected, got %s",
                   ol_shape_text(table, text));
  if (!arg[2].given) return OL_OK;
  *padding = arg[2].integer < 0 ? arg[2].integer + table->size[0] : arg[2].integer;
  if (*padding >= 0 && *padding < table->size[0]) return OL_OK;
  return ol_fail(error, OL_RANGE, "embedding: padding_idx %lld is out of range for %lld rows",
                 (long long)arg[2].integer, (long long)table->size[0]);
}

/* ids (…) -> (…, C) */
static ol_status embedding_forward(ol_error *error, ol_call *call) {
  ol_tensor *ids = call->arg[0].tensor, *weight = call->arg[1].tensor, *row, *y = NULL;
  ol_shape flat = { .ndim = 1, .size = { ids->numel } }, shape = ids->shape;
  int64_t padding = -1;
  OL_TRY(check_table(error, call->arg, &weight->shape, &padding));
  OL_TRY(ol_index_check(error, "embedding", ids, weight->shape.size[0])); /* names the position */
  if (shape.ndim == OL_MAX_DIMS)
    return ol_fail(error, OL_SHAPE, "embedding: a tensor has at most %d dimensions", OL_MAX_DIMS);
  shape.size[shape.ndim++] = weight->shape.size[1];
  OL_TRY(ol_reshape(error, ids, &flat, &row));
  ol_status status = ol_index_select(error, "embedding", weight, 0, row, &y);
  if (status == OL_OK) status = ol_reshape(error, y, &shape, &call->out[0]);
  ol_release(row);
  ol_release(y);
  return status;
}

/* Adds the rows of grad to those of table that ids name; the padding row stays 0. */
static ol_status add_rows(ol_error *error, ol_tensor *table, ol_tensor *ids, ol_tensor *grad,
                          int64_t padding) {
  ol_shape flat = { .ndim = 1, .size = { ids->numel } };
  ol_shape rows = { .ndim = 2, .size = { ids->numel, table->shape.size[1] } };
  ol_tensor *row = NULL, *given = NULL, *pad = NULL;
  ol_status status = ol_reshape(error, ids, &flat, &row);
  if (status == OL_OK) status = ol_reshape(error, grad, &rows, &given);
  if (status == OL_OK) status = ol_index_select_add(error, "embedding", table, 0, row, given);
  if (status == OL_OK && padding >= 0) status = ol_narrow(error, table, 0, padding, 1, &pad);
  if (status == OL_OK && padding >= 0) status = ol_tensor_fill(error, pad, 0);
  ol_release(row);
  ol_release(given);
  ol_release(pad);
  return status;
}

static ol_status embedding_back(ol_error *error, ol_back *back) {
  ol_tensor *ids = back->arg[0].tensor, *table;
  int64_t padding = -1;
  OL_TRY(check_table(error, back->arg, back->shape[1], &padding));
  OL_TRY(ol_index_check(error, "embedding", ids, back->shape[1]->size[0]));
  OL_TRY(ol_back_new(error, back, 1, &table));
  ol_status status = ol_tensor_fill(error, table, 0);
  if (status == OL_OK) status = add_rows(error, table, ids, back->grad_out[0], padding);
  if (status != OL_OK)
    ol_release(table);
  else
    back->grad[1] = table;
  return status;
}

/* ---- one_hot ---- */

/* One more than the greatest class; what is negative is found by the check of indices. */
static ol_status count_classes(ol_error *error, ol_tensor *classes, int64_t *out) {
  ol_tensor *dense;
  if (classes->dtype != OL_I64 || classes->numel == 0)
    return ol_fail(error, OL_ARGUMENT,
                   "one_hot: num_classes can only be inferred from int64 classes, at least one");
  OL_TRY(ol_tensor_contiguous(error, classes, &dense));
  const int64_t *value = ol_tensor_data(dense);
  int64_t most = 0;
  for (int64_t i = 0; i < dense->numel; i++) most = value[i] > most ? value[i] : most;
  ol_release(dense);
  if (__builtin_add_overflow(most, 1, out))
    return ol_fail(error, OL_RANGE, "one_hot: class %lld is too large", (long long)most);
  return OL_OK;
}

static ol_status one_hot_forward(ol_error *error, ol_call *call) {
  ol_tensor *classes = call->arg[0].tensor, *hot, *one;
  ol_shape shape = classes->shape, scalar = { .ndim = 0 };
  int64_t count = call->arg[1].given ? call->arg[1].integer : -1;
  if (count < -1)
    return ol_fail(error, OL_ARGUMENT, "one_hot: num_classes is %lld", (long long)count);
  if (count == -1) OL_TRY(count_classes(error, classes, &count));
  OL_TRY(ol_index_check(error, "one_hot", classes, count));
  if (shape.ndim == OL_MAX_DIMS)
    return ol_fail(error, OL_SHAPE, "one_hot: a tensor has at most %d dimensions", OL_MAX_DIMS);
  shape.size[shape.ndim++] = count;
  OL_TRY(ol_tensor_zeros(error, OL_I64, &scalar, &one));
  ol_tensor_set_integer(one, 0, 1);
  ol_status status = ol_tensor_zeros(error, OL_I64, &shape, &hot);
  if (status == OL_OK) {
    ol_tensor lines = ol_index_lines(hot, classes->shape.ndim, &classes->shape);
    ol_tensor ones = ol_index_spread(one, -1, &classes->shape);
    ol_index_write(&lines, classes, &ones, 1, -1);
    call->out[0] = hot;
  }
  ol_release(one);
  return status;
}

/* An op and its twin that works in place. */
#define PUT(name_, flags_, doc_, example_, run, back)                                              \
  { .name = name_,                                                                                 \
    .doc = doc_,                                                                                   \
    .example = example_,                                                                           \
    .samples = "{ { t(3, 4), 2, c(4):argsort(1):narrow(1, 1, 2), t(3, 2) }, { t(4, 3), 1, "        \
               "c(4):argsort(1), t(3, 4):t() }, "                                                  \
               "{ t(3), -1, i({ 1 }, 3), t(1) }, { t(3), 1, i({}, 3), t(1) }, "                    \
               "{ t(), 1, i({ 1 }, 1), t() }, { t(0, 3), 2, i({ 2 }, 3), t(0, 2) } }",             \
    .param = { { "self", OL_TENSOR },                                                              \
               { "dim", OL_INDEX },                                                                \
               { "index", OL_TENSOR, .doc = "int64, one-dimensional, counting from 0" },           \
               { "source", OL_TENSOR, .doc = "one position along dim for each index" } },          \
    .saves = OL_SAVE_ARG(2),                                                                       \
    .flags = flags_,                                                                               \
    .forward = run,                                                                                \
    .backward = back }

const ol_family ol_index_ops = {
  .name = "index",
  .doc = "Looking up and writing, an index for each position of a dimension",
  .ops =
      (const ol_op[]){
          { .name = "index_select",
            .doc = "The positions of dimension dim that index names, from 0, in its order.",
            .example = "print(optlua.tensor({ 5, 6, 7 }):index_select(1, optlua.tensor({ 2, 0 }, "
                       "{ dtype = \"int64\" }))) --> tensor([7., 5.])",
            .samples = "{ { t(3, 4), 2, i({ 6 }, 4) }, { t(4, 3):t(), 1, i({ 5 }, 3) }, "
                       "{ t(3), -1, i({ 2 }, 3) }, { t(), 1, i({ 1 }, 1) }, "
                       "{ t(3, 4), 1, i({ 0 }, 3) }, { t(0, 3), 2, i({ 2 }, 3) }, "
                       "{ t(1, 4):expand(3, 4), 2, i({ 3 }, 4) } }",
            .param = { { "self", OL_TENSOR },
                       { "dim", OL_INDEX },
                       { "index", OL_TENSOR, .doc = "int64, one-dimensional, counting from 0" } },
            .saves = OL_SAVE_ARG(2),
            .forward = select_forward,
            .backward = select_back },
          PUT("index_add", 0, "A copy with source added at the positions of dim that index names.",
              "print(optlua.zeros(3):index_add(1, optlua.tensor({ 2, 0, 2 }, { dtype = "
              "\"int64\" }), optlua.ones(3))) --> tensor([1., 0., 2.])",
              add_forward, add_back),
          PUT("index_add_", OL_OP_INPLACE, "As index_add, in place.",
              "print(optlua.zeros(3):index_add_(1, optlua.tensor({ 2, 0, 2 }, { dtype = "
              "\"int64\" }), optlua.ones(3))) --> tensor([1., 0., 2.])",
              add_forward, add_back),
          PUT("index_copy", 0,
              "A copy with source written to the positions of dim that index names; of repeated "
              "indices the last counts.",
              "print(optlua.zeros(3):index_copy(1, optlua.tensor({ 2 }, { dtype = \"int64\" }), "
              "optlua.ones(1))) --> tensor([0., 0., 1.])",
              copy_forward, copy_back),
          PUT("index_copy_", OL_OP_INPLACE, "As index_copy, in place.",
              "print(optlua.zeros(3):index_copy_(1, optlua.tensor({ 2 }, { dtype = \"int64\" }), "
              "optlua.ones(1))) --> tensor([0., 0., 1.])",
              copy_forward, copy_back),
          { .name = "embedding",
            .doc = "The rows of weight that ids name, (…) -> (…, width). The row padding_idx gets "
                   "no gradient. Ids outside the table raise, with their position.",
            .example = "print(optlua.embedding(optlua.tensor({ 1, 0 }, { dtype = \"int64\" }), "
                       "optlua.tensor({ { 5 }, { 6 } })):flatten()) --> tensor([6., 5.])",
            .samples = "{ { i({ 2, 3 }, 4), t(4, 3) }, { i({ 7 }, 4), t(4, 2), 1 }, "
                       "{ i({ 3 }, 4), t(3, 4):t(), -1 }, { i({}, 4), t(4, 2) }, "
                       "{ i({ 0, 2 }, 4), t(4, 2) }, { i({ 2 }, 4), t(4, 0) } }",
            .param = { { "ids", OL_TENSOR, .doc = "int64, counting from 0" },
                       { "weight", OL_TENSOR, .doc = "(rows, width)" },
                       { "padding_idx", OL_DATA, true,
                         .doc = "a row, from 0; negative from the end" } },
            .saves = OL_SAVE_ARG(0),
            .flags = OL_OP_FUNCTION,
            .forward = embedding_forward,
            .backward = embedding_back },
          { .name = "one_hot",
            .doc = "Classes, from 0, as rows of zeros with a one: (…) -> (…, num_classes), int64.",
            .example =
                "print(optlua.one_hot(optlua.tensor({ 2, 0 }, { dtype = \"int64\" })):select("
                "1, 1)) --> tensor([0, 0, 1])",
            .samples = "{ { i({ 5 }, 4), 4 }, { i({ 2, 3 }, 4), 6 }, { i({}, 3), 3 }, "
                       "{ i({ 0, 2 }, 3), 3 }, { i({ 3, 2 }, 4):t(), 4 } }",
            .param = { { "classes", OL_TENSOR, .doc = "int64, counting from 0" },
                       { "num_classes", OL_DATA, true, -1,
                         .doc = "-1: one more than the greatest class" } },
            .flags = OL_OP_FUNCTION,
            .forward = one_hot_forward },
          { 0 } },
};
