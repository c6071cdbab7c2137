/* index: t[i], t[{ … }], t[mask], and assignment to them. */
#ifndef OL_BIND_INDEX_H
#define OL_BIND_INDEX_H

#include <lua.h>

#include "tensor/tensor.h"

/* Pushes self[key], the key at index 2. */
int ol_index_get(lua_State *L, ol_tensor *self);

/* self[key] = value, at indices 2 and 3. */
int ol_index_set(lua_State *L, ol_tensor *self);

/* Looks up the ops that these are made of. */
void ol_open_index(void);

#endif
