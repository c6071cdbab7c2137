/* generator: the seed and the state of the random numbers. */
#include <lauxlib.h>

#include "bind/error.h"
#include "bind/native.h"
#include "ops/generator.h"

static int manual_seed(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  ol_manual_seed((uint64_t)args.call.arg[0].integer);
  return 0;
}

static int initial_seed(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  lua_pushinteger(L, (lua_Integer)ol_generator()->seed);
  return 1;
}

static int get_rng_state(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, (lua_Integer)ol_generator()->seed);
  lua_setfield(L, -2, "seed");
  lua_pushinteger(L, (lua_Integer)ol_generator()->position);
  lua_setfield(L, -2, "position");
  return 1;
}

/* An integer field of the table at index 1. */
static int64_t field(lua_State *L, const char *name) {
  int64_t value;
  lua_getfield(L, 1, name);
  if (!ol_whole(L, -1, &value)) ol_throw(L, "set_rng_state: %s: integer expected", name);
  lua_pop(L, 1);
  return value;
}

static int set_rng_state(lua_State *L) {
  luaL_argexpected(L, lua_type(L, 1) == LUA_TTABLE, 1, "table");
  uint64_t seed = (uint64_t)field(L, "seed"), position = (uint64_t)field(L, "position");
  ol_manual_seed(seed);
  ol_generator()->position = position;
  return 0;
}

static const ol_native natives[] = {
  { { .name = "manual_seed",
      .doc =
          "Starts the random numbers anew from a seed. At first it is 0. Lua's math.random is not "
          "among them: it has math.randomseed; optlua.rand(1):item() draws from these.",
      .example = "optlua.manual_seed(1)\nlocal a = optlua.rand(2)\noptlua.manual_seed(1)\n"
                 "print(optlua.rand(2):equal(a)) --> true",
      .param = { { "seed", OL_DATA, .doc = "any integer" } },
      .flags = OL_OP_FUNCTION },
    manual_seed },
  { { .name = "initial_seed",
      .doc = "The seed that the random numbers were started from.",
      .example = "optlua.manual_seed(1)\nprint(optlua.initial_seed()) --> 1",
      .flags = OL_OP_FUNCTION },
    initial_seed },
  { { .name = "get_rng_state",
      .doc = "Where the random numbers stand: a table of integers, seed and position.",
      .example = "optlua.manual_seed(1)\nprint(optlua.get_rng_state().position) --> 0",
      .flags = OL_OP_FUNCTION },
    get_rng_state },
  { { .name = "set_rng_state",
      .doc = "Goes on from a state that get_rng_state gave: the same numbers follow.",
      .example = "local state = optlua.get_rng_state()\nlocal a = optlua.rand(2)\n"
                 "optlua.set_rng_state(state)\nprint(optlua.rand(2):equal(a)) --> true",
      .param = { { "state", OL_ANY, .doc = "a table of seed and position" } },
      .flags = OL_OP_FUNCTION },
    set_rng_state },
  { { 0 } },
};

const ol_natives ol_generator_natives = { "generator", "State of random numbers", natives };
