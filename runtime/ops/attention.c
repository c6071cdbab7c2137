/* attention: scaled dot-product attention (Vaswani et al., 2017, "Attention is all you need"). */
#include <math.h>

#include "autograd/tape.h"
#include "base/parallel.h"
#include "ops/attend.h"
#include "ops/families.h"
#include "ops/generator.h"
#include "ops/view.h"
#include "tensor/accumulate.h"

/* Where the arguments stand; the first four are also the inputs. */
enum { QUERY, KEY, VALUE, MASK, DROPOUT, CAUSAL, SCALE, GROUPED };

/* What the two ops have in common: the parts, and how they meet. */
typedef struct request {
  const char *op;
  ol_tensor *query, *key, *value, *mask; /* mask may be NULL */
  double dropout;
  bool causal, grouped;
  const ol_value *scale; /* not given: 1/√E */
} request;

/* ---- checks ---- */

static ol_status misfit(ol_error *error, const char *op, const char *what, const ol_tensor *x,
                        const char *other, const ol_tensor *y) {
  char left[OL_SHAPE_TEXT], right[OL_SHAPE_TEXT];
  return ol_fail(error, OL_SHAPE, "%s: %s of shape %s does not fit %s of shape %s", op, what,
                 ol_shape_text(&x->shape, left), other, ol_shape_text(&y->shape, right));
}

static ol_status check_part(ol_error *error, const request *r, const char *name,
                            const ol_tensor *part) {
  char text[OL_SHAPE_TEXT];
  if (!ol_dtype_computes(part->dtype))
    return ol_fail(error, OL_DTYPE,
                   "%s: %s wants float32 or float64, got %s; convert with :to(\"float32\")", r->op,
                   name, ol_dtype_name(part->dtype));
  if (part->dtype != r->query->dtype)
    return ol_fail(error, OL_DTYPE, "%s: query is %s, %s is %s", r->op,
                   ol_dtype_name(r->query->dtype), name, ol_dtype_name(part->dtype));
  if (part->shape.ndim < 2)
    return ol_fail(error, OL_SHAPE, "%s: %s has shape %s, wants (…, positions, features)", r->op,
                   name, ol_shape_text(&part->shape, text));
  return OL_OK;
}

/* The size of a dimension counted from the end: 1 the last. */
static int64_t from_end(const ol_tensor *x, int place) {
  return x->shape.size[x->shape.ndim - place];
}

static ol_status check_groups(ol_error *error, const request *r) {
  if (!r->grouped) return OL_OK;
  bool fits = r->query->shape.ndim >= 3 && r->key->shape.ndim >= 3 && r->value->shape.ndim >= 3;
  if (!fits || r->query->shape.ndim == OL_MAX_DIMS)
    return ol_fail(error, OL_SHAPE, "%s: enable_gqa wants 3 to %d dimensions", r->op,
                   OL_MAX_DIMS - 1);
  int64_t heads = from_end(r->key, 3);
  if (heads != from_end(r->value, 3)) return misfit(error, r->op, "value", r->value, "key", r->key);
  if (heads == 0 || from_end(r->query, 3) % heads != 0)
    return ol_fail(error, OL_SHAPE, "%s: %lld heads of query are not a multiple of the %lld of key",
                   r->op, (long long)from_end(r->query, 3), (long long)heads);
  return OL_OK;
}

static ol_status check(ol_error *error, const request *r) {
  OL_TRY(check_part(error, r, "query", r->query));
  OL_TRY(check_part(error, r, "key", r->key));
  OL_TRY(check_part(error, r, "value", r->value));
  if (from_end(r->query, 1) != from_end(r->key, 1))
    return misfit(error, r->op, "query", r->query, "key", r->key);
  if (from_end(r->key, 2) != from_end(r->value, 2))
    return misfit(error, r->op, "key", r->key, "value", r->value);
  if (r->mask && r->mask->dtype != OL_U8 && r->mask->dtype != r->query->dtype)
    return ol_fail(error, OL_DTYPE, "%s: attn_mask is %s, wants uint8 or %s", r->op,
                   ol_dtype_name(r->mask->dtype), ol_dtype_name(r->query->dtype));
  if (!(r->dropout >= 0 && r->dropout <= 1))
    return ol_fail(error, OL_ARGUMENT, "%s: dropout_p is %g; a probability is from 0 to 1", r->op,
                   ol_shown(r->dropout));
  return check_groups(error, r);
}

