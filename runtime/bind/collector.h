/* collector: lets Lua's garbage collector feel the memory of tensors.
 *
 * To Lua a tensor is a few bytes. So that dropped tensors are collected in time, the bytes of new
 * storages are counted, and each MiB of them is reported as a step, as if Lua had allocated. How
 * large a step depends on Lua's own heap: a whole cycle is due for each SLACK of new bytes,
 * whatever the heap costs to traverse. Measured with 20,000 dropped tensors of 1 MiB
 * (collector_spec.lua has the bound): resident memory grows by less than 40 MiB in either mode.
 *
 * In generational mode a step is a young collection, which does not see tensors that lived through
 * two of them; nothing in Lua's few bytes would ever start a major one. So when more bytes are
 * alive than a cycle leaves behind, a full collection is made. */
#ifndef OL_BIND_COLLECTOR_H
#define OL_BIND_COLLECTOR_H

#include <lua.h>

#include "tensor/tensor.h"

/* Counts the bytes of a tensor that gets a userdata, each storage once. */
void ol_count_bytes(ol_tensor *tensor);

/* Runs the steps that are due, unless the collector is stopped. Finalizers may run. To be called
 * at the end of a C function, when everything is anchored. */
void ol_feed_collector(lua_State *L);

#endif
