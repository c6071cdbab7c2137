/* collector: lets Lua's garbage collector feel the memory of tensors.
 *
 * To Lua a tensor is a few bytes. So that dropped tensors are collected in time, the bytes of new
 * storages are counted, and each MiB of them is reported as a step of that size. */
#ifndef OL_BIND_COLLECTOR_H
#define OL_BIND_COLLECTOR_H

#include <lua.h>

#include "tensor/tensor.h"

/* Counts the bytes of a new tensor, unless others share its storage. */
void ol_count_bytes(const ol_tensor *tensor);

/* Runs the steps that are due, unless the collector is stopped. Finalizers may run. To be called
 * at the end of a C function, when everything is anchored. */
void ol_feed_collector(lua_State *L);

#endif
