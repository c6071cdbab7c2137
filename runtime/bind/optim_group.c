/* optim_group: groups of parameters, and caches of programs, as userdata. */
#include <lauxlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "bind/error.h"
#include "bind/optim.h"
#include "bind/symbol.h"
#include "bind/tensor.h"

/* Userdata hold one pointer. */

static void drop_group(void *self) {
  ol_group **handle = self;
  ol_release(*handle);
  *handle = NULL;
}

static void drop_cache(void *self) {
  ol_program_cache **handle = self;
  ol_program_cache_free(*handle);
  *handle = NULL;
}

static const ol_scratch group_kind = { "optlua.group", sizeof(void *), drop_group };
static const ol_scratch cache_kind = { "optlua.programs", sizeof(void *), drop_cache };

ol_group *ol_check_group(lua_State *L, int arg) {
  ol_group **handle = ol_check_scratch(L, arg, &group_kind);
  if (!*handle) luaL_argerror(L, arg, "released group");
  return *handle;
}

ol_program_cache *ol_check_cache(lua_State *L, int arg) {
  ol_program_cache **handle = ol_check_scratch(L, arg, &cache_kind);
  if (!*handle) luaL_argerror(L, arg, "released cache");
  return *handle;
}

/* cache(capacity): an empty cache of programs. */
static int new_cache(lua_State *L) {
  ol_error error;
  int capacity = (int)luaL_checkinteger(L, 1);
  void **handle = ol_push_scratch(L, &cache_kind, 0);
  ol_check(L, ol_program_cache_new(&error, capacity, (ol_program_cache **)handle), &error);
  return 1;
}

/* cache:stats(). */
static int cache_stats(lua_State *L) {
  ol_program_cache_stats stats = ol_program_cache_read(ol_check_cache(L, 1));
  lua_createtable(L, 0, 5);
  lua_pushinteger(L, stats.hits);
  lua_setfield(L, -2, "hits");
  lua_pushinteger(L, stats.compiled);
  lua_setfield(L, -2, "compiled");
  lua_pushinteger(L, stats.evicted);
  lua_setfield(L, -2, "evicted");
  lua_pushinteger(L, stats.programs);
  lua_setfield(L, -2, "programs");
  lua_pushboolean(L, stats.restless);
  lua_setfield(L, -2, "restless");
  return 1;
}

/* Groups. */

static const char **check_names(lua_State *L, int arg, int64_t count) {
  const char **names = lua_newuserdatauv(L, (size_t)count * sizeof *names + 1, 0);
  for (int64_t i = 0; i < count; i++) {
    lua_rawgeti(L, arg, i + 1);
    names[i] = luaL_checkstring(L, -1); /* the list keeps it */
    lua_pop(L, 1);
  }
  return names;
}

/* group(names, tensors): a group of these parameters. One that was updated in backward is not any
 * more: the optimizer that is made last has the gradients. */
static int new_group(lua_State *L) {
  ol_error error;
  int64_t count;
  ol_refuse_in_step(L, "making an optimizer"); /* it moves parameters that the step has located */
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  ol_tensor **params = ol_check_tensors(L, 2, &count);
  const char **names = check_names(L, 1, count);
  void **handle = ol_push_scratch(L, &group_kind, OL_GROUP_LAST);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, OL_GROUP_PARAMS);
  ol_check(L, ol_group_new(&error, params, names, count, (ol_group **)handle), &error);
  for (int64_t i = 0; i < count; i++) {
    lua_rawgeti(L, 2, i + 1);
    ol_know_tensor(L, -1);
    ol_set_taker(params[i], NULL);
    lua_pop(L, 1);
  }
  return 1;
}

/* group:twin(): the same parameters without states; to be filled and exchanged. */
static int twin_group(lua_State *L) {
  ol_error error;
  ol_group *group = ol_check_group(L, 1);
  void **handle = ol_push_scratch(L, &group_kind, OL_GROUP_LAST);
  lua_getiuservalue(L, 1, OL_GROUP_PARAMS);
  lua_setiuservalue(L, -2, OL_GROUP_PARAMS);
  ol_check(L, ol_group_twin(&error, group, (ol_group **)handle), &error);
  return 1;
}

