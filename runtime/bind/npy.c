/* npy: NumPy's files, for lua/optlua/npy.lua. */
#include <lauxlib.h>

#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/tensor.h"
#include "io/npy.h"

static int npy_load(lua_State *L) {
  ol_error error;
  ol_tensor *tensor;
  const char *path = ol_check_path(L, 1);
  ol_push_slot(L);
  ol_check(L, ol_npy_read(&error, path, &tensor), &error);
  ol_fill_slot(L, -1, tensor);
  ol_feed_collector(L);
  return 1;
}

static int npy_save(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  ol_check(L, ol_npy_write(&error, path, ol_check_tensor(L, 2)), &error);
  return 0;
}

const ol_natives ol_npy_natives = {
  .name = "npy",
  .list = (const ol_native[]){ OL_HIDDEN("npy_load", npy_load),
                               OL_HIDDEN("npy_save", npy_save),
                               { { 0 } } },
};
