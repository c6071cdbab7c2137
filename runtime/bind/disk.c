/* disk: what checkpoints need of the file system, for lua/optlua/checkpoint. */
#include "io/disk.h"

#include <lauxlib.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/scratch.h"
#include "io/file.h"

/* resolve(path): where a link points to, or the path itself. */
static int resolve(lua_State *L) {
  ol_error error;
  char found[PATH_MAX];
  ol_check(L, ol_disk_resolve(&error, ol_check_path(L, 1), found), &error);
  lua_pushstring(L, found);
  return 1;
}

/* make_folder(path): makes it; whether it is new. The folder above must be there. */
static int make_folder(lua_State *L) {
  ol_error error;
  bool made;
  ol_check(L, ol_disk_make_folder(&error, ol_check_path(L, 1), &made), &error);
  lua_pushboolean(L, made);
  return 1;
}

/* can_read(path): whether there is something that can be read, and whether that is a regular file.
 * Opens nothing: a pipe would wait for a writer. */
static int can_read(lua_State *L) {
  bool regular;
  lua_pushboolean(L, ol_disk_can_read(ol_check_path(L, 1), &regular));
  lua_pushboolean(L, regular);
  return 2;
}

/* write_file(path, text): whole or not at all, and on the disk when it returns. */
static int write_file(lua_State *L) {
  ol_error error;
  ol_file file;
  size_t size;
  const char *path = ol_check_path(L, 1), *text = luaL_checklstring(L, 2, &size);
  ol_check(L, ol_file_begin(&error, path, &file), &error);
  ol_status status = ol_file_write(&error, &file, text, size);
  if (status != OL_OK) ol_file_abandon(&file);
  ol_check(L, status, &error);
  ol_check(L, ol_file_commit(&error, &file), &error);
  return 0;
}

/* sync(path): brings a file, or what a folder lists, to the disk. */
static int sync_path(lua_State *L) {
  ol_error error;
  ol_check(L, ol_disk_sync(&error, ol_check_path(L, 1)), &error);
  return 0;
}

/* exchange(a, b): gives two files or folders each other's name. */
static int exchange(lua_State *L) {
  ol_error error;
  ol_check(L, ol_disk_exchange(&error, ol_check_path(L, 1), ol_check_path(L, 2)), &error);
  return 0;
}

/* real_path(path): where it leads, from the root and without links; nil where nothing is there. */
static int real_path(lua_State *L) {
  char found[PATH_MAX];
  if (!realpath(ol_check_path(L, 1), found)) return 0;
  lua_pushstring(L, found);
  return 1;
}

/* checksum(path): the CRC-32 of a file, and its size. */
static int checksum(lua_State *L) {
  ol_error error;
  uint32_t crc;
  int64_t size;
  ol_check(L, ol_disk_checksum(&error, ol_check_path(L, 1), &crc, &size), &error);
  lua_pushinteger(L, crc);
  lua_pushinteger(L, size);
  return 2;
}

/* sum(text): its CRC-32. */
static int sum(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  lua_pushinteger(L, ol_disk_sum(text, size));
  return 1;
}

typedef struct hold {
  int file;
  bool open;
} hold;

static void drop_lock(void *self) {
  hold *lock = self;
  if (lock->open) close(lock->file);
  lock->open = false;
}

static const ol_scratch lock_kind = { "optlua.lock", sizeof(hold), drop_lock };

/* After a lock was refused: those that nobody can reach any more are let go. Returns whether that
 * was the first time. */
static bool drops_lost_locks(lua_State *L, int refused) {
  if (refused == 0) lua_gc(L, LUA_GCCOLLECT);
  return refused == 0;
}

/* lock(path): the lock, or nil where another process holds it. */
static int lock_file(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  hold *lock = ol_push_scratch(L, &lock_kind, 0);
  int refused = 0;
  do {
    ol_check(L, ol_disk_lock(&error, path, &lock->file), &error);
    lock->open = lock->file >= 0;
  } while (!lock->open && drops_lost_locks(L, refused++));
  if (!lock->open) lua_pushnil(L);
  return 1;
}

/* lock_folder(path): the lock, nil where another process holds it, or false where it is not there.
 */
static int lock_folder(lua_State *L) {
  ol_error error;
  bool gone;
  const char *path = ol_check_path(L, 1);
  hold *lock = ol_push_scratch(L, &lock_kind, 0);
  int refused = 0;
  do {
    ol_check(L, ol_disk_lock_folder(&error, path, &lock->file, &gone), &error);
    lock->open = lock->file >= 0;
  } while (!lock->open && !gone && drops_lost_locks(L, refused++));
  if (gone)
    lua_pushboolean(L, false);
  else if (!lock->open)
    lua_pushnil(L);
  return 1;
}

const ol_natives ol_disk_natives = {
  .name = "disk",
  .list = (const ol_native[]){ OL_HIDDEN("resolve", resolve),
                               OL_HIDDEN("make_folder", make_folder),
                               OL_HIDDEN("can_read", can_read),
                               OL_HIDDEN("write_file", write_file),
                               OL_HIDDEN("sync", sync_path),
                               OL_HIDDEN("exchange", exchange),
                               OL_HIDDEN("real_path", real_path),
                               OL_HIDDEN("checksum", checksum),
                               OL_HIDDEN("sum", sum),
                               OL_HIDDEN("lock", lock_file),
                               OL_HIDDEN("lock_folder", lock_folder),
                               { { 0 } } },
};
