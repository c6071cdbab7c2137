/* optim: what the library's optimizers in Lua stand on: groups of parameters and the transaction of
 * a step, as the table optlua.core.optim. */
#ifndef OL_BIND_OPTIM_H
#define OL_BIND_OPTIM_H

#include <lauxlib.h>

#include "bind/scratch.h"
#include "optim/group.h"
#include "optim/step.h"
#include "rule/cache.h"

/* User values of a group. */
enum {
  OL_GROUP_STATES = 1, /* for rules: a list, by layout */
  OL_GROUP_PARAMS,     /* the userdata of its parameters: a list, which keeps them what they are */
  OL_GROUP_CACHE,      /* from here on: what its rules are traced with, see group:set_context */
  OL_GROUP_H,
  OL_GROUP_VALUES,
  OL_GROUP_NUMBERS,
  OL_GROUP_SLOTS,
  OL_GROUP_LABEL,
  OL_GROUP_LAST = OL_GROUP_LABEL,
};

/* Checks argument `arg`: a group, a cache of programs. */
ol_group *ol_check_group(lua_State *L, int arg);
ol_program_cache *ol_check_cache(lua_State *L, int arg);

/* The tensors of the list at `arg`, in a userdata that is pushed; *count of them. */
ol_tensor **ol_check_tensors(lua_State *L, int arg, int64_t *count);

/* The step of the transaction that runs: raises when there is none. The step may be exchanged for
 * an empty one. */
ol_step **ol_check_step(lua_State *L);

/* Gives a kind of userdata its methods. */
void ol_add_methods(lua_State *L, const ol_scratch *kind, const luaL_Reg *methods);

/* Raises when called while a step is being taken. */
void ol_refuse_in_step(lua_State *L, const char *what);

/* Parts of the table on top of the stack; once for each Lua state. */
void ol_open_group(lua_State *L);
void ol_open_step(lua_State *L);
void ol_open_updater(lua_State *L);

/* Pushes the table optlua.core.optim. */
void ol_open_optim(lua_State *L);

#endif