/* ---- heads ---- */

/* Cuts the last dimension of the batch, the heads, into (groups, heads of a group). */
static void group(ol_stack *stack, int64_t groups) {
  int d = stack->batch.ndim++ - 1;
  int64_t each = stack->batch.size[d] == 1 ? 1 : stack->batch.size[d] / groups;
  if (stack->batch.size[d] != 1) stack->batch.size[d] = groups;
  stack->batch.size[d + 1] = each;
  stack->step[d + 1] = stack->step[d];
  stack->step[d] *= each;
}

/* The shape of batch with groups of heads made one dimension again, then rows and cols. */
static ol_shape joined(const ol_attend *a, const request *r, int64_t rows, int64_t cols) {
  ol_shape shape = a->batch;
  if (r->grouped) {
    shape.ndim--;
    shape.size[shape.ndim - 1] *= shape.size[shape.ndim];
  }
  shape.size[shape.ndim++] = rows;
  shape.size[shape.ndim++] = cols;
  return shape;
}

/* The stack of batch and (rows, cols) that a contiguous tensor holds. */
static ol_stack dense(ol_tensor *tensor, const ol_attend *a, int64_t rows, int64_t cols) {
  ol_stack stack = { .tensor = tensor, .rows = rows, .cols = cols, .row = cols, .col = 1 };
  int64_t step = rows * cols;
  stack.batch = a->batch;
  for (int d = a->batch.ndim - 1; d >= 0; d--) {
    stack.step[d] = step;
    step *= a->batch.size[d];
  }
  return stack;
}

static void release(ol_attend *a) {
  ol_stack *const stacks[] = { &a->query, &a->key, &a->value, &a->mask, &a->slope };
  for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) ol_stack_release(stacks[i]);
}

/* The mask as it meets every head, broadcast; its view is the stack's own. */
static ol_status spread_mask(ol_error *error, const request *r, ol_attend *a) {
  ol_shape shape = joined(a, r, a->rows, a->keys);
  char own[OL_SHAPE_TEXT], wanted[OL_SHAPE_TEXT];
  ol_tensor *view;
  if (ol_expand(error, r->op, r->mask, &shape, &view) != OL_OK)
    return error->status == OL_MEMORY
               ? error->status
               : ol_fail(error, OL_SHAPE, "%s: attn_mask of shape %s does not broadcast to %s",
                         r->op, ol_shape_text(&r->mask->shape, own), ol_shape_text(&shape, wanted));
  a->mask = ol_stack_matrices(view);
  a->mask.copy = view;
  if (r->grouped) group(&a->mask, from_end(r->key, 3));
  return OL_OK;
}

static ol_status meet(ol_error *error, const request *r, ol_attend *a) {
  ol_stack *const parts[] = { &a->query, &a->key, &a->value };
  for (int i = 0; i < 3; i++) {
    OL_TRY(ol_stack_ready(error, parts[i]));
    if (r->grouped) group(parts[i], from_end(r->key, 3));
  }
  if (ol_shape_broadcast(error, r->op, &a->query.batch, &a->key.batch, &a->batch) != OL_OK)
    return misfit(error, r->op, "key", r->key, "query", r->query);
  ol_shape some = a->batch;
  if (ol_shape_broadcast(error, r->op, &some, &a->value.batch, &a->batch) != OL_OK)
    return misfit(error, r->op, "value", r->value, "query", r->query);
  return r->mask ? spread_mask(error, r, a) : OL_OK;
}

