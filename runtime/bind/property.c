/* property: what a tensor answers to t.name and t.name = value. */
#include "bind/property.h"

#include <lauxlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "bind/call.h"
#include "bind/error.h"
#include "bind/index.h"
#include "bind/porting.h"
#include "bind/sizes.h"
#include "bind/tensor.h"
#include "ops/registry.h"

typedef struct property {
  const char *name, *doc;
  void (*get)(lua_State *L, ol_tensor *self);            /* pushes it */
  void (*set)(lua_State *L, ol_tensor *self, int value); /* NULL: read only */
} property;

static void get_shape(lua_State *L, ol_tensor *self) {
  ol_push_sizes(L, self->shape.size, self->shape.ndim);
}

static void get_ndim(lua_State *L, ol_tensor *self) { lua_pushinteger(L, self->shape.ndim); }

static void get_dtype(lua_State *L, ol_tensor *self) {
  lua_pushstring(L, ol_dtype_name(self->dtype));
}

static void get_requires_grad(lua_State *L, ol_tensor *self) {
  lua_pushboolean(L, self->requires_grad);
}

static void set_requires_grad(lua_State *L, ol_tensor *self, int value) {
  ol_error error;
  if (lua_type(L, value) != LUA_TBOOLEAN)
    ol_throw(L, "requires_grad: boolean expected, got %s", ol_type_text(L, value));
  ol_check(L, ol_set_requires_grad(&error, self, lua_toboolean(L, value)), &error);
}

static void get_is_leaf(lua_State *L, ol_tensor *self) { lua_pushboolean(L, ol_is_leaf(self)); }

static void get_grad(lua_State *L, ol_tensor *self) { ol_push_tensor(L, ol_grad(self)); }

static void set_grad(lua_State *L, ol_tensor *self, int value) {
  ol_error error;
  ol_tensor *gradient = ol_to_tensor(L, value);
  if (!gradient && !lua_isnil(L, value))
    ol_throw(L, "grad: tensor or nil expected, got %s", ol_type_text(L, value));
  ol_check(L, ol_set_grad(&error, self, gradient), &error);
}

static void get_grad_fn(lua_State *L, ol_tensor *self) { lua_pushstring(L, ol_made_by(self)); }

static void get_transposed(lua_State *L, ol_tensor *self) {
  (void)self; /* stands at index 1 */
  lua_settop(L, 1);
  ol_call_op(L, ol_op_find("t"), 1);
}

static const property properties[] = {
  { "shape", "The sizes of the dimensions, as a list of integers.", get_shape, NULL },
  { "ndim", "The number of dimensions.", get_ndim, NULL },
  { "dtype", "\"float32\", \"float64\", \"int64\", \"uint8\" or \"bfloat16\".", get_dtype, NULL },
  { "requires_grad",
    "Whether operations on the tensor are recorded for backward; can be set, of leaves of a float "
    "dtype.",
    get_requires_grad, set_requires_grad },
  { "grad",
    "The gradient that backward has added up, or nil while it is absent; can be set to a tensor of "
    "the same shape and dtype, or to nil.",
    get_grad, set_grad },
  { "is_leaf", "Whether no recorded operation made the tensor: backward gives leaves their grad.",
    get_is_leaf, NULL },
  { "grad_fn", "The name of the recorded operation that made the tensor, or nil.", get_grad_fn,
    NULL },
  { "T", "The matrix, transposed: a view, as t().", get_transposed, NULL },
};

#define COUNT ((int)(sizeof properties / sizeof *properties))

static const property *find(const char *name) {
  for (int i = 0; i < COUNT; i++)
    if (strcmp(properties[i].name, name) == 0) return &properties[i];
  return NULL;
}

void ol_push_tensor_names(lua_State *L, int methods) {
  lua_createtable(L, 0, COUNT);
  for (int i = 0; i < COUNT; i++) {
    lua_pushstring(L, properties[i].doc);
    lua_setfield(L, -2, properties[i].name);
  }
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, methods);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

/* Says what stands here for a name of PyTorch's, or which name of properties and methods is
 * nearest. */
_Noreturn static void fail_name(lua_State *L, const char *name) {
  const char *instead = ol_porting(name);
  if (instead) ol_throw(L, "tensor: unknown field \"%s\"; here: %s", name, instead);
  const char *names[COUNT + 400];
  int count = COUNT;
  for (int i = 0; i < COUNT; i++) names[i] = properties[i].name;
  for (lua_pushnil(L); count < COUNT + 400 && lua_next(L, lua_upvalueindex(1)); lua_pop(L, 1))
    names[count++] = lua_tostring(L, -2);
  const char *nearest = ol_nearest(name, names, count);
  if (nearest) ol_throw(L, "tensor: unknown field \"%s\" (did you mean \"%s\"?)", name, nearest);
  ol_throw(L, "tensor: unknown field \"%s\"", name);
}

/* The tensor that is indexed. */
static ol_tensor *self_of(lua_State *L) {
  ol_tensor *self = ol_to_tensor(L, 1);
  if (!self) ol_throw(L, "tensor expected, got %s", ol_type_text(L, 1));
  return self;
}

int ol_tensor_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return ol_index_get(L, self_of(L));
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  ol_tensor *self = self_of(L);
  const property *found = find(lua_tostring(L, 2));
  if (!found) fail_name(L, lua_tostring(L, 2));
  found->get(L, self);
  return 1;
}

int ol_tensor_newindex(lua_State *L) {
  ol_tensor *self = self_of(L);
  if (lua_type(L, 2) != LUA_TSTRING) return ol_index_set(L, self);
  const char *name = lua_tostring(L, 2);
  const property *found = find(name);
  if (!found || !found->set)
    return ol_throw(L, "tensor: \"%s\" cannot be set; grad and requires_grad can", name);
  found->set(L, self, 3);
  return 0;
}

int ol_tensor_len(lua_State *L) {
  const ol_tensor *self = self_of(L);
  if (self->shape.ndim == 0) return ol_throw(L, "a tensor of 0 dimensions has no length");
  lua_pushinteger(L, self->shape.size[0]);
  return 1;
}

int ol_tensor_concat(lua_State *L) {
  return ol_throw(L, "a tensor is no text: t:item() is its number, tostring(t) its text");
}

int ol_tensor_less(lua_State *L) {
  return ol_throw(L, "< and > on tensors would give one boolean; use :lt or :gt for a mask");
}

int ol_tensor_less_equal(lua_State *L) {
  return ol_throw(L, "<= and >= on tensors would give one boolean; use :le or :ge for a mask");
}
