/* main: the optlua executable, from the command line to the exit code. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "bind/core.h"
#include "main/call.h"
#include "main/chunks.h"
#include "main/heap.h"
#include "main/options.h"
#include "main/paths.h"
#include "main/repl.h"
#include "main/requests.h"
#include "main/script.h"
#include "main/signals.h"
#include "main/version.h"

/* What a shell says of a process that a signal ended. */
enum { EXIT_USAGE = 2, EXIT_INTERRUPTED = 128 + SIGINT, EXIT_UNREAD = 128 + SIGPIPE };

/* The command line, on its way through Lua to the protected body. */
typedef struct command_line {
  int argc;
  char **argv;
  ol_options options;
} command_line;

/* Generational collection, the best for many short-lived tensors: they are few at a time, and stay
 * in the cache, when it comes round for each 5 % of the heap (Lua's own choice is 20 %). While a
 * script loads modules Lua finds that mode of little use and leaves it; a short pause (in percent)
 * brings it back soon. */
static void choose_collector(lua_State *L) {
  lua_gc(L, LUA_GCINC, 150, 0, 0);
  lua_gc(L, LUA_GCGEN, 5, 0);
}

/* Opens the libraries, with optlua's own among them. */
static void open_libraries(lua_State *L, const command_line *line) {
  const ol_options *options = &line->options;
  if (options->no_environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_optlua_core);
  lua_setfield(L, -2, "optlua.core");
  lua_pushcfunction(L, ol_open_requests);
  lua_setfield(L, -2, "optlua.signals");
  lua_pop(L, 1);
  ol_chunks_text_only(L);
  ol_script_set_arg(L, line->argv, line->argc, options->script);
  bool is_file = options->script < line->argc && options->command == NULL;
  ol_paths_set(L, is_file ? line->argv[options->script] : NULL);
  choose_collector(L);
}

/* The script "-" is stdin, unless "--" made it a file's name. */
static const char *script_file(const command_line *line) {
  char **script = line->argv + line->options.script;
  bool is_stdin = strcmp(script[0], "-") == 0 && strcmp(script[-1], "--") != 0;
  return is_stdin ? NULL : script[0];
}

/* Runs what stands in the script's place, if anything does. */
static int run_script(lua_State *L, const command_line *line) {
  const ol_options *options = &line->options;
  if (options->script >= line->argc) return LUA_OK;
  if (options->command != NULL) return ol_script_run_command(L, options->command);
  return ol_script_run_file(L, script_file(line));
}

/* Without a script and without -e and -v, stdin is read: line by line from a terminal. */
static int run_input(lua_State *L, const command_line *line) {
  const ol_options *options = &line->options;
  bool nothing_ran = options->script >= line->argc && !options->executes && !options->version;
  if (nothing_ran && !isatty(STDIN_FILENO)) return ol_script_run_input(L);
  if (nothing_ran) {
    ol_version_line();
    puts("help says what there is, Ctrl-D leaves");
  }
  if (nothing_ran || options->interactive) ol_repl(L, !options->no_environment);
  return LUA_OK;
}

/* The whole run, as a Lua function of a command_line; returns Lua's status. */
static int body(lua_State *L) {
  const command_line *line = lua_touserdata(L, 1);
  luaL_checkversion(L);
  if (line->options.version) ol_version_line();
  open_libraries(L, line);
  int status = line->options.no_environment ? LUA_OK : ol_script_run_init(L);
  if (status == LUA_OK) status = ol_script_run_options(L, line->argv);
  if (status == LUA_OK) status = run_script(L, line);
  if (status == LUA_OK) status = run_input(L, line);
  lua_pushinteger(L, status);
  return 1;
}

/* Runs the body in a state of its own and returns the exit code. */
static int run(command_line *line) {
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    ol_message(OL_PROGRAM, "not enough memory for a Lua state");
    return EXIT_FAILURE;
  }
  ol_heap_open(L);
  lua_pushcfunction(L, body);
  lua_pushlightuserdata(L, line);
  int status = ol_report(L, lua_pcall(L, 1, 1, 0), OL_PROGRAM);
  if (status == LUA_OK) status = (int)lua_tointeger(L, -1);
  lua_close(L);
  if (status == LUA_OK) return EXIT_SUCCESS;
  return ol_interrupted() ? EXIT_INTERRUPTED : EXIT_FAILURE;
}

/* At exit: output that could not be written is a failure. That nobody reads it any more needs no
 * words. */
static void flush_output(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return;
  if (ol_pipe_closed()) _exit(EXIT_UNREAD);
  ol_message(OL_PROGRAM, "standard output could not be written");
  _exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
  command_line line = { .argc = argc, .argv = argv };
  atexit(flush_output);
  ol_signals_prepare();
  if (!ol_options_read(argc, argv, &line.options)) return EXIT_USAGE;
  if (line.options.help) return ol_usage(stdout), EXIT_SUCCESS;
  if (line.options.facts) return ol_version_facts(), EXIT_SUCCESS;
  return run(&line);
}