static bool are_twins(const ol_group *a, const ol_group *b) {
  if (a->count != b->count) return false;
  for (int64_t i = 0; i < a->count; i++)
    if (a->member[i].param != b->member[i].param) return false;
  return true;
}

/* group:exchange(twin). */
static int exchange_groups(lua_State *L) {
  ol_group *group = ol_check_group(L, 1), *twin = ol_check_group(L, 2);
  luaL_argcheck(L, are_twins(group, twin), 2, "not a twin of the group");
  ol_refuse_in_step(L, "loading states");
  lua_getiuservalue(L, 1, OL_GROUP_STATES);
  lua_getiuservalue(L, 2, OL_GROUP_STATES);
  lua_setiuservalue(L, 1, OL_GROUP_STATES);
  lua_setiuservalue(L, 2, OL_GROUP_STATES);
  ol_group_exchange(group, twin);
  return 0;
}

/* group:zero_grad(). */
static int zero_grad(lua_State *L) {
  ol_group_zero_grad(ol_check_group(L, 1));
  return 0;
}

/* group:present(): the name of a parameter whose gradient is present, or nothing. */
static int present(lua_State *L) {
  const ol_group *group = ol_check_group(L, 1);
  for (int64_t i = 0; i < group->count; i++)
    if (ol_member_is_present(&group->member[i])) {
      lua_pushstring(L, group->member[i].name);
      return 1;
    }
  return 0;
}

static void push_shape(lua_State *L, const ol_shape *shape) {
  lua_createtable(L, shape->ndim, 0);
  for (int d = 0; d < shape->ndim; d++) {
    lua_pushinteger(L, shape->size[d]);
    lua_rawseti(L, -2, d + 1);
  }
}

/* group:shapes(): the distinct shapes of its parameters, in the order of their first; and for each
 * parameter the place of its shape. */
