/* index: keys that are not names: positions, lists of positions and slices, tensors.
 *
 *   t[2]  t[-1]            one position of dimension 1, which the result does not have
 *   t[{ 2, { 1, 3 } }]     for each dimension a position, a slice { first, last[, step] } that
 * includes both ends, or {}: the whole. Dimensions that are left out are whole. t[index] int64
 * positions of dimension 1, as data from 0; also in a list, once t[mask]                uint8, of
 * the shape of the first dimensions: elements where it is not 0 */
#include "bind/index.h"

#include <lauxlib.h>

#include "bind/call.h"
#include "bind/error.h"
#include "bind/tensor.h"
#include "ops/registry.h"

/* What a key says. */
typedef struct region {
  ol_shape start, length, step; /* as the op `part` takes them */
  int kept;                     /* dimensions so far that the part keeps */
  int tensor;                   /* stack index of an index tensor, 0: none */
  int dim;                      /* the dimension of the part that it indexes */
} region;

/* Resolves a position that is typed: from 1, or negative from the end; at most size + slack. */
static int64_t position(lua_State *L, int index, int dim, int64_t size, int64_t slack) {
  int64_t typed = 0;
  if (!ol_whole(L, index, &typed))
    ol_throw(L, "index: dimension %d: integer expected, got %s", dim, ol_value_text(L, index));
  int64_t at = typed < 0 ? typed + size : typed - 1;
  if (typed == 0) ol_throw(L, "index: dimension %d: positions count from 1, got 0", dim);
  if (at < 0 || at >= size + slack)
    ol_throw(L, "index: position %I is out of range for dimension %d of size %I",
             (LUAI_UACINT)typed, dim, (LUAI_UACINT)size);
  return at;
}

static void add(region *r, int64_t start, int64_t length, int64_t step) {
  int d = r->start.ndim++;
  r->length.ndim = r->step.ndim = r->start.ndim;
  r->start.size[d] = start;
  r->length.size[d] = length;
  r->step.size[d] = step;
  if (length >= 0) r->kept++;
}

/* The entry i of the slice at index, on top of the stack; whether there is one. */
static bool entry(lua_State *L, int slice, int i) { return lua_rawgeti(L, slice, i) != LUA_TNIL; }

static int64_t slice_step(lua_State *L, int slice, int dim) {
  int64_t step = 1;
  if (entry(L, slice, 3) && (!ol_whole(L, -1, &step) || step < 1))
    ol_throw(L, "index: dimension %d: a step of at least 1 expected, got %s", dim,
             ol_value_text(L, -1));
  lua_pop(L, 1);
  return step;
}

/* The last position of a slice, which may lie one before the first: then it is empty. */
static int64_t slice_last(lua_State *L, int slice, int dim, int64_t size, int64_t first) {
  int64_t typed;
  entry(L, slice, 2);
  bool before =
      ol_whole(L, -1, &typed) && (typed == first || (typed < 0 && typed + size == first - 1));
  int64_t last = before ? first - 1 : position(L, -1, dim, size, 0);
  if (last < first - 1)
    ol_throw(L, "index: dimension %d: the slice ends at %s, before it begins", dim,
             ol_value_text(L, -1));
  lua_pop(L, 1);
  return last;
}

static void add_slice(lua_State *L, region *r, int slice, int dim, int64_t size) {
  lua_Unsigned entries = lua_rawlen(L, slice);
  if (entries == 0) {
    lua_pushnil(L);
    if (lua_next(L, slice)) ol_throw(L, "index: dimension %d: a slice has no names", dim);
    add(r, 0, size, 1);
    return;
  }
  if (entries < 2 || entries > 3)
    ol_throw(L, "index: dimension %d: { first, last }, { first, last, step } or {} expected", dim);
  entry(L, slice, 1);
  int64_t first = position(L, -1, dim, size, 1);
  lua_pop(L, 1);
  int64_t last = slice_last(L, slice, dim, size, first), step = slice_step(L, slice, dim);
  add(r, first, last < first ? 0 : (last - first) / step + 1, step);
}

