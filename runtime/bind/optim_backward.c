/* optim_backward: an optimizer that updates its parameters while backward runs: what takes their
 * gradients (autograd/) for the steps of optim/.
 *
 *   updater(begin, measure)  begin(visit) is called when a backward reaches parameters; measure:
 *                            gradients that are not finite fail
 *   updater:add(group)       its parameters' gradients come here from now on
 *   updater:open(visit, grad_scale)
 *                            within a transaction of begin: all rules were traced; the step, taken
 *                            out of the transaction, awaits the gradients
 *   updater:lost()           the name of a parameter whose gradients go elsewhere now, or nothing
 *   updater:is_running()     whether a backward runs
 *   updater:counts()         how many parameters of each group are part of an update that has begun
 *   updater:close()          the same, and ends it
 */
#include <lauxlib.h>
#include <math.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "bind/error.h"
#include "bind/grad.h"
#include "bind/optim.h"
#include "optim/arrival.h"

/* Its address is the key of a weak table: userdata by updater. A userdata that nobody holds leaves
 * it some time before it is finalized. */
static const char updaters = 'u';

/* A step that awaits the gradients of a walk; a backward inside another has its own. */
typedef struct frame {
  uint64_t visit;
  ol_step *step;
  struct frame *outer;
} frame;

typedef struct updater {
  ol_taker base;
  frame *top;
  ol_step *one; /* updates one parameter after the other */
  ol_step_options options;
  ol_group **group; /* one reference each */
  int64_t count;
} updater;

static void pop_frame(updater *self) {
  frame *top = self->top;
  self->top = top->outer;
  self->base.visit = self->top ? self->top->visit : 0;
  ol_arrival_close(top->step);
  ol_step_free(top->step);
  ol_free(top);
}

/* Gives the parameters their gradients back. */
static void let_go(updater *self) {
  for (int64_t g = 0; g < self->count; g++)
    for (int64_t i = 0; i < self->group[g]->count; i++) {
      ol_tensor *param = self->group[g]->member[i].param;
      if (param->taker == &self->base.object) ol_set_taker(param, NULL);
    }
}

static void destroy(ol_object *object) {
  updater *self = (updater *)object;
  let_go(self);
  while (self->top) pop_frame(self);
  for (int64_t g = 0; g < self->count; g++) ol_release(self->group[g]);
  ol_free(self->group);
  ol_step_free(self->one);
  ol_free(self);
}

/* During backward. */

typedef struct beginning {
  updater *self;
  uint64_t visit;
} beginning;

/* Of an optimizer that is no more, but not finalized yet, the gradients are the parameters' again.
 */
static int call_begin(lua_State *L) {
  const beginning *b = lua_touserdata(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &updaters);
  if (lua_rawgetp(L, -1, b->self) == LUA_TNIL) {
    let_go(b->self);
    return 0;
  }
  lua_getiuservalue(L, -1, 1);
  lua_pushinteger(L, (lua_Integer)b->visit);
  lua_call(L, 1, 0);
  return 0;
}

static ol_status begin(ol_taker *taker, ol_error *error, uint64_t visit) {
  beginning b = { (updater *)taker, visit };
  return ol_protect(error, call_begin, &b);
}

static ol_status take(ol_taker *taker, ol_error *error, ol_tensor *leaf, ol_tensor *gradient) {
  updater *self = (updater *)taker;
  return ol_arrival_take(error, self->top->step, self->one, leaf, gradient, &self->options);
}

static void end(ol_taker *taker, uint64_t visit) {
  updater *self = (updater *)taker;
  if (self->top && self->top->visit == visit) pop_frame(self);
}

/* From Lua. */

static void drop_updater(void *self) {
  updater **handle = self;
  if (!*handle) return;
  let_go(*handle); /* a backward that runs may keep it */
  ol_release(&(*handle)->base);
  *handle = NULL;
}

static const ol_scratch updater_kind = { "optlua.updater", sizeof(updater *), drop_updater };

static updater *check_updater(lua_State *L) {
  updater **handle = ol_check_scratch(L, 1, &updater_kind);
  if (!*handle) luaL_argerror(L, 1, "released updater");
  return *handle;
}

