/* faults: a library that, loaded before libc, lets calls that write fail; and a Lua module.
 *
 * LD_PRELOAD=faults.so optlua …, and in it
 *
 *   faults = package.loadlib("faults.so", "luaopen_faults")()
 *
 *   faults.arm(n, how, folder)   lets n calls succeed, and the next one fail. how: "once"; "short",
 *                                it does half of its work first; "on", all later ones fail too;
 *                                "read", calls that read are counted in place of those that write
 *   faults.disarm()              ends it; how many calls there were, which failed first, and all
 * that make order on the disk: lines of "fsync", "mkdir", "rename" or "renameat2" with their paths
 *
 * Counted are fopen and fdopen for writing, fwrite, fflush, fclose, open, close, write, fsync,
 * rename, renameat2 and mkdir, for what lies in the folder; of reading fopen, open, fread and
 * pread. Streams are seen from outside only: what libc calls itself passes no other library. A
 * fclose or close that fails has closed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>

#define EXPORT __attribute__((visibility("default")))

static bool armed, going_on, halves, reading;
static long left, seen;
static const char *failed;
static char below[1024];
static bool ours[1024]; /* descriptors of files in the folder */
static char trace[1 << 16];

/* The function of libc, looked up once. */
#define REAL(type, name, ...)                                                                      \
  static type (*real)(__VA_ARGS__);                                                                \
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

/* Whether this call fails; then errno says why. */
static bool fails_now(const char *name, int reason) {
  seen++;
  if (left-- > 0) return false;
  if (!going_on && failed) return false;
  if (!failed) failed = name;
  errno = reason;
  return true;
}

static bool fails(const char *name, int reason) {
  return armed && !reading && fails_now(name, reason);
}

static bool fails_reading(const char *name, int reason) {
  return armed && reading && fails_now(name, reason);
}

/* The same for a call about a path: only those below the folder. */
static bool is_below(const char *path) { return strncmp(path, below, strlen(below)) == 0; }

static bool fails_at(const char *path, const char *name, int reason) {
  return is_below(path) && fails(name, reason);
}

/* Notes whether a file that was opened lies in the folder. */
static int note(const char *path, int file) {
  if (file >= 0 && file < (int)(sizeof ours)) ours[file] = armed && is_below(path);
  return file;
}

static bool is_ours(int file) { return file >= 0 && file < (int)(sizeof ours) && ours[file]; }

static bool is_our_stream(FILE *stream) { return stream && is_ours(fileno(stream)); }

/* Notes a call that has succeeded. */
static void record(const char *name, const char *path, const char *to) {
  size_t length = strlen(trace);
  if (armed) snprintf(trace + length, sizeof trace - length, "%s %s %s\n", name, path, to);
}

static void record_sync(int file) {
  char link[64], path[1024];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  record("fsync", path, "");
}

EXPORT FILE *fopen(const char *path, const char *mode) {
  REAL(FILE *, fopen, const char *, const char *);
  bool writes = strpbrk(mode, "wa+") != NULL;
  if (writes && fails_at(path, "fopen", EMFILE)) return NULL;
  if (!writes && is_below(path) && fails_reading("fopen", EMFILE)) return NULL;
  FILE *stream = real(path, mode);
  if (stream && (writes || reading)) note(path, fileno(stream));
  return stream;
}

EXPORT FILE *fdopen(int file, const char *mode) {
  REAL(FILE *, fdopen, int, const char *);
  return is_ours(file) && fails("fdopen", ENOMEM) ? NULL : real(file, mode);
}

EXPORT size_t fwrite(const void *bytes, size_t size, size_t count, FILE *stream) {
  REAL(size_t, fwrite, const void *, size_t, size_t, FILE *);
  if (!is_our_stream(stream) || !fails("fwrite", ENOSPC)) return real(bytes, size, count, stream);
  return halves ? real(bytes, 1, size * count / 2, stream) / (size ? size : 1) : 0;
}

EXPORT size_t fread(void *bytes, size_t size, size_t count, FILE *stream) {
  REAL(size_t, fread, void *, size_t, size_t, FILE *);
  return is_our_stream(stream) && fails_reading("fread", EIO) ? 0
                                                              : real(bytes, size, count, stream);
}

