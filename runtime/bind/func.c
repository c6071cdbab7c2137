/* func: differentiable functions written in Lua.
 *
 * The tape holds a number; the call that the number stands for is a table, found while it is alive
 * (see history.h):
 *   [1] the context that forward and backward share   [2] the table of forward and backward
 *   [3] which arguments of forward were tensors       [4] versions of the tensors in context.saved
 */
#include <lauxlib.h>
#include <string.h>

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "bind/error.h"
#include "bind/grad.h"
#include "bind/history.h"
#include "bind/mode.h"
#include "bind/native.h"
#include "bind/tensor.h"

enum { CONTEXT = 1, SPEC, PLACES, VERSIONS };

/* What the tape holds. */
typedef struct function {
  ol_function base;
  lua_Integer number;
  int arguments, outputs;
  ol_shape shape[OL_MAX_OUTPUTS]; /* of each output, for gradients that are absent */
  ol_dtype dtype[OL_MAX_OUTPUTS];
  char name[]; /* base.name */
} function;

static void destroy(ol_object *object) { ol_free(object); }

/* ---- backward ---- */

typedef struct pass {
  const function *self;
  ol_back *back;
} pass;

/* Raises when a tensor of context.saved was written in place since forward. */
static void check_versions(lua_State *L, const function *self, int call) {
  lua_rawgeti(L, call, CONTEXT);
  lua_getfield(L, -1, "saved");
  lua_rawgeti(L, call, VERSIONS);
  int saved = lua_gettop(L) - 1, versions = lua_gettop(L);
  lua_Integer count = (lua_Integer)lua_rawlen(L, versions);
  for (lua_Integer i = 1; lua_type(L, saved) == LUA_TTABLE && i <= count; i++) {
    lua_rawgeti(L, saved, i);
    lua_rawgeti(L, versions, i);
    const ol_tensor *tensor = ol_to_tensor(L, -2);
    if (tensor && lua_isinteger(L, -1) &&
        (lua_Integer)tensor->storage->version != lua_tointeger(L, -1))
      ol_throw(L, "backward: tensor %d that %s saved was changed in place after the forward pass",
               (int)i, self->name);
    lua_pop(L, 2);
  }
  lua_settop(L, saved - 2);
}

/* Pushes the gradient of output i: zeros where it is absent. */
static void push_gradient(lua_State *L, const pass *p, int i) {
  ol_error error;
  ol_tensor *zeros;
  if (p->back->grad_out[i]) {
    ol_push_tensor(L, p->back->grad_out[i]);
    return;
  }
  ol_push_slot(L);
  ol_check(L, ol_tensor_zeros(&error, p->self->dtype[i], &p->self->shape[i], &zeros), &error);
  ol_fill_slot(L, -1, zeros);
}

/* The gradient of input i, at stack index `result` (0: backward returned fewer), or NULL. */
static ol_tensor *input_gradient(lua_State *L, const pass *p, int i, int result) {
  ol_error unused;
  ol_shape wide;
  char own[OL_SHAPE_TEXT], other[OL_SHAPE_TEXT];
  const char *name = p->self->name;
  if (!p->back->needs[i] || result > lua_gettop(L) || lua_isnil(L, result)) return NULL;
  ol_tensor *gradient = ol_to_tensor(L, result);
  if (!gradient)
    ol_throw(L, "%s: backward: gradient of input %d: tensor or nil expected, got %s", name, i + 1,
             ol_type_text(L, result));
  if (!ol_dtype_computes(gradient->dtype))
    ol_throw(L, "%s: backward: gradient of input %d: float32 or float64 expected, got %s", name,
             i + 1, ol_dtype_name(gradient->dtype));
  if (ol_shape_broadcast(&unused, name, p->back->shape[i], &gradient->shape, &wide) != OL_OK ||
      !ol_shape_equal(&wide, &gradient->shape))
    ol_throw(L, "%s: backward: gradient of input %d: shape %s expected, got %s", name, i + 1,
             ol_shape_text(p->back->shape[i], own), ol_shape_text(&gradient->shape, other));
  return gradient;
}

/* Takes what backward returned, from index first on: one result an argument of forward. */
static void take_gradients(lua_State *L, const pass *p, int call, int first) {
  int returned = lua_gettop(L) - first + 1, arguments = p->self->arguments;
  if (returned > arguments)
    ol_throw(L, "%s: backward: %d gradients were returned for %d argument%s", p->self->name,
             returned, arguments, arguments == 1 ? "" : "s");
  lua_rawgeti(L, call, PLACES);
  lua_insert(L, first);
  int places = first++;
  for (int round = 0; round < 2; round++) /* all is checked before anything is handed over */
    for (int i = 0; i < p->back->inputs; i++) {
      lua_rawgeti(L, places, i + 1);
      int result = first + (int)lua_tointeger(L, -1) - 1;
      lua_pop(L, 1);
      ol_tensor *gradient = input_gradient(L, p, i, result);
      if (round == 1 && gradient) p->back->grad[i] = ol_retain(gradient);
    }
}

