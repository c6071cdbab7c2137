/* chunks: loading Lua as text; bytecode, which Lua cannot check, is refused everywhere. */
#ifndef OL_MAIN_CHUNKS_H
#define OL_MAIN_CHUNKS_H

#include <stddef.h>

#include <lua.h>

/* Loads a file (NULL: stdin) and pushes its function, or an error message. Returns Lua's status. */
int ol_chunk_load_file(lua_State *L, const char *file);

/* Loads a string under a chunk name ("=name", "@file"), likewise. */
int ol_chunk_load_text(lua_State *L, const char *text, size_t length, const char *name);

/* Replaces load, loadfile, dofile and require's search for Lua files by forms that take text only.
 */
void ol_chunks_text_only(lua_State *L);

#endif