static int shapes(lua_State *L) {
  ol_group *group = ol_check_group(L, 1);
  lua_createtable(L, group->shapes, 0);
  for (int i = 0; i < group->shapes; i++) {
    push_shape(L, &group->shape[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_createtable(L, (int)group->count, 0);
  for (int64_t i = 0; i < group->count; i++) {
    lua_pushinteger(L, group->member[group->rank[i]].shape + 1);
    lua_rawseti(L, -2, i + 1);
  }
  return 2;
}

/* Layouts: lists of slots { name =, dtype = a float or "8bit", shape =, init = number | "param",
 * positive =, rounding = "nearest" | "stochastic" }, checked by the library. */

static void read_shape(lua_State *L, int list, ol_shape *out) {
  out->ndim = (int)lua_rawlen(L, list);
  if (out->ndim > OL_MAX_DIMS)
    ol_throw(L, "a state of %d dimensions; there are at most %d", out->ndim, OL_MAX_DIMS);
  for (int d = 0; d < out->ndim; d++) {
    lua_rawgeti(L, list, d + 1);
    out->size[d] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
}

/* Raises unless the value on top of the stack is a table. */
static void check_table(lua_State *L, const char *what) {
  if (!lua_istable(L, -1)) luaL_error(L, "%s is a table, not a %s", what, luaL_typename(L, -1));
}

static bool is_field(lua_State *L, int table, const char *field, const char *value) {
  bool equal =
      lua_getfield(L, table, field) == LUA_TSTRING && strcmp(lua_tostring(L, -1), value) == 0;
  lua_pop(L, 1);
  return equal;
}

/* Reads how the slot at an index is stored. */
static void read_storage(lua_State *L, int slot, ol_slot_spec *out) {
  out->own_dtype = lua_getfield(L, slot, "dtype") == LUA_TSTRING;
  if (is_field(L, slot, "dtype", "8bit")) {
    out->dtype = OL_U8;
    out->packing = OL_PACK_CODES;
  } else if (out->own_dtype && !ol_dtype_parse(lua_tostring(L, -1), &out->dtype)) {
    luaL_error(L, "unknown dtype %s", lua_tostring(L, -1));
  }
  lua_getfield(L, slot, "positive");
  if (lua_toboolean(L, -1)) out->packing |= OL_PACK_POSITIVE;
  if (is_field(L, slot, "rounding", "stochastic")) out->packing |= OL_PACK_RANDOM;
}

/* Reads the slot on top of the stack. */
static void read_slot(lua_State *L, ol_slot_spec *out) {
  int slot = lua_gettop(L);
  check_table(L, "a slot");
  *out = (ol_slot_spec){ 0 };
  read_storage(L, slot, out);
  out->own_shape = lua_getfield(L, slot, "shape") == LUA_TTABLE;
  if (out->own_shape) read_shape(L, lua_gettop(L), &out->shape);
  out->init = lua_getfield(L, slot, "init") == LUA_TSTRING ? OL_SLOT_PARAM : OL_SLOT_VALUE;
  if (out->init == OL_SLOT_VALUE) out->value = luaL_optnumber(L, -1, 0);
  lua_getfield(L, slot, "name");
  out->salt = ol_name_key(luaL_checkstring(L, -1));
  lua_settop(L, slot);
}

/* Reads the layout on top of the stack and pushes the list of its names. */
static void read_layout(lua_State *L, ol_layout *out) {
  int layout = lua_gettop(L);
  check_table(L, "a layout");
  *out = (ol_layout){ .count = (int)lua_rawlen(L, layout) };
  if (out->count > OL_LAYOUT_SLOTS)
    ol_throw(L, "a rule of %d states; there are at most %d", out->count, OL_LAYOUT_SLOTS);
  lua_createtable(L, out->count, 0);
  for (int k = 0; k < out->count; k++) {
    lua_rawgeti(L, layout, k + 1);
    read_slot(L, &out->spec[k]);
    lua_getfield(L, -1, "name");
    lua_rawseti(L, layout + 1, k + 1);
    lua_pop(L, 1);
  }
}

static int *read_indices(lua_State *L, int list, int count, int limit) {
  int *out = lua_newuserdatauv(L, (size_t)count * sizeof *out + 1, 0);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, list, i + 1);
    lua_Integer index = luaL_checkinteger(L, -1);
    luaL_argcheck(L, index >= 1 && index <= limit, list, "no such layout");
    out[i] = (int)index - 1;
    lua_pop(L, 1);
  }
  return out;
}

/* group:layouts(list, of_shape): layouts, and for each shape the place of its layout. */
static int set_layouts(lua_State *L) {
  ol_error error;
  ol_group *group = ol_check_group(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  int count = (int)lua_rawlen(L, 2);
  const int *of_shape = read_indices(L, 3, group->shapes, count);
  ol_layout *layouts = lua_newuserdatauv(L, (size_t)count * sizeof *layouts + 1, 0);
  lua_createtable(L, count, 0); /* at 6: states, by layout */
  for (int l = 0; l < count; l++) {
    lua_rawgeti(L, 2, l + 1);
    read_layout(L, &layouts[l]);
    ol_push_states(L, -1);
    lua_rawseti(L, 6, l + 1);
    lua_settop(L, 6);
  }
  ol_check(L, ol_group_set_layouts(&error, group, layouts, count, of_shape), &error);
  lua_setiuservalue(L, 1, OL_GROUP_STATES);
  return 0;
}

/* group:set_context(cache, h, values, numbers, slots, label): what its rules are traced with.
 * values is the table behind h; numbers are those of the group and slots leads from their names to
 * their places, or both are nil; label begins the description in errors. */
static int set_context(lua_State *L) {
  ol_check_group(L, 1);
  ol_check_cache(L, 2);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_checktype(L, 7, LUA_TSTRING);
  lua_settop(L, 7);
  for (int value = OL_GROUP_LAST; value >= OL_GROUP_CACHE; value--) lua_setiuservalue(L, 1, value);
  return 0;
}

/* The member that was given as the i-th, i being argument 2. */
static ol_member *check_member(lua_State *L, ol_group *group) {
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i <= group->count, 2, "no such parameter");
  return &group->member[group->rank[i - 1]];
}

typedef ol_status slot_view(ol_error *error, const ol_group *group, const ol_member *member,
                            int slot, ol_tensor **out);

/* Pushes a list of views of a member's slots; where there is none, it has a gap. */
static void push_views(lua_State *L, const ol_group *group, const ol_member *member,
                       slot_view *view) {
  ol_error error;
  lua_createtable(L, member->made, 0);
  for (int k = 0; k < member->made; k++) {
    ol_tensor *tensor;
    ol_push_slot(L);
    ol_check(L, view(&error, group, member, k, &tensor), &error);
    if (tensor) {
      ol_fill_slot(L, -1, tensor);
      lua_rawseti(L, -2, k + 1);
    } else {
      lua_pop(L, 1);
    }
  }
}

/* group:state(i): how often parameter i was updated; its states as tensors that share their memory;
 * the scales of those that are codes, by the same places. */
static int read_state(lua_State *L) {
  ol_group *group = ol_check_group(L, 1);
  ol_member *member = check_member(L, group);
  lua_pushinteger(L, member->steps);
  push_views(L, group, member, ol_member_slot);
  push_views(L, group, member, ol_member_scales);
  return 3;
}

/* The tensors of the table at `arg` by their places from 1 to count, NULL where there is none. */
static ol_tensor **check_scales(lua_State *L, int arg, int64_t count) {
  ol_tensor **scales = lua_newuserdatauv(L, (size_t)count * sizeof *scales + 1, 0);
  for (int64_t k = 0; k < count; k++) {
    scales[k] = NULL;
    if (lua_istable(L, arg)) {
      if (lua_rawgeti(L, arg, k + 1) != LUA_TNIL) scales[k] = ol_check_tensor(L, -1);
      lua_pop(L, 1);
    }
  }
  return scales;
}

/* group:restore(i, steps, states, scales): gives parameter i a count and copies of these states;
 * scales, a table by the same places, are those of codes. */
static int restore(lua_State *L) {
  ol_error error;
  int64_t count;
  ol_group *group = ol_check_group(L, 1);
  ol_member *member = check_member(L, group);
  lua_Integer steps = luaL_checkinteger(L, 3);
  ol_refuse_in_step(L, "loading states");
  lua_settop(L, 5);
  ol_tensor **states = ol_check_tensors(L, 4, &count);
  ol_tensor **scales = check_scales(L, 5, count);
  ol_check(L, ol_member_restore(&error, group, member, steps, states, scales, (int)count), &error);
  return 0;
}

/* group:set_seed(seed): of stochastic rounding. */
static int set_seed(lua_State *L) {
  ol_check_group(L, 1)->seed = (uint64_t)luaL_checkinteger(L, 2);
  return 0;
}

/* group:put(i, tensor): copies a tensor of its shape into parameter i; takes no memory. */
static int put(lua_State *L) {
  ol_error error;
  ol_member *member = check_member(L, ol_check_group(L, 1));
  ol_tensor *source = ol_check_tensor(L, 3);
  ol_refuse_in_step(L, "writing a parameter");
  ol_check(L, ol_tensor_copy(&error, member->param, source), &error);
  return 0;
}

/* group:version(i): another number after each write in place into parameter i. */
static int version(lua_State *L) {
  ol_member *member = check_member(L, ol_check_group(L, 1));
  lua_pushinteger(L, (lua_Integer)member->param->storage->version);
  return 1;
}

/* group:grow(i): makes the states that parameter i's layout has and the parameter has not; how many
 * it had. */
static int grow(lua_State *L) {
  ol_error error;
  ol_group *group = ol_check_group(L, 1);
  ol_member *member = check_member(L, group);
  int before = member->made;
  ol_refuse_in_step(L, "making states");
  if (member->layout < 0) ol_throw(L, "parameter '%s' has no layout", member->name);
  ol_check(L, ol_member_grow(&error, group, member), &error);
  lua_pushinteger(L, before);
  return 1;
}

/* group:shrink(i, count): drops states of parameter i until count are left. */
static int shrink(lua_State *L) {
  ol_member *member = check_member(L, ol_check_group(L, 1));
  lua_Integer count = luaL_checkinteger(L, 3);
  ol_refuse_in_step(L, "dropping states");
  luaL_argcheck(L, count >= 0 && count <= member->made, 3, "not so many states");
  ol_member_shrink(member, (int)count);
  return 0;
}

/* group:count(i): counts an update of parameter i that was made without the machine. */
static int count_update(lua_State *L) {
  check_member(L, ol_check_group(L, 1))->steps++;
  return 0;
}

/* group:bytes(): of the states that exist. */
static int state_bytes(lua_State *L) {
  ol_group *group = ol_check_group(L, 1);
  int64_t bytes = 0;
  for (int64_t i = 0; i < group->count; i++)
    for (int k = 0; k < group->member[i].made; k++)
      bytes += (int64_t)ol_member_slot_bytes(group, &group->member[i], k);
  lua_pushinteger(L, bytes);
  return 1;
}

/* group:set_max_norm(x): the limit of the norm of its gradients. */
static int set_max_norm(lua_State *L) {
  ol_check_group(L, 1)->max_norm = luaL_checknumber(L, 2);
  return 0;
}

/* group:set_totals(…): the numbers that group_add adds to. */
static int set_totals(lua_State *L) {
  ol_group *group = ol_check_group(L, 1);
  int count = lua_gettop(L) - 1;
  luaL_argcheck(L, count <= OL_GRAPH_TOTALS, 2, "too many numbers");
  for (int i = 0; i < count; i++) group->total[i] = luaL_checknumber(L, i + 2);
  return 0;
}

/* group:totals(count): the first numbers of them. */
static int get_totals(lua_State *L) {
  ol_group *group = ol_check_group(L, 1);
  int count = (int)luaL_checkinteger(L, 2);
  luaL_argcheck(L, count >= 0 && count <= OL_GRAPH_TOTALS, 2, "too many numbers");
  luaL_checkstack(L, count, "numbers of a group");
  for (int i = 0; i < count; i++) lua_pushnumber(L, group->total[i]);
  return count;
}

void ol_add_methods(lua_State *L, const ol_scratch *kind, const luaL_Reg *methods) {
  ol_push_scratch_metatable(L, kind);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "optlua");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

void ol_open_group(lua_State *L) {
  static const luaL_Reg functions[] = { { "group", new_group },
                                        { "cache", new_cache },
                                        { NULL, NULL } };
  static const luaL_Reg group_methods[] = { { "twin", twin_group },
                                            { "exchange", exchange_groups },
                                            { "zero_grad", zero_grad },
                                            { "present", present },
                                            { "shapes", shapes },
                                            { "layouts", set_layouts },
                                            { "state", read_state },
                                            { "restore", restore },
                                            { "grow", grow },
                                            { "shrink", shrink },
                                            { "count", count_update },
                                            { "bytes", state_bytes },
                                            { "totals", get_totals },
                                            { "set_context", set_context },
                                            { "set_totals", set_totals },
                                            { "set_max_norm", set_max_norm },
                                            { "set_seed", set_seed },
                                            { "put", put },
                                            { "version", version },
                                            { NULL, NULL } };
  static const luaL_Reg cache_methods[] = { { "stats", cache_stats }, { NULL, NULL } };
  ol_add_methods(L, &group_kind, group_methods);
  ol_add_methods(L, &cache_kind, cache_methods);
  luaL_setfuncs(L, functions, 0);
}