static int run_backward(lua_State *L) {
  const pass *p = lua_touserdata(L, 1);
  ol_push_remembered(L, p->self->number);
  if (lua_type(L, 2) != LUA_TTABLE)
    return ol_throw(L, "backward: the context of %s is no more", p->self->name);
  check_versions(L, p->self, 2);
  lua_rawgeti(L, 2, SPEC);
  lua_getfield(L, -1, "backward");
  lua_replace(L, -2);
  lua_rawgeti(L, 2, CONTEXT);
  for (int i = 0; i < p->self->outputs; i++) push_gradient(L, p, i);
  lua_call(L, 1 + p->self->outputs, LUA_MULTRET);
  take_gradients(L, p, 2, 3);
  if (ol_current_walk()->retain) return 0;
  lua_rawgeti(L, 2, CONTEXT);
  lua_pushnil(L);
  lua_setfield(L, -2, "saved");
  return 0;
}

static ol_status backward(ol_function *self, ol_error *error, ol_back *back) {
  pass p = { (function *)self, back };
  return ol_protect(error, run_backward, &p);
}

/* ---- forward ---- */

/* Pushes the list of the arguments 1 … count that are tensors, by place, and fills the context's
 * needs_input_grad. */
static void push_places(lua_State *L, int count, int context) {
  lua_newtable(L);
  lua_createtable(L, count, 0);
  for (int i = 1, next = 1; i <= count; i++) {
    const ol_tensor *tensor = ol_to_tensor(L, i);
    lua_pushboolean(L, tensor && tensor->requires_grad);
    lua_rawseti(L, -2, i);
    if (!tensor) continue;
    lua_pushinteger(L, i);
    lua_rawseti(L, -3, next++);
  }
  lua_setfield(L, context, "needs_input_grad");
}

/* Pushes the versions of the tensors in context.saved. */
static void push_versions(lua_State *L, int context) {
  lua_newtable(L);
  if (lua_getfield(L, context, "saved") == LUA_TTABLE) {
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= count; i++) {
      lua_rawgeti(L, -1, i);
      const ol_tensor *tensor = ol_to_tensor(L, -1);
      lua_pop(L, 1);
      if (tensor)
        lua_pushinteger(L, (lua_Integer)tensor->storage->version);
      else
        lua_pushboolean(L, false);
      lua_rawseti(L, -3, i);
    }
  }
  lua_pop(L, 1);
}

/* Makes the result at index a tensor of its own: no argument, no other result, no history. */
static void own_result(lua_State *L, int index) {
  ol_error error;
  ol_tensor *alias, *result = ol_to_tensor(L, index);
  bool shared = result->requires_grad;
  for (int i = 1; i < index && !shared; i++) shared = ol_to_tensor(L, i) == result;
  if (!shared) return;
  ol_push_slot(L);
  ol_check(L, ol_tensor_alias(&error, result, &alias), &error);
  ol_fill_slot(L, -1, alias);
  lua_replace(L, index);
}

static void check_results(lua_State *L, const char *name, int first) {
  int count = lua_gettop(L) - first + 1;
  if (count < 1 || count > OL_MAX_OUTPUTS)
    ol_throw(L, "%s: forward must return 1 to %d tensors, not %d values", name, OL_MAX_OUTPUTS,
             count);
  for (int i = first; i < first + count; i++)
    if (!ol_to_tensor(L, i))
      ol_throw(L, "%s: result %d of forward: tensor expected, got %s", name, i - first + 1,
               ol_type_text(L, i));
  for (int i = first; i < first + count; i++) own_result(L, i);
}

/* Hands the call to the tape: `like`, with what its results are. */
static ol_status record(ol_error *error, lua_State *L, const char *name, const function *like,
                        ol_tensor *const *inputs, int count, int first) {
  void *block;
  ol_tensor *out[OL_MAX_OUTPUTS];
  OL_TRY(ol_alloc_for(error, sizeof(function) + strlen(name) + 1, name, &block));
  function *self = block;
  *self = *like;
  ol_object_init(&self->base.object, destroy);
  self->base.backward = backward;
  self->base.name = strcpy(self->name, name);
  for (int i = 0; i < like->outputs; i++) {
    out[i] = ol_to_tensor(L, first + i);
    self->shape[i] = out[i]->shape;
    self->dtype[i] = ol_dtype_computes(out[i]->dtype) ? out[i]->dtype : OL_F32;
  }
  ol_status status = ol_record(error, &self->base, inputs, count, out, like->outputs);
  ol_release(&self->base);
  return status;
}

/* Pushes the table of the call, described above. */
static void push_call(lua_State *L, int context) {
  lua_createtable(L, 4, 0);
  lua_pushvalue(L, context);
  lua_rawseti(L, -2, CONTEXT);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_rawseti(L, -2, SPEC);
  lua_pushvalue(L, context + 1);
  lua_rawseti(L, -2, PLACES);
  push_versions(L, context);
  lua_rawseti(L, -2, VERSIONS);
}

