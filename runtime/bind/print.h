/* print: tensors as text. */
#ifndef OL_BIND_PRINT_H
#define OL_BIND_PRINT_H

#include <lua.h>

#include "tensor/tensor.h"

/* Pushes the text of a tensor, as PyTorch prints it, with these differences: the dtype has no
 * prefix, requires_grad=true is spelt as in Lua, and grad_fn is the name of the op. */
void ol_push_text(lua_State *L, const ol_tensor *tensor);

/* __tostring */
int ol_tensor_tostring(lua_State *L);

#endif