static ol_status make(ol_error *error, bool measure, updater **out) {
  updater *self;
  OL_TRY(OL_ALLOC(error, sizeof *self, "an optimizer", &self));
  *self = (updater){ .options = { .measure = measure, .max_norm = HUGE_VAL, .unscale = 1 } };
  ol_object_init(&self->base.object, destroy);
  self->base.begin = begin;
  self->base.take = take;
  self->base.end = end;
  ol_status status = ol_step_new(error, &self->one);
  if (status == OL_OK)
    *out = self;
  else
    ol_release(&self->base);
  return status;
}

static int new_updater(lua_State *L) {
  ol_error error;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  updater **handle = ol_push_scratch(L, &updater_kind, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  ol_check(L, make(&error, lua_toboolean(L, 2), handle), &error);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &updaters);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, *handle);
  lua_pop(L, 1);
  return 1;
}

/* Takes the gradients of a member; memory that is kept for the next one is freed. */
static void take_member(updater *self, ol_member *m) {
  ol_set_taker(m->param, &self->base);
  ol_release(m->seen);
  m->seen = NULL;
  if (m->param->has_grad) return;
  ol_release(m->param->grad);
  m->param->grad = NULL;
}

static int add_group(lua_State *L) {
  ol_error error;
  ol_group **grown;
  updater *self = check_updater(L);
  ol_group *group = ol_check_group(L, 2);
  size_t size = (size_t)(self->count + 1) * sizeof *grown;
  ol_check(L, OL_ALLOC(&error, size, "an optimizer", &grown), &error);
  for (int64_t g = 0; g < self->count; g++) grown[g] = self->group[g];
  ol_free(self->group);
  self->group = grown;
  grown[self->count++] = ol_retain(group);
  for (int64_t i = 0; i < group->count; i++) take_member(self, &group->member[i]);
  return 0;
}

/* What may fail of open: makes the transaction's step the one of a new frame, which awaits. */
static ol_status open_step(ol_error *error, updater *self, ol_step **step) {
  frame *top;
  ol_step *empty = NULL;
  OL_TRY(OL_ALLOC(error, sizeof *top, "an optimizer", &top));
  ol_status status = ol_step_new(error, &empty);
  if (status == OL_OK) status = ol_arrival_open(error, *step);
  if (status != OL_OK) {
    ol_step_free(empty);
    ol_free(top);
    return status;
  }
  *top = (frame){ .step = *step, .outer = self->top };
  *step = empty;
  self->top = top;
  return OL_OK;
}

static int open_updater(lua_State *L) {
  ol_error error;
  updater *self = check_updater(L);
  ol_step **step = ol_check_step(L);
  uint64_t visit = (uint64_t)luaL_checkinteger(L, 2);
  self->options.unscale = 1 / luaL_checknumber(L, 3);
  ol_check(L, open_step(&error, self, step), &error);
  self->base.visit = self->top->visit = visit;
  return 0;
}

static int lost(lua_State *L) {
  const updater *self = check_updater(L);
  for (int64_t g = 0; g < self->count; g++)
    for (int64_t i = 0; i < self->group[g]->count; i++) {
      const ol_member *m = &self->group[g]->member[i];
      if (m->param->taker == &self->base.object) continue;
      lua_pushstring(L, m->name);
      return 1;
    }
  return 0;
}

static int is_running(lua_State *L) {
  lua_pushboolean(L, check_updater(L)->top != NULL);
  return 1;
}

static int counts(lua_State *L) {
  const updater *self = check_updater(L);
  luaL_checkstack(L, (int)self->count, "groups");
  for (int64_t g = 0; g < self->count; g++) lua_pushinteger(L, ol_arrival_count(self->group[g]));
  return (int)self->count;
}

static int close_updater(lua_State *L) {
  updater *self = check_updater(L);
  int results = counts(L);
  for (int64_t g = 0; g < self->count; g++) ol_arrival_reset(self->group[g]);
  return results;
}

static void make_table(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &updaters);
}

void ol_open_updater(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "add", add_group }, { "open", open_updater }, { "is_running", is_running },
    { "lost", lost },     { "counts", counts },     { "close", close_updater },
    { NULL, NULL }
  };
  static const luaL_Reg functions[] = { { "updater", new_updater }, { NULL, NULL } };
  make_table(L);
  ol_add_methods(L, &updater_kind, methods);
  luaL_setfuncs(L, functions, 0);
}
