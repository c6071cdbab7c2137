/* scratch: userdata of ours that hold memory or files, and release them whatever is raised.
 *
 * Scripts can exchange metatables and call what they find in them with anything. So each userdata
 * begins with the address of its kind, which is looked at in place of its metatable. */
#ifndef OL_BIND_SCRATCH_H
#define OL_BIND_SCRATCH_H

#include <lua.h>
#include <stddef.h>

/* A kind of userdata. `drop` releases what one holds by then, and leaves zeros; zeros it takes
 * too. */
typedef struct ol_scratch {
  const char *name; /* of the metatable, for messages */
  size_t size;
  void (*drop)(void *self);
} ol_scratch;

/* Pushes a userdata with `size` zeros, which it returns. */
void *ol_push_scratch(lua_State *L, const ol_scratch *kind, int user_values);

/* Pushes the metatable of a kind, with __gc and __close, to add methods to. */
void ol_push_scratch_metatable(lua_State *L, const ol_scratch *kind);

/* What the userdata at an index holds; NULL where it is none of this kind. */
void *ol_to_scratch(lua_State *L, int index, const ol_scratch *kind);

/* The same for an argument; raises where it is none. */
void *ol_check_scratch(lua_State *L, int arg, const ol_scratch *kind);

#endif
