/* convert: tensors from Lua values and back. */
#ifndef OL_BIND_CONVERT_H
#define OL_BIND_CONVERT_H

#include <lua.h>

#include "tensor/tensor.h"

/* Pushes one element by its row-major position: an integer for int64 and uint8, else a float. */
void ol_push_element(lua_State *L, const ol_tensor *tensor, int64_t position);

#endif
