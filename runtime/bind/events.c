/* events: event files, for lua/optlua/spec/log.lua. As functions of io do, these answer nil and
 * what is wrong when a file cannot be written. */
#include "io/events.h"

#include <lauxlib.h>

#include "bind/error.h"
#include "bind/native.h"
#include "bind/path.h"
#include "bind/scratch.h"
#include "bind/tensor.h"

static void drop(void *events) {
  ol_error error;
  (void)ol_events_close(&error, events);
}

static const ol_scratch kind = { "optlua.events", sizeof(ol_events), drop };

/* Answers with what is on top of the stack, or with what went wrong. */
static int answer(lua_State *L, ol_status status, const ol_error *error) {
  if (status == OL_OK) return 1;
  if (status != OL_FILE) ol_raise(L, error);
  lua_pushnil(L);
  lua_pushstring(L, error->message);
  return 2;
}

/* events_create(path, time): a file that is not there yet. */
static int events_create(lua_State *L) {
  ol_error error;
  const char *path = ol_check_path(L, 1);
  double time = luaL_checknumber(L, 2);
  ol_events *events = ol_push_scratch(L, &kind, 0);
  return answer(L, ol_events_create(&error, path, time, events), &error);
}

static ol_moment check_moment(lua_State *L) {
  return (ol_moment){ luaL_checknumber(L, 2), luaL_checkinteger(L, 3) };
}

/* The numbers at index 5, by their tags, the list at index 4. */
static void read_scalars(lua_State *L, size_t count, const char **tag, float *value) {
  for (size_t i = 0; i < count; i++) {
    luaL_argcheck(L, lua_rawgeti(L, 4, (lua_Integer)i + 1) == LUA_TSTRING, 4, "strings expected");
    luaL_argcheck(L, lua_rawgeti(L, 5, (lua_Integer)i + 1) == LUA_TNUMBER, 5, "numbers expected");
    tag[i] = lua_tostring(L, -2);
    value[i] = (float)lua_tonumber(L, -1);
    lua_pop(L, 2);
  }
}

/* events_scalars(events, time, step, tags, values): true; one event. */
static int events_scalars(lua_State *L) {
  ol_error error;
  ol_events *events = ol_check_scratch(L, 1, &kind);
  ol_moment when = check_moment(L);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_checktype(L, 5, LUA_TTABLE);
  size_t count = lua_rawlen(L, 4);
  const char **tag = lua_newuserdatauv(L, (count + 1) * sizeof *tag, 0);
  float *value = lua_newuserdatauv(L, (count + 1) * sizeof *value, 0);
  read_scalars(L, count, tag, value);
  lua_pushboolean(L, true);
  return answer(L, ol_events_scalars(&error, events, when, count, tag, value), &error);
}

/* events_histogram(events, time, step, tag, tensor): true. */
static int events_histogram(lua_State *L) {
  ol_error error;
  ol_events *events = ol_check_scratch(L, 1, &kind);
  ol_moment when = check_moment(L);
  const char *tag = luaL_checkstring(L, 4);
  const ol_tensor *tensor = ol_check_tensor(L, 5);
  lua_pushboolean(L, true);
  return answer(L, ol_events_histogram(&error, events, when, tag, tensor), &error);
}

/* events_resume(events, time, step): true; from this step on earlier files are void. */
static int events_resume(lua_State *L) {
  ol_error error;
  ol_events *events = ol_check_scratch(L, 1, &kind);
  ol_moment when = check_moment(L);
  lua_pushboolean(L, true);
  return answer(L, ol_events_resume(&error, events, when), &error);
}

/* events_close(events): true. */
static int events_close(lua_State *L) {
  ol_error error;
  ol_events *events = ol_check_scratch(L, 1, &kind);
  lua_pushboolean(L, true);
  return answer(L, ol_events_close(&error, events), &error);
}

const ol_natives ol_events_natives = {
  .name = "events",
  .list = (const ol_native[]){ OL_HIDDEN("events_create", events_create),
                               OL_HIDDEN("events_scalars", events_scalars),
                               OL_HIDDEN("events_histogram", events_histogram),
                               OL_HIDDEN("events_resume", events_resume),
                               OL_HIDDEN("events_close", events_close),
                               { { 0 } } },
};