/* Lets the results keep the call, on top of the stack, and what the arguments keep. */
static void keep_call(lua_State *L, int count, int first, int outputs) {
  int call = lua_gettop(L);
  for (int out = first; out < first + outputs; out++) {
    ol_attach_history(L, out, call);
    for (int i = 1; i <= count; i++) {
      if (!ol_to_tensor(L, i)) continue;
      if (lua_getiuservalue(L, i, 1) == LUA_TTABLE) ol_attach_history(L, out, -1);
      lua_pop(L, 1);
    }
  }
}

/* Records the call of which the arguments are 1 … count, followed by context and places, and whose
 * results begin at first. */
static void record_call(lua_State *L, const char *name, int count, int first) {
  ol_error error;
  int outputs = lua_gettop(L) - first + 1, inputs = (int)lua_rawlen(L, count + 2);
  bool needs = false;
  luaL_checkstack(L, 8, name);
  ol_tensor **input = lua_newuserdatauv(L, (size_t)inputs * sizeof *input, 0);
  for (int i = 1, next = 0; i <= count; i++) {
    ol_tensor *tensor = ol_to_tensor(L, i);
    if (tensor && next < inputs) input[next++] = tensor;
    needs |= tensor && tensor->requires_grad;
  }
  if (needs && ol_recording()) {
    if (ol_watching()) ol_note_place(L);
    push_call(L, count + 1);
    lua_Integer number = ol_remember(L);
    keep_call(L, count, first, outputs);
    function like = { .number = number, .arguments = count, .outputs = outputs };
    ol_check(L, record(&error, L, name, &like, input, inputs, first), &error);
  }
  lua_settop(L, first + outputs - 1);
}

/* The function that optlua.func returns; upvalue 1: the table with name, forward and backward. */
static int call_function(lua_State *L) {
  int count = lua_gettop(L), context = count + 1, first = count + 3;
  luaL_checkstack(L, count + 8, "func");
  lua_newtable(L);
  luaL_setmetatable(L, "optlua.context");
  push_places(L, count, context);
  lua_getfield(L, lua_upvalueindex(1), "forward");
  lua_pushvalue(L, context);
  for (int i = 1; i <= count; i++) lua_pushvalue(L, i);
  ol_call_unrecorded(L, count + 1, LUA_MULTRET);
  lua_getfield(L, lua_upvalueindex(1), "name");
  const char *name = lua_tostring(L, -1); /* the table keeps it */
  lua_pop(L, 1);
  check_results(L, name, first);
  record_call(L, name, count, first);
  return lua_gettop(L) - first + 1;
}

/* ctx:save(…): what backward finds in ctx.saved. */
static int save(lua_State *L) {
  int count = lua_gettop(L) - 1;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_createtable(L, count, 0);
  lua_insert(L, 2);
  for (int i = count; i >= 1; i--) lua_rawseti(L, 2, i);
  lua_setfield(L, 1, "saved");
  return 0;
}

void ol_open_func(lua_State *L) {
  luaL_newmetatable(L, "optlua.context");
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, save);
  lua_setfield(L, -2, "save");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

/* Copies argument p, which must be of the type, into the table on top of the stack. */
static void copy_part(lua_State *L, const ol_args *args, int p, int type) {
  const char *name = args->call.op->param[p].name;
  if (lua_type(L, args->at[p]) != type)
    ol_throw(L, "func: %s: %s expected, got %s", name, lua_typename(L, type),
             ol_type_text(L, args->at[p]));
  lua_pushvalue(L, args->at[p]);
  lua_setfield(L, -2, name);
}

static int func(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  lua_createtable(L, 0, 3);
  copy_part(L, &args, 0, LUA_TSTRING);
  copy_part(L, &args, 1, LUA_TFUNCTION);
  copy_part(L, &args, 2, LUA_TFUNCTION);
  lua_pushcclosure(L, call_function, 1);
  return 1;
}

static const ol_native natives[] = {
  { { .name = "func",
      .doc =
          "Makes a differentiable function from two functions, in one table: optlua.func { name =, "
          "forward =, backward = }. forward(ctx, …) computes one to three tensors, unrecorded; "
          "ctx:save(…) keeps values that backward finds in ctx.saved "
          "(tensors are watched for changes in place), and other fields of ctx are free. "
          "backward(ctx, grad, …) gets the gradient of each result and returns the gradient of "
          "each argument, nil where there is none; ctx.needs_input_grad says which are wanted. "
          "gradcheck compares the two.",
      .example = "local double = optlua.func {\n"
                 "  name = \"double\",\n"
                 "  forward = function(ctx, x) return x * 2 end,\n"
                 "  backward = function(ctx, grad) return grad * 2 end,\n"
                 "}\n"
                 "local w = optlua.ones(2, { requires_grad = true })\n"
                 "double(w):sum():backward()\n"
                 "print(w.grad) --> tensor([2., 2.])",
      .param = { { "name", OL_ANY, .doc = "for messages and printing" },
                 { "forward", OL_ANY },
                 { "backward", OL_ANY } },
      .flags = OL_OP_FUNCTION },
    func },
  { { 0 } },
};

const ol_natives ol_func_natives = { "func", "Functions of your own", natives };
