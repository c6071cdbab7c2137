/* script: what the command line runs, one after the other. */
#ifndef OL_MAIN_SCRIPT_H
#define OL_MAIN_SCRIPT_H

#include "main/options.h"

#include <lua.h>

/* Sets the global `arg`: the script at 0, its arguments from 1, what came before it below 0. */
void ol_script_set_arg(lua_State *L, char **argv, int argc, int script);

/* The functions below run something, report its errors on stderr and return Lua's status. */

/* LUA_INIT_5_4, or else LUA_INIT: Lua code, or "@file". */
int ol_script_run_init(lua_State *L);

/* -e, -l and -W, in their order. */
int ol_script_run_options(lua_State *L, char **argv);

/* A file, or stdin if file is NULL; its arguments are the elements of the global `arg`. If the
 * first value that it returns has a metamethod __optlua_run, that is called with the value and the
 * arguments. */
int ol_script_run_file(lua_State *L, const char *file);

/* Stdin, likewise, without arguments: there is no script to which they could belong. */
int ol_script_run_input(lua_State *L);

/* A command: its function gets the elements of `arg`. */
int ol_script_run_command(lua_State *L, const ol_command *command);

#endif