static void add_tensor(lua_State *L, region *r, int index, int dim, int64_t size) {
  const ol_tensor *tensor = ol_to_tensor(L, index);
  if (r->tensor) ol_throw(L, "index: one index tensor is allowed; see take_along_dim and gather");
  if (!tensor || tensor->dtype != OL_I64)
    ol_throw(L, "index: dimension %d: an index tensor of int64 expected, got %s", dim,
             tensor ? ol_dtype_name(tensor->dtype) : "released tensor");
  r->tensor = index;
  r->dim = r->kept;
  add(r, 0, size, 1);
}

/* The key for one dimension, on top of the stack, where it stays. */
static void add_key(lua_State *L, region *r, int dim, int64_t size) {
  int key = lua_gettop(L);
  if (ol_is_tensor(L, key))
    add_tensor(L, r, key, dim, size);
  else if (lua_type(L, key) == LUA_TTABLE)
    add_slice(L, r, key, dim, size);
  else
    add(r, position(L, key, dim, size, 0), -1, 1);
}

/* Reads the table at index; what it holds stays on the stack. */
static region read_table(lua_State *L, const ol_tensor *self, int table) {
  region r = { .start = { .ndim = 0 } };
  int count = (int)lua_rawlen(L, table);
  if (count > self->shape.ndim)
    ol_throw(L, "index: %d positions for a tensor of %d dimensions", count, self->shape.ndim);
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
    if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 || lua_tointeger(L, -2) > count)
      ol_throw(L, "index: a list of positions and slices expected, got the key %s",
               luaL_tolstring(L, -2, NULL));
  for (int d = 0; d < count; d++) {
    lua_rawgeti(L, table, d + 1);
    add_key(L, &r, d + 1, self->shape.size[d]);
  }
  return r;
}

/* Reads any key but a mask. */
static region read_key(lua_State *L, const ol_tensor *self, int key) {
  region r = { .start = { .ndim = 0 } };
  if (lua_type(L, key) == LUA_TTABLE) return read_table(L, self, key);
  if (lua_type(L, key) != LUA_TNUMBER && !ol_is_tensor(L, key))
    ol_throw(L, "index: integer, list, index tensor or mask expected, got %s",
             ol_type_text(L, key));
  if (self->shape.ndim == 0) ol_throw(L, "index: a tensor of 0 dimensions has no positions");
  lua_pushvalue(L, key);
  add_key(L, &r, 1, self->shape.size[0]);
  return r;
}

/* Calling ops on values of the stack. */

static void put_tensor(lua_State *L, ol_args *args, int p, int index) {
  args->at[p] = index;
  args->call.arg[p] = (ol_value){ .given = true, .tensor = ol_to_tensor(L, index) };
}

static void put_operand(lua_State *L, ol_args *args, int p, int index) {
  put_tensor(L, args, p, index);
  if (lua_type(L, index) == LUA_TNUMBER) args->numbers |= 1u << p;
}

static void put_list(ol_args *args, int p, const ol_shape *list) {
  args->call.arg[p] = (ol_value){ .given = true, .list = *list };
}

static void put_integer(ol_args *args, int p, int64_t integer) {
  args->call.arg[p] = (ol_value){ .given = true, .integer = integer };
}

/* Applies args to its op and pushes the result; returns its index. */
static int push_applied(lua_State *L, ol_args *args) {
  int slot = lua_gettop(L) + 1;
  ol_push_slots(L, args->call.op);
  ol_apply_args(L, args, slot);
  return slot;
}

/* The ops that this file calls, looked up once. */
enum {
  PART,
  RESHAPE,
  VIEW,
  EXPAND,
  INDEX_SELECT,
  INDEX_COPY,
  MASKED_FILL,
  ASSIGN,
  CLONE,
  COPY,
  OPS
};
static const ol_op *ops[OPS];

