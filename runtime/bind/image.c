/* image: pictures, for lua/optlua/data/image.lua. */
#include "io/image.h"

#include <lauxlib.h>

#include "bind/collector.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/tensor.h"
#include "io/png.h"

/* image_read(path, mode, max_pixels): a uint8 tensor (C, H, W). */
static int image_read(lua_State *L) {
  static const char *const modes[] = { "unchanged", "rgb", "gray", NULL };
  ol_error error;
  ol_tensor *image = NULL;
  const char *path = ol_check_path(L, 1);
  ol_image_mode mode = (ol_image_mode)luaL_checkoption(L, 2, NULL, modes);
  lua_Integer max_pixels = luaL_checkinteger(L, 3);
  luaL_argcheck(L, max_pixels >= 0, 3, "at least 0 expected");
  ol_push_slot(L);
  ol_check(L, ol_image_read(&error, path, mode, max_pixels, &image), &error);
  ol_fill_slot(L, -1, image);
  ol_feed_collector(L);
  return 1;
}

/* png_write(path, image) */
static int png_write(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  ol_check(L, ol_png_write(&error, path, ol_check_tensor(L, 2)), &error);
  return 0;
}

const ol_natives ol_image_natives = {
  .name = "image",
  .list = (const ol_native[]){ OL_HIDDEN("image_read", image_read),
                               OL_HIDDEN("png_write", png_write),
                               { { 0 } } },
};
