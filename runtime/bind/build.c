/* build: what this build is, and what it runs on: versions and threads. */
#include <lauxlib.h>

#include "base/parallel.h"
#include "base/vecmath.h"
#include "base/version.h"
#include "bind/build.h"
#include "bind/error.h"
#include "bind/native.h"
#include "tensor/blas.h"

static void set_text(lua_State *L, const char *field, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

static int build_info(lua_State *L) {
  lua_createtable(L, 0, 6);
  set_text(L, "version", OL_VERSION);
  set_text(L, "blas", ol_blas_config());
  set_text(L, "blas_threading", ol_blas_threading());
  set_text(L, "blas_path", ol_blas_path());
  set_text(L, "instruction_set", ol_vecmath_isa());
  lua_pushinteger(L, ol_threads());
  lua_setfield(L, -2, "threads");
  return 1;
}

static int get_num_threads(lua_State *L) {
  lua_pushinteger(L, ol_threads());
  return 1;
}

static int set_num_threads(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  int64_t threads = args.call.arg[0].integer;
  if (threads < 1 || threads > 1024)
    return ol_throw(L, "set_num_threads: an integer from 1 to 1024 expected, got %I",
                    (LUAI_UACINT)threads);
  ol_set_threads((int)threads);
  return 0;
}

void ol_open_build(lua_State *L, int module) {
  lua_pushliteral(L, OL_VERSION);
  lua_setfield(L, module, "version");
}

static const ol_native natives[] = {
  { { .name = "build_info",
      .doc = "What this build runs on: a table of version, blas (what the library says of itself), "
             "blas_threading, blas_path, instruction_set and threads.",
      .example = "print(optlua.build_info().version == optlua.version) --> true",
      .flags = OL_OP_FUNCTION },
    build_info },
  { { .name = "get_num_threads",
      .doc = "How many threads operations may use.",
      .example = "print(optlua.get_num_threads() >= 1) --> true",
      .flags = OL_OP_FUNCTION },
    get_num_threads },
  { { .name = "set_num_threads",
      .doc = "Sets how many threads operations of this process may use.",
      .example = "optlua.set_num_threads(1)\n"
                 "print(optlua.get_num_threads()) --> 1",
      .param = { { "threads", OL_DATA, .doc = "1 to 1024" } },
      .flags = OL_OP_FUNCTION },
    set_num_threads },
  { { 0 } },
};

const ol_natives ol_build_natives = { "build", "The build and the machine", natives };