void ol_open_index(void) {
  static const char *const names[OPS] = {
    [PART] = "part",
    [RESHAPE] = "reshape",
    [VIEW] = "view",
    [EXPAND] = "expand",
    [INDEX_SELECT] = "index_select",
    [INDEX_COPY] = "index_copy_",
    [MASKED_FILL] = "masked_fill_",
    [ASSIGN] = "assign_",
    [CLONE] = "clone",
    [COPY] = "copy_",
  };
  for (int i = 0; i < OPS; i++) ops[i] = ol_op_find(names[i]);
}

static ol_args args_of(int op) { return (ol_args){ .call = { .op = ops[op] } }; }

static int push_part(lua_State *L, int self, const region *r) {
  ol_args args = args_of(PART);
  put_tensor(L, &args, 0, self);
  put_list(&args, 1, &r->start);
  put_list(&args, 2, &r->length);
  put_list(&args, 3, &r->step);
  return push_applied(L, &args);
}

static int push_reshaped(lua_State *L, int op, int self, const ol_shape *shape) {
  ol_args args = args_of(op);
  put_tensor(L, &args, 0, self);
  put_list(&args, 1, shape);
  return push_applied(L, &args);
}

/* Shape a without its dimensions from `at` to at+removed-1, and with those of b there. */
static ol_shape splice(lua_State *L, const ol_shape *a, int at, int removed, const ol_shape *b) {
  ol_shape result = { .ndim = 0 };
  if (a->ndim - removed + b->ndim > OL_MAX_DIMS)
    ol_throw(L, "index: the result would have more than %d dimensions", OL_MAX_DIMS);
  for (int d = 0; d < at; d++) result.size[result.ndim++] = a->size[d];
  for (int d = 0; d < b->ndim; d++) result.size[result.ndim++] = b->size[d];
  for (int d = at + removed; d < a->ndim; d++) result.size[result.ndim++] = a->size[d];
  return result;
}

static const ol_shape flat = { .ndim = 1, .size = { -1 } };

/* Pushes the elements of the tensor at self that the int64 tensor at index names in dimension dim.
 */
static int push_indexed(lua_State *L, int self, int index, int dim) {
  const ol_tensor *positions = ol_to_tensor(L, index), *source = ol_to_tensor(L, self);
  ol_shape shape = splice(L, &source->shape, dim, 1, &positions->shape);
  ol_args args = args_of(INDEX_SELECT);
  put_tensor(L, &args, 0, self);
  put_integer(&args, 1, dim);
  put_tensor(L, &args, 2,
             positions->shape.ndim == 1 ? index : push_reshaped(L, RESHAPE, index, &flat));
  int result = push_applied(L, &args);
  return positions->shape.ndim == 1 ? result : push_reshaped(L, RESHAPE, result, &shape);
}

/* Masks. */

static bool is_mask(lua_State *L, int index) {
  const ol_tensor *tensor = ol_to_tensor(L, index);
  return tensor && tensor->dtype == OL_U8;
}

static void check_mask(lua_State *L, const ol_tensor *self, const ol_tensor *mask) {
  char own[OL_SHAPE_TEXT], other[OL_SHAPE_TEXT];
  bool fits = mask->shape.ndim <= self->shape.ndim && mask->shape.ndim > 0;
  for (int d = 0; fits && d < mask->shape.ndim; d++)
    fits = mask->shape.size[d] == self->shape.size[d];
  if (!fits)
    ol_throw(L, "index: a mask of shape %s does not fit a tensor of shape %s",
             ol_shape_text(&mask->shape, other), ol_shape_text(&self->shape, own));
}