EXPORT ssize_t pread(int file, void *bytes, size_t size, off_t at) {
  REAL(ssize_t, pread, int, void *, size_t, off_t);
  return is_ours(file) && fails_reading("pread", EIO) ? -1 : real(file, bytes, size, at);
}

EXPORT int fflush(FILE *stream) {
  REAL(int, fflush, FILE *);
  return is_our_stream(stream) && fails("fflush", ENOSPC) ? EOF : real(stream);
}

EXPORT int fclose(FILE *stream) {
  REAL(int, fclose, FILE *);
  int file = fileno(stream);
  bool failing = is_ours(file) && fails("fclose", EIO);
  note("", file);
  int result = real(stream);
  if (!failing) return result;
  errno = EIO;
  return EOF;
}

EXPORT int open(const char *path, int flags, ...) {
  REAL(int, open, const char *, int, ...);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  bool reads = (flags & O_ACCMODE) == O_RDONLY && is_below(path);
  if (reads && fails_reading("open", EMFILE)) return -1;
  return fails_at(path, "open", EMFILE) ? -1 : note(path, real(path, flags, mode));
}

EXPORT int close(int file) {
  REAL(int, close, int);
  bool failing = is_ours(file) && fails("close", EIO);
  note("", file);
  int result = real(file);
  if (!failing) return result;
  errno = EIO;
  return -1;
}

EXPORT ssize_t write(int file, const void *bytes, size_t size) {
  REAL(ssize_t, write, int, const void *, size_t);
  if (!is_ours(file) || !fails("write", ENOSPC)) return real(file, bytes, size);
  return halves ? real(file, bytes, size / 2) : -1;
}

EXPORT int fsync(int file) {
  REAL(int, fsync, int);
  if (is_ours(file) && fails("fsync", EIO)) return -1;
  int result = real(file);
  if (is_ours(file) && result == 0) record_sync(file);
  return result;
}

EXPORT int rename(const char *from, const char *to) {
  REAL(int, rename, const char *, const char *);
  if (fails_at(from, "rename", EIO)) return -1;
  int result = real(from, to);
  if (is_below(from) && result == 0) record("rename", from, to);
  return result;
}

EXPORT int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  REAL(int, renameat2, int, const char *, int, const char *, unsigned);
  if (fails_at(from, "renameat2", EINVAL)) return -1;
  int result = real(a, from, b, to, flags);
  if (is_below(from) && result == 0) record("renameat2", from, to);
  return result;
}

EXPORT int mkdir(const char *path, mode_t mode) {
  REAL(int, mkdir, const char *, mode_t);
  if (access(path, F_OK) != 0 && fails_at(path, "mkdir", ENOSPC)) return -1;
  int result = real(path, mode);
  if (is_below(path) && result == 0) record("mkdir", path, path);
  return result;
}

static int arm(lua_State *L) {
  static const char *const ways[] = { "once", "short", "on", "read", NULL };
  left = (long)luaL_checkinteger(L, 1);
  int way = luaL_checkoption(L, 2, "once", ways);
  snprintf(below, sizeof below, "%s", luaL_checkstring(L, 3));
  halves = way == 1;
  going_on = way == 2;
  reading = way == 3;
  seen = 0;
  failed = NULL;
  trace[0] = '\0';
  armed = true;
  return 0;
}

static int disarm(lua_State *L) {
  armed = false;
  lua_pushinteger(L, seen);
  lua_pushstring(L, failed);
  lua_pushstring(L, trace);
  return 3;
}

/* fork(): 0 in the child. */
static int fork_process(lua_State *L) {
  lua_pushinteger(L, fork());
  return 1;
}

/* finish(status): ends a child at once. */
static int finish(lua_State *L) { _exit((int)luaL_checkinteger(L, 1)); }

/* wait(child): its status. */
static int wait_for(lua_State *L) {
  int status = -1;
  waitpid((pid_t)luaL_checkinteger(L, 1), &status, 0);
  lua_pushinteger(L, status);
  return 1;
}

EXPORT int luaopen_faults(lua_State *L);

int luaopen_faults(lua_State *L) {
  static const luaL_Reg functions[] = { { "arm", arm },           { "disarm", disarm },
                                        { "fork", fork_process }, { "finish", finish },
                                        { "wait", wait_for },     { NULL, NULL } };
  luaL_newlib(L, functions);
  return 1;
}
