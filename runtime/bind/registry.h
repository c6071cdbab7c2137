/* registry: the descriptors of ops and natives as Lua tables, for documentation, tests and help. */
#ifndef OL_BIND_REGISTRY_H
#define OL_BIND_REGISTRY_H

#include <lua.h>

/* core.registry(): a list of families { name, doc, ops }. An op has name, doc, example and samples
 * (where there are any), params (a list of { name, kind, optional, preset, choices, doc }),
 * outputs, and the flags method, module (a function of the module), hidden, random, view, inplace,
 * differentiable and native (a function of the binding: it has no samples). */
int ol_registry(lua_State *L);

#endif