/* Checks a request and fills in all but what is written. On success *a is to be released. */
static ol_status prepare(ol_error *error, const request *r, ol_attend *a) {
  OL_TRY(check(error, r));
  int64_t width = from_end(r->query, 1);
  *a = (ol_attend){ .dtype = r->query->dtype,
                    .rows = from_end(r->query, 2),
                    .keys = from_end(r->key, 2),
                    .width = width,
                    .depth = from_end(r->value, 1),
                    .scale = r->scale->given ? r->scale->number : 1 / sqrt((double)width),
                    .causal = r->causal,
                    .dropout = r->dropout,
                    .rng = *ol_generator(),
                    .query = ol_stack_matrices(r->query),
                    .key = ol_stack_matrices(r->key),
                    .value = ol_stack_matrices(r->value) };
  ol_status status = meet(error, r, a);
  if (status != OL_OK) release(a);
  return status;
}

/* ---- forward ---- */

/* What backward needs: the logarithms of the rows' sums, and where the random numbers began. */
static ol_status keep(ol_error *error, ol_call *call, ol_attend *a) {
  ol_shape logs = { .ndim = 2, .size = { ol_shape_numel(&a->batch), a->rows } };
  ol_shape three = { .ndim = 1, .size = { 3 } };
  OL_TRY(ol_tensor_new(error, OL_F64, &logs, &call->kept[0]));
  OL_TRY(ol_tensor_new(error, OL_I64, &three, &call->kept[1]));
  a->logs = ol_tensor_data(call->kept[0]);
  int64_t *state = ol_tensor_data(call->kept[1]);
  state[0] = (int64_t)a->rng.seed;
  state[1] = a->rng.stream;
  state[2] = (int64_t)a->rng.position;
  return OL_OK;
}

static void recall(const ol_back *back, ol_attend *a) {
  const int64_t *state = ol_tensor_data(back->kept[1]);
  a->logs = ol_tensor_data(back->kept[0]);
  a->rng = (ol_rng){ (uint64_t)state[0], (uint32_t)state[1], (uint64_t)state[2] };
}

/* Computes into a->out; the generator advances when all has gone well. */
static ol_status attend(ol_error *error, ol_call *call, ol_attend *a) {
  OL_TRY(keep(error, call, a));
  OL_TRY(ol_attend_forward(error, a));
  if (a->dropout > 0) ol_generator()->position += ol_attend_draws(a);
  return OL_OK;
}

/* A new tensor for the result. Where the query's heads lie within its positions, so do the
 * result's: then merging heads needs no copy. */
static ol_status new_result(ol_error *error, const request *r, const ol_attend *a,
                            ol_tensor **out) {
  ol_shape shape = joined(a, r, a->rows, a->depth);
  int heads = shape.ndim - 3, rows = shape.ndim - 2;
  const ol_tensor *q = r->query;
  bool within = heads >= 0 && q->shape.ndim == shape.ndim && q->stride[heads] < q->stride[rows];
  if (!within) return ol_tensor_new(error, a->dtype, &shape, out);
  ol_tensor *base;
  int64_t size = shape.size[heads];
  shape.size[heads] = shape.size[rows];
  shape.size[rows] = size;
  OL_TRY(ol_tensor_new(error, a->dtype, &shape, &base));
  ol_status status = ol_transpose(error, base, heads, rows, out);
  ol_release(base);
  return status;
}

static request request_of(const char *op, const ol_value *arg) {
  return (request){ .op = op,
                    .query = arg[QUERY].tensor,
                    .key = arg[KEY].tensor,
                    .value = arg[VALUE].tensor,
                    .mask = arg[MASK].tensor,
                    .dropout = arg[DROPOUT].number,
                    .causal = arg[CAUSAL].flag,
                    .scale = &arg[SCALE],
                    .grouped = arg[GROUPED].flag };
}

