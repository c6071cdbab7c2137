/* grad: gradients from Lua: backward, and leaves. */
#include "bind/grad.h"

#include <lauxlib.h>

#include "autograd/tape.h"
#include "base/local.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/tensor.h"

OL_THREAD_LOCAL ol_walk *current; /* the innermost backward that runs */

const ol_walk *ol_current_walk(void) { return current; }

ol_status ol_protect(ol_error *error, lua_CFunction fn, void *context) {
  lua_State *L = current->L;
  bool recording = ol_recording();
  if (!lua_checkstack(L, 4)) return ol_fail(error, OL_MEMORY, "out of memory: Lua's stack");
  lua_pushcfunction(L, fn);
  lua_pushlightuserdata(L, context);
  ol_set_recording(false);
  int status = lua_pcall(L, 1, 0, 0);
  ol_set_recording(recording);
  return status == LUA_OK ? OL_OK : ol_keep_error(L, error);
}

static int backward(lua_State *L) {
  ol_args args;
  ol_error error;
  ol_native_args(L, lua_gettop(L), &args);
  const ol_value *arg = args.call.arg;
  ol_walk walk = { .L = L, .retain = arg[2].flag }, *outer = current;
  current = &walk;
  ol_status status = ol_backward(&error, arg[0].tensor, arg[1].tensor, arg[2].flag);
  current = outer;
  ol_check(L, status, &error);
  return 0;
}

static int detach(lua_State *L) {
  ol_args args;
  ol_error error;
  ol_tensor *out;
  int slot = lua_gettop(L) + 1;
  ol_push_slot(L);
  ol_native_args(L, slot - 1, &args);
  ol_check(L, ol_tensor_alias(&error, args.call.arg[0].tensor, &out), &error);
  ol_fill_slot(L, slot, out);
  lua_settop(L, slot);
  return 1;
}

static int requires_grad_(lua_State *L) {
  ol_args args;
  ol_error error;
  ol_native_args(L, lua_gettop(L), &args);
  ol_check(L, ol_set_requires_grad(&error, args.call.arg[0].tensor, args.call.arg[1].flag), &error);
  lua_settop(L, 1);
  return 1;
}

static const ol_native natives[] = {
  { { .name = "backward",
      .doc =
          "Computes the gradients of the tensor with respect to every leaf that requires one, and "
          "adds them to the leaf's grad. A second backward through the same graph needs "
          "retain_graph in the first. Gradients have no history: there is no double backward.",
      .example = "local w = optlua.tensor({ 1, 2 }, { requires_grad = true })\n"
                 "local loss = (w * w):sum()\n"
                 "loss:backward()\n"
                 "print(w.grad) --> tensor([2., 4.])",
      .param = { { "self", OL_TENSOR },
                 { "gradient", OL_TENSOR, true,
                   .doc = "the gradient of self; may be left out if that has one element: 1" },
                 { "retain_graph", OL_FLAG, true,
                   .doc = "whether the graph is kept for another backward" } } },
    backward,
    true },
  { { .name = "detach",
      .doc = "A tensor that looks at the same elements and has no history.",
      .example = "local w = optlua.ones(2, { requires_grad = true })\n"
                 "print((w * 2):detach()) --> tensor([2., 2.])",
      .param = { { "self", OL_TENSOR } } },
    detach },
  { { .name = "requires_grad_",
      .doc = "Makes a leaf want a gradient, or not; returns it.",
      .example = "print(optlua.zeros(1):requires_grad_()) --> tensor([0.], requires_grad=true)",
      .param = { { "self", OL_TENSOR }, { "requires_grad", OL_FLAG, true, true } } },
    requires_grad_,
    true },
  { { 0 } },
};

const ol_natives ol_grad_natives = { "grad", "Gradients", natives };
