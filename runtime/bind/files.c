/* files: the readers of data files, for lua/optlua/data. */
#include <lauxlib.h>

#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/tensor.h"
#include "io/idx.h"

/* idx_read(path): the array in an IDX file. */
static int idx_read(lua_State *L) {
  ol_error error;
  ol_tensor *tensor;
  const char *path = ol_check_path(L, 1);
  ol_push_slot(L);
  ol_check(L, ol_idx_read(&error, path, &tensor), &error);
  ol_fill_slot(L, -1, tensor);
  ol_feed_collector(L);
  return 1;
}

#define HIDDEN(text, fn) { { .name = text, .flags = OL_OP_HIDDEN | OL_OP_FUNCTION }, fn }

const ol_natives ol_files_natives = {
  .name = "files",
  .list = (const ol_native[]){ HIDDEN("idx_read", idx_read), { { 0 } } },
};