/* Pushes the int64 tensor of positions where the mask at index is not 0, in row-major order. */
static int push_positions(lua_State *L, int index) {
  ol_error error;
  ol_tensor *mask, *positions;
  ol_shape shape = { .ndim = 1 };
  int slot = lua_gettop(L) + 1;
  ol_push_slot(L);
  ol_push_slot(L);
  ol_check(L, ol_tensor_contiguous(&error, ol_to_tensor(L, index), &mask), &error);
  ol_fill_slot(L, slot + 1, mask);
  const uint8_t *bits = ol_tensor_data(mask);
  for (int64_t i = 0; i < mask->numel; i++) shape.size[0] += bits[i] != 0;
  ol_check(L, ol_tensor_new(&error, OL_I64, &shape, &positions), &error);
  ol_fill_slot(L, slot, positions);
  int64_t *next = ol_tensor_data(positions);
  for (int64_t i = 0; i < mask->numel; i++)
    if (bits[i]) *next++ = i;
  return slot;
}

/* Pushes self with the dimensions of the mask made one, as op (reshape or view) does. */
static int push_rows(lua_State *L, int op, int self, const ol_tensor *mask) {
  const ol_tensor *source = ol_to_tensor(L, self);
  ol_shape row = { .ndim = 1, .size = { mask->numel } };
  ol_shape shape = splice(L, &source->shape, 0, mask->shape.ndim, &row);
  return push_reshaped(L, op, self, &shape);
}

static int get_masked(lua_State *L, const ol_tensor *self) {
  const ol_tensor *mask = ol_to_tensor(L, 2);
  check_mask(L, self, mask);
  int positions = push_positions(L, 2), rows = push_rows(L, RESHAPE, 1, mask);
  push_indexed(L, rows, positions, 0);
  return 1;
}

int ol_index_get(lua_State *L, ol_tensor *self) {
  luaL_checkstack(L, 2 * OL_MAX_DIMS + 8, "index");
  if (is_mask(L, 2)) return get_masked(L, self);
  region r = read_key(L, self, 2);
  int part = r.tensor && r.kept == self->shape.ndim ? 1 : push_part(L, 1, &r);
  if (r.tensor) push_indexed(L, part, r.tensor, r.dim);
  return 1;
}

/* Assignment. */

static void check_value(lua_State *L, const ol_tensor *self, int value) {
  int64_t integer;
  bool number = lua_type(L, value) == LUA_TNUMBER;
  if (!number && !ol_to_tensor(L, value))
    ol_throw(L, "index: number or tensor expected for assignment, got %s", ol_type_text(L, value));
  if (!number || ol_dtype_is_float(self->dtype)) return;
  if (!ol_whole(L, value, &integer) ||
      (self->dtype == OL_U8 && (integer < 0 || integer > UINT8_MAX)))
    ol_throw(L, "index: %s does not hold %s", ol_dtype_name(self->dtype), ol_value_text(L, value));
}

/* Writes value into the positions that the int64 tensor at index names in dimension dim of the
 * tensor at target. */
static void set_indexed(lua_State *L, int target, int index, int dim, int value) {
  const ol_tensor *positions = ol_to_tensor(L, index);
  ol_shape length = { .ndim = 1, .size = { positions->numel } };
  ol_shape wide = splice(L, &ol_to_tensor(L, target)->shape, dim, 1, &positions->shape);
  ol_shape shape = splice(L, &ol_to_tensor(L, target)->shape, dim, 1, &length);
  int source = push_reshaped(L, EXPAND, value, &wide);
  source = push_reshaped(L, RESHAPE, source, &shape);
  ol_args args = args_of(INDEX_COPY);
  put_tensor(L, &args, 0, target);
  put_integer(&args, 1, dim);
  put_tensor(L, &args, 2, push_reshaped(L, RESHAPE, index, &flat));
  put_tensor(L, &args, 3, source);
  push_applied(L, &args);
}

