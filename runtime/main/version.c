/* version: what this build is and runs on. */
#include "main/version.h"

#include <stdio.h>

#include <lua.h>

#include "base/parallel.h"
#include "base/vecmath.h"
#include "base/version.h"
#include "rule/machine.h"
#include "tensor/blas.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void fact(const char *name, const char *value) { printf("%-16s %s\n", name, value); }

void ol_version_line(void) { puts("optlua " OL_VERSION " (" LUA_RELEASE ")"); }

void ol_version_facts(void) {
  char threads[16];
  snprintf(threads, sizeof threads, "%d", ol_threads());
  fact("optlua", OL_VERSION);
  fact("Lua", LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE);
  fact("compiler", COMPILER);
  fact("BLAS", ol_blas_config());
  fact("BLAS threading", ol_blas_threading());
  fact("BLAS library", ol_blas_path());
  fact("threads", threads);
  fact("instruction set", ol_vecmath_isa());
  fact("update rules", ol_machine_isa());
}