static ol_status attention_forward(ol_error *error, ol_call *call) {
  request r = request_of(call->op->name, call->arg);
  ol_attend a;
  OL_TRY(prepare(error, &r, &a));
  ol_status status = new_result(error, &r, &a, &call->out[0]);
  if (status == OL_OK) {
    a.out = ol_stack_matrices(call->out[0]);
    if (r.grouped) group(&a.out, from_end(r.key, 3));
    status = attend(error, call, &a);
  }
  release(&a);
  return status;
}

/* ---- backward ---- */

/* The gradient of the result, as heads. */
static ol_status take_slope(ol_error *error, const request *r, ol_tensor *slope, ol_attend *a) {
  a->slope = ol_stack_matrices(slope);
  OL_TRY(ol_stack_ready(error, &a->slope));
  if (r->grouped) group(&a->slope, from_end(r->key, 3));
  return OL_OK;
}

/* Makes room for the gradient of input i, whose heads are `part`: of its own shape, or, where it is
 * broadcast, of the whole batch. */
static ol_status new_slope(ol_error *error, ol_back *back, int i, const ol_attend *a,
                           const ol_stack *part, ol_stack *slope) {
  if (!back->needs[i]) return OL_OK;
  if (ol_shape_equal(&part->batch, &a->batch)) {
    OL_TRY(ol_back_new(error, back, i, &back->grad[i]));
  } else {
    ol_shape shape = a->batch;
    shape.size[shape.ndim++] = part->rows;
    shape.size[shape.ndim++] = part->cols;
    OL_TRY(ol_tensor_new(error, a->dtype, &shape, &back->grad[i]));
  }
  *slope = dense(back->grad[i], a, part->rows, part->cols);
  return OL_OK;
}

static ol_status new_slopes(ol_error *error, ol_back *back, const request *r, ol_attend *a) {
  OL_TRY(new_slope(error, back, QUERY, a, &a->query, &a->query_slope));
  OL_TRY(new_slope(error, back, KEY, a, &a->key, &a->key_slope));
  OL_TRY(new_slope(error, back, VALUE, a, &a->value, &a->value_slope));
  if (!back->needs[MASK]) return OL_OK;
  ol_shape shape = joined(a, r, a->rows, a->keys);
  OL_TRY(ol_tensor_new(error, a->dtype, &shape, &back->grad[MASK]));
  a->mask_slope = dense(back->grad[MASK], a, a->rows, a->keys);
  return OL_OK;
}

/* Sums a gradient over the heads of a group, where the input has one for all of them, and makes the
 * groups one dimension again. */
static ol_status join_groups(ol_error *error, const ol_attend *a, const ol_stack *part,
                             ol_tensor **slope) {
  ol_tensor *sum, *whole = *slope;
  int last = a->batch.ndim - 1;
  if (!whole || ol_shape_equal(&part->batch, &a->batch)) return OL_OK;
  ol_shape shape = whole->shape;
  shape.size[last] = part->batch.size[part->batch.ndim - 1];
  OL_TRY(ol_tensor_sum_to(error, whole, &shape, a->dtype, &sum));
  shape.size[last - 1] *= shape.size[last];
  for (int d = last; d < shape.ndim - 1; d++) shape.size[d] = shape.size[d + 1];
  shape.ndim--;
  ol_status status = ol_reshape(error, sum, &shape, slope);
  ol_release(sum);
  if (status == OL_OK) ol_release(whole);
  return status;
}

static ol_status join_all(ol_error *error, ol_back *back, const ol_attend *a) {
  OL_TRY(join_groups(error, a, &a->query, &back->grad[QUERY]));
  OL_TRY(join_groups(error, a, &a->key, &back->grad[KEY]));
  return join_groups(error, a, &a->value, &back->grad[VALUE]);
}

