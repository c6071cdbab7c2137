/* hook: functions of the script that see gradients during backward. */
#include <lauxlib.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "bind/error.h"
#include "bind/grad.h"
#include "bind/history.h"
#include "bind/native.h"
#include "bind/tensor.h"

/* A tensor has one, for all its functions; they stand in the list that bears the number, in the
 * order of registration, with false where one was removed. */
typedef struct hook {
  ol_hook base;
  lua_Integer number;
} hook;

static void destroy(ol_object *object) { ol_free(object); }

typedef struct sight {
  const hook *self;
  ol_tensor *gradient, **replacement;
} sight;

/* Calls the function on top of the stack with the gradient below it, and replaces both by what is
 * the gradient now. */
static void show(lua_State *L) {
  lua_pushvalue(L, -2);
  lua_call(L, 1, 1);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return;
  }
  if (!ol_to_tensor(L, -1))
    ol_throw(L, "hook: a gradient or nothing expected as the result, got %s", ol_type_text(L, -1));
  lua_remove(L, -2);
}

static int run(lua_State *L) {
  const sight *s = lua_touserdata(L, 1);
  ol_push_remembered(L, s->self->number);
  if (lua_isnil(L, 2))
    return ol_throw(L, "hook: its functions were collected with the tensor, which was dropped; "
                       "register hooks before the tensor is used, or keep it");
  ol_push_tensor(L, s->gradient);
  for (lua_Integer i = 1; lua_rawgeti(L, 2, i) != LUA_TNIL; i++) {
    if (lua_toboolean(L, -1))
      show(L);
    else
      lua_pop(L, 1);
  }
  ol_tensor *last = ol_to_tensor(L, 3);
  if (last && last != s->gradient) *s->replacement = ol_retain(last);
  return 0;
}

static ol_status call(ol_hook *self, ol_error *error, ol_tensor *gradient,
                      ol_tensor **replacement) {
  sight s = { (hook *)self, gradient, replacement };
  return ol_protect(error, run, &s);
}

/* Makes a hook for the tensor at index 1 and the list on top of the stack. */
static void make(lua_State *L, ol_tensor *tensor) {
  ol_error error;
  void *block;
  lua_Integer number = ol_remember(L);
  ol_check(L, ol_alloc_for(&error, sizeof(hook), "a hook", &block), &error);
  hook *self = block;
  ol_object_init(&self->base.object, destroy);
  self->base.call = call;
  self->number = number;
  ol_status status = ol_set_hook(&error, tensor, &self->base);
  ol_release(&self->base);
  ol_check(L, status, &error);
}

/* Pushes the list of functions of the tensor at index 1, making it where there is none. */
static void push_list(lua_State *L, ol_tensor *tensor) {
  ol_hook *old = ol_hook_of(tensor);
  if (old) {
    ol_push_remembered(L, ((hook *)old)->number);
    if (!lua_isnil(L, -1)) return;
    lua_pop(L, 1);
  }
  lua_newtable(L);
  make(L, tensor);
}

static int register_hook(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  ol_tensor *tensor = args.call.arg[0].tensor;
  if (lua_type(L, 2) != LUA_TFUNCTION)
    return ol_throw(L, "register_hook: argument 2 (fn): function expected, got %s",
                    ol_type_text(L, 2));
  if (!tensor->requires_grad)
    return ol_throw(L, "register_hook: the tensor does not require a gradient");
  push_list(L, tensor);
  lua_Integer place = (lua_Integer)lua_rawlen(L, -1) + 1;
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, place);
  ol_attach_history(L, 1, -1);
  lua_createtable(L, 2, 0); /* the handle: list, place */
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, place);
  lua_rawseti(L, -2, 2);
  luaL_setmetatable(L, "optlua.hook");
  return 1;
}

/* handle:remove(): the function is not called any more; twice is harmless. */
static int remove_hook(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (lua_rawgeti(L, 1, 1) == LUA_TTABLE && lua_rawgeti(L, 1, 2) == LUA_TNUMBER) {
    lua_pushboolean(L, false);
    lua_rawset(L, -3);
    lua_pushboolean(L, false);
    lua_rawseti(L, 1, 1);
  }
  return 0;
}

void ol_open_hook(lua_State *L) {
  luaL_newmetatable(L, "optlua.hook");
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, remove_hook);
  lua_setfield(L, -2, "remove");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

static const ol_native natives[] = {
  { { .name = "register_hook",
      .doc =
          "Calls a function with the gradient of the tensor during every backward, after all "
          "contributions to it; a tensor that it returns takes the gradient's place. An error in "
          "it ends backward and leaves all gradients as they were. Returns a handle with a method "
          "remove. Register before the tensor is used, or keep the tensor.",
      .example = "local w = optlua.ones(2, { requires_grad = true })\n"
                 "w:register_hook(function(grad) return grad * 10 end)\n"
                 "w:sum():backward()\n"
                 "print(w.grad) --> tensor([10., 10.])",
      .param = { { "self", OL_TENSOR },
                 { "fn", OL_ANY, .doc = "function (grad): nothing, or another gradient" } } },
    register_hook,
    true },
  { { 0 } },
};

const ol_natives ol_hook_natives = { "hook", "Hooks", natives };