/* Drops leading dimensions of size 1 that the value at index has more than the part it goes to. */
static void trim_value(lua_State *L, int value, int ndim) {
  const ol_tensor *tensor = ol_to_tensor(L, value);
  int extra = tensor ? tensor->shape.ndim - ndim : 0;
  for (int d = 0; d < extra; d++)
    if (tensor->shape.size[d] != 1) return;
  if (extra <= 0) return;
  ol_shape none = { .ndim = 0 }, shape = splice(L, &tensor->shape, 0, extra, &none);
  push_reshaped(L, RESHAPE, value, &shape);
  lua_replace(L, value);
}

static void set_part(lua_State *L, const ol_tensor *self, const region *r) {
  trim_value(L, 3, r->kept + self->shape.ndim - r->start.ndim);
  ol_args args = args_of(ASSIGN);
  put_tensor(L, &args, 0, 1);
  put_operand(L, &args, 1, 3);
  put_list(&args, 2, &r->start);
  put_list(&args, 3, &r->length);
  put_list(&args, 4, &r->step);
  push_applied(L, &args);
}

/* Replaces a number at index by a 0-d tensor of self's dtype. */
static void make_value(lua_State *L, const ol_tensor *self, int index) {
  ol_error error;
  ol_tensor *made;
  ol_shape scalar = { .ndim = 0 };
  int64_t integer;
  if (lua_type(L, index) != LUA_TNUMBER) return;
  ol_push_slot(L);
  ol_check(L, ol_tensor_new(&error, self->dtype, &scalar, &made), &error);
  if (ol_whole(L, index, &integer))
    ol_tensor_set_integer(made, 0, integer);
  else
    ol_tensor_set(made, 0, lua_tonumber(L, index));
  ol_fill_slot(L, -1, made);
  lua_replace(L, index);
}

/* Writes one value where the mask of the first dimensions says so. */
static void fill_masked(lua_State *L, const ol_tensor *self, const ol_tensor *mask) {
  ol_shape shape = mask->shape;
  while (shape.ndim < self->shape.ndim) shape.size[shape.ndim++] = 1;
  ol_args args = args_of(MASKED_FILL);
  put_tensor(L, &args, 0, 1);
  put_tensor(L, &args, 1, push_reshaped(L, RESHAPE, 2, &shape));
  put_operand(L, &args, 2, 3);
  push_applied(L, &args);
}

/* Writes the rows of a tensor there, through a copy where the memory does not lie in order. */
static void scatter_masked(lua_State *L, const ol_tensor *self, const ol_tensor *mask) {
  int positions = push_positions(L, 2), target = 1;
  if (!ol_tensor_is_contiguous(self)) {
    ol_args args = args_of(CLONE);
    put_tensor(L, &args, 0, 1);
    target = push_applied(L, &args);
  }
  set_indexed(L, push_rows(L, VIEW, target, mask), positions, 0, 3);
  if (target == 1) return;
  ol_args args = args_of(COPY);
  put_tensor(L, &args, 0, 1);
  put_tensor(L, &args, 1, target);
  push_applied(L, &args);
}

static void set_masked(lua_State *L, const ol_tensor *self) {
  const ol_tensor *mask = ol_to_tensor(L, 2), *value = ol_to_tensor(L, 3);
  check_mask(L, self, mask);
  if (!value || value->shape.ndim == 0)
    fill_masked(L, self, mask);
  else
    scatter_masked(L, self, mask);
}

int ol_index_set(lua_State *L, ol_tensor *self) {
  luaL_checkstack(L, 2 * OL_MAX_DIMS + 8, "index");
  check_value(L, self, 3);
  if (is_mask(L, 2)) {
    set_masked(L, self);
    return 0;
  }
  region r = read_key(L, self, 2);
  if (!r.tensor) {
    set_part(L, self, &r);
    return 0;
  }
  make_value(L, self, 3);
  int target = r.kept == self->shape.ndim ? 1 : push_part(L, 1, &r);
  set_indexed(L, target, r.tensor, r.dim, 3);
  return 0;
}