static ol_status attention_backward(ol_error *error, ol_back *back) {
  request r = request_of(back->op->name, back->arg);
  ol_attend a;
  OL_TRY(prepare(error, &r, &a));
  recall(back, &a);
  ol_status status = take_slope(error, &r, back->grad_out[0], &a);
  if (status == OL_OK) status = new_slopes(error, back, &r, &a);
  if (status == OL_OK) status = ol_attend_backward(error, &a);
  if (status == OL_OK && r.grouped) status = join_all(error, back, &a);
  release(&a);
  return status;
}

/* ---- query, key and value side by side ---- */

enum { PACKED, HEADS, PACKED_MASK, PACKED_DROPOUT, PACKED_CAUSAL };

/* The heads of the part that begins at feature `first`: a view (…, heads, T, E) of a tensor whose
 * last dimension has them one after another. */
static ol_status view_heads(ol_error *error, const ol_tensor *x, int64_t heads, int64_t width,
                            int64_t first, ol_tensor **out) {
  ol_shape shape = x->shape;
  int64_t stride[OL_MAX_DIMS];
  int rows = shape.ndim++ - 2;
  for (int d = 0; d < rows; d++) stride[d] = x->stride[d];
  shape.size[rows] = heads;
  stride[rows] = width;
  shape.size[rows + 1] = x->shape.size[rows];
  stride[rows + 1] = x->stride[rows];
  shape.size[rows + 2] = width;
  stride[rows + 2] = 1;
  return ol_tensor_view(error, x, &shape, stride, x->offset + first, out);
}

/* The three parts of a packed tensor. */
static ol_status view_parts(ol_error *error, const ol_tensor *x, int64_t heads, ol_tensor **part) {
  int64_t features = from_end(x, 1) / 3;
  for (int i = 0; i < 3; i++)
    OL_TRY(view_heads(error, x, heads, features / heads, i * features, &part[i]));
  return OL_OK;
}

static void release_parts(ol_tensor **part) {
  for (int i = 0; i < 3; i++) ol_release(part[i]);
}

static ol_status check_packed(ol_error *error, const char *op, const ol_value *arg) {
  const ol_tensor *x = arg[PACKED].tensor;
  int64_t heads = arg[HEADS].integer;
  char text[OL_SHAPE_TEXT];
  bool fits = heads > 0 && x->shape.ndim >= 2 && x->shape.ndim < OL_MAX_DIMS;
  if (!fits || from_end(x, 1) % 3 != 0 || from_end(x, 1) / 3 % heads != 0)
    return ol_fail(error, OL_SHAPE,
                   "%s: qkv of shape %s does not hold query, key and value of %lld heads", op,
                   ol_shape_text(&x->shape, text), (long long)heads);
  return OL_OK;
}

/* Sets up the attention of a contiguous packed tensor; part[] are its views, to be released. */
static ol_status prepare_packed(ol_error *error, const char *op, const ol_value *arg,
                                const ol_tensor *x, ol_tensor **part, ol_attend *a) {
  static const ol_value preset = { .given = false };
  OL_TRY(view_parts(error, x, arg[HEADS].integer, part));
  request r = { .op = op,
                .query = part[QUERY],
                .key = part[KEY],
                .value = part[VALUE],
                .mask = arg[PACKED_MASK].tensor,
                .dropout = arg[PACKED_DROPOUT].number,
                .causal = arg[PACKED_CAUSAL].flag,
                .scale = &preset };
  return prepare(error, &r, a);
}

/* out (…,T,C), whose heads lie side by side, as in the query. */
static ol_status attend_packed(ol_error *error, ol_call *call, ol_attend *a) {
  ol_shape shape = call->arg[PACKED].tensor->shape;
  ol_tensor *heads;
  shape.size[shape.ndim - 1] /= 3;
  OL_TRY(ol_tensor_new(error, a->dtype, &shape, &call->out[0]));
  OL_TRY(view_heads(error, call->out[0], call->arg[HEADS].integer, a->depth, 0, &heads));
  a->out = ol_stack_matrices(heads);
  ol_status status = attend(error, call, a);
  ol_release(heads);
  return status;
}

static ol_status packed_forward(ol_error *error, ol_call *call) {
  ol_tensor *x, *part[3] = { NULL };
  ol_attend a;
  OL_TRY(check_packed(error, call->op->name, call->arg));
  OL_TRY(ol_tensor_contiguous(error, call->arg[PACKED].tensor, &x));
  ol_status status = prepare_packed(error, call->op->name, call->arg, x, part, &a);
  if (status == OL_OK) {
    status = attend_packed(error, call, &a);
    release(&a);
  }
  release_parts(part);
  ol_release(x);
  return status;
}

/* The gradient of the packed tensor, its three parts written in place; that of the mask. */
static ol_status slope_packed(ol_error *error, ol_back *back, ol_attend *a, ol_tensor *slope) {
  ol_tensor *heads = NULL, *part[3] = { NULL }, *packed;
  int64_t count = back->arg[HEADS].integer;
  const request whole = { .grouped = false };
  OL_TRY(ol_back_new(error, back, 0, &back->grad[0]));
  packed = back->grad[0];
  ol_status status = view_heads(error, slope, count, a->depth, 0, &heads);
  if (status == OL_OK) status = view_parts(error, packed, count, part);
  if (status == OL_OK && back->needs[1]) {
    ol_shape shape = joined(a, &whole, a->rows, a->keys);
    status = ol_tensor_new(error, a->dtype, &shape, &back->grad[1]);
  }
  if (status == OL_OK) {
    a->slope = ol_stack_matrices(heads);
    a->query_slope = ol_stack_matrices(part[QUERY]);
    a->key_slope = ol_stack_matrices(part[KEY]);
    a->value_slope = ol_stack_matrices(part[VALUE]);
    if (back->needs[1]) a->mask_slope = dense(back->grad[1], a, a->rows, a->keys);
    status = ol_attend_backward(error, a);
  }
  ol_release(heads);
  release_parts(part);
  return status;
}

static ol_status packed_backward(ol_error *error, ol_back *back) {
  ol_tensor *x = NULL, *slope = NULL, *part[3] = { NULL };
  ol_attend a;
  ol_status status = ol_tensor_contiguous(error, back->arg[PACKED].tensor, &x);
  if (status == OL_OK) status = ol_tensor_contiguous(error, back->grad_out[0], &slope);
  if (status == OL_OK) status = prepare_packed(error, back->op->name, back->arg, x, part, &a);
  if (status == OL_OK) {
    recall(back, &a);
    status = slope_packed(error, back, &a, slope);
    release(&a);
  }
  release_parts(part);
  ol_release(slope);
  ol_release(x);
  return status;
}

#define MASK_DOC                                                                                   \
  "broadcasts to (…, L, S): uint8, 1 where a row may attend to a key; or floats that are added "   \
  "to the scores"

static const ol_op ops[] = {
  { .name = "scaled_dot_product_attention",
    .doc = "softmax(scale query keyᵀ + mask) value: query (…, L, E), key (…, S, E), value "
           "(…, S, Ev) -> (…, L, Ev). A row that may attend to nothing gives zeros.",
    .example = "local x = optlua.tensor({ { 1 }, { 2 } })\n"
               "print(optlua.scaled_dot_product_attention(x, x, x, { is_causal = true })) "
               "--> tensor([[1.0000],\n-->         [1.8808]])",
    .samples = "{ { t(2, 3, 4), t(2, 5, 4), t(2, 5, 3) }, { t(3, 4), t(3, 4), t(3, 4) }, "
               "{ t(2, 2, 4, 3), t(2, 2, 4, 3), t(2, 2, 4, 3), { is_causal = true } }, "
               "{ t(2, 5, 2), t(2, 3, 2), t(2, 3, 2), { is_causal = true, scale = 0.7 } }, "
               "{ t(2, 3, 2), t(2, 5, 2), t(2, 5, 2), { is_causal = true } }, "
               "{ t(2, 3, 4), t(2, 5, 4), t(2, 5, 4), optlua.tensor({ { 1, 0, 1, 1, 0 }, "
               "{ 0, 1, 0, 0, 0 }, { 1, 1, 1, 1, 1 } }, { dtype = 'uint8' }) }, "
               "{ t(2, 3, 4), t(2, 5, 4), t(2, 5, 4), t(3, 5) }, "
               "{ t(2, 2, 3, 4), t(2, 2, 5, 4), t(2, 2, 5, 4), t(2, 1, 1, 5), { scale = -0.5 } }, "
               "{ t(2, 4, 3, 2), t(2, 2, 5, 2), t(2, 2, 5, 3), { enable_gqa = true } }, "
               "{ t(3, 2), t(2, 4, 2), t(1, 4, 2) }, "
               "{ t(2, 5, 3, 4):transpose(2, 3), t(2, 4, 3, 5):permute(1, 3, 4, 2), "
               "t(1, 1, 5, 4):expand(2, 3, 5, 4) }, "
               "{ t(70, 2), t(70, 2), t(70, 3), { is_causal = true } }, "
               "{ t(0, 3, 2), t(0, 4, 2), t(0, 4, 2) }, { t(2, 0, 2), t(2, 4, 2), t(2, 4, 2) }, "
               "{ t(2, 3, 2), t(2, 0, 2), t(2, 0, 2) }, { t(2, 3, 2), t(2, 4, 2), t(2, 4, 0) } }",
    .param = { { "query", OL_TENSOR, .doc = "(…, L, E)" },
               { "key", OL_TENSOR, .doc = "(…, S, E)" },
               { "value", OL_TENSOR, .doc = "(…, S, Ev)" },
               { "attn_mask", OL_TENSOR, true, .doc = MASK_DOC },
               { "dropout_p", OL_NUMBER, true, .doc = "the probability that a weight is dropped" },
               { "is_causal", OL_FLAG, true, .doc = "row i attends to keys 1 … i alone" },
               { "scale", OL_NUMBER, true, .doc = "default: 1/√E" },
               { "enable_gqa", OL_FLAG, true,
                 .doc = "each head of key and value serves as many neighbours among query's" } },
    .saves = OL_SAVE_ARG(QUERY) | OL_SAVE_ARG(KEY) | OL_SAVE_ARG(VALUE) | OL_SAVE_ARG(MASK),
    .flags = OL_OP_FUNCTION,
    .forward = attention_forward,
    .backward = attention_backward },
  { .name = "packed_attention",
    .doc = "Self-attention of query, key and value that lie side by side: qkv (…, T, 3C), each "
           "cut into num_heads heads -> (…, T, C).",
    .samples = "{ { t(2, 3, 12), 2 }, { t(4, 6), 1, { is_causal = true } }, "
               "{ t(2, 3, 12), 2, t(2, 1, 3, 3) }, { t(3, 12), 2, t(3, 3), { is_causal = true } }, "
               "{ t(2, 12, 3):transpose(2, 3), 4 }, { t(0, 3, 6), 2 }, { t(2, 0, 6), 2 } }",
    .param = { { "qkv", OL_TENSOR },
               { "num_heads", OL_DATA },
               { "attn_mask", OL_TENSOR, true, .doc = MASK_DOC },
               { "dropout_p", OL_NUMBER, true },
               { "is_causal", OL_FLAG, true } },
    .saves = OL_SAVE_ARG(PACKED) | OL_SAVE_ARG(PACKED_MASK),
    .flags = OL_OP_FUNCTION | OL_OP_HIDDEN,
    .forward = packed_forward,
    .backward = packed_backward },
  { 0 }
};

const ol_family ol_attention_ops = { .name = "attention", .doc = "Attention", .ops = ops };
