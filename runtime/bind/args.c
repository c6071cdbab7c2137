/* args: which value is which argument, and what it says. */
#include "bind/args.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "bind/error.h"
#include "bind/tensor.h"

bool ol_whole(lua_State *L, int index, int64_t *out) {
  int whole = 0;
  if (lua_type(L, index) != LUA_TNUMBER) return false;
  lua_Integer value = lua_tointegerx(L, index, &whole);
  if (whole) *out = value;
  return whole;
}

/* What each kind of parameter takes, in words. */
static const char *const expected[] = {
  [OL_TENSOR] = "tensor",
  [OL_OPERAND] = "tensor or number",
  [OL_TENSORS] = "list of tensors",
  [OL_NUMBER] = "number",
  [OL_DATA] = "integer",
  [OL_INDEX] = "integer",
  [OL_SIZES] = "integers or a list of integers",
  [OL_DIMS] = "integer or a list of integers",
  [OL_FLAG] = "boolean",
  [OL_TYPE] = "dtype",
  [OL_CHOICE] = "word",
};

static bool is_integers(ol_kind kind) { return kind == OL_SIZES || kind == OL_DIMS; }

static bool is_list(ol_kind kind) { return is_integers(kind) || kind == OL_TENSORS; }

/* Raises `op: argument 2 (other): MESSAGE`. */
_Noreturn static void fail(lua_State *L, const ol_op *op, int p, const char *message) {
  ol_throw(L, "%s: argument %d (%s): %s", op->name, p + 1, op->param[p].name, message);
}

_Noreturn static void fail_type(lua_State *L, const ol_op *op, int p, int index) {
  ol_kind kind = op->param[p].kind;
  bool number = kind == OL_DATA || kind == OL_INDEX || is_integers(kind);
  const char *want = kind == OL_ANY ? "value" : expected[kind];
  const char *got = !index ? "no value" : number ? ol_value_text(L, index) : ol_type_text(L, index);
  const char *hint =
      strcmp(got, "symbol") ? "" : "; a rule has functions of its own: optim.sqrt(x)";
  fail(L, op, p, lua_pushfstring(L, "%s expected, got %s%s", want, got, hint));
}

/* Placing: from values to parameters. */

/* How many of the values from index to top make up the list parameter p: integers written out, if
 * the parameter is not optional and the next one does not take a number. */
static int run_length(lua_State *L, const ol_param *param, int index, int top) {
  int end = index;
  if (!is_integers(param[0].kind) || param[0].optional) return 1;
  if (param[1].name && (param[1].kind == OL_NUMBER || param[1].kind == OL_DATA ||
                        param[1].kind == OL_INDEX || is_integers(param[1].kind)))
    return 1;
  while (end <= top && lua_type(L, end) == LUA_TNUMBER) end++;
  return end > index ? end - index : 1;
}

/* Whether the last value is a table of named arguments: it has a string for a key, or is empty
 * where no table is wanted. */
static bool is_named(lua_State *L, const ol_op *op, int index) {
  if (lua_type(L, index) != LUA_TTABLE || lua_rawlen(L, index) > 0) return false;
  ol_kind kind =
      index <= OL_MAX_PARAMS && op->param[index - 1].name ? op->param[index - 1].kind : OL_FLAG;
  bool empty = true;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    empty = false;
    if (lua_type(L, -2) != LUA_TSTRING) continue;
    lua_pop(L, 2);
    return true;
  }
  return empty && !is_list(kind) && kind != OL_ANY;
}

static int param_named(const ol_op *op, const char *name) {
  for (int p = 0; op->param[p].name; p++)
    if (strcmp(op->param[p].name, name) == 0) return p;
  return -1;
}

/* Whether op makes tensors out of nothing: then the binding adds the option requires_grad. */
static bool creates(const ol_op *op) {
  size_t length = strlen(op->name);
  if (!op->forward || !(op->flags & OL_OP_FUNCTION)) return false;
  if (length > 5 && strcmp(op->name + length - 5, "_like") == 0) return true;
  for (const ol_param *param = op->param; param->name; param++)
    if (param->kind == OL_TENSOR || param->kind == OL_OPERAND || param->kind == OL_TENSORS)
      return false;
  return true;
}

_Noreturn static void fail_name(lua_State *L, const ol_op *op, const char *name) {
  const char *legal[OL_MAX_PARAMS + 1];
  int count = 0;
  for (const ol_param *param = op->param; param->name; param++)
    if (strcmp(param->name, "self") != 0) legal[count++] = param->name;
  if (creates(op)) legal[count++] = "requires_grad";
  ol_raise_unknown(L, op->name, "option", name, legal, count);
}

static void check_name(lua_State *L, const ol_op *op, const ol_args *args) {
  if (lua_type(L, -2) != LUA_TSTRING)
    ol_throw(L, "%s: names of options are strings, got %s", op->name, ol_type_text(L, -2));
  const char *name = lua_tostring(L, -2);
  int p = param_named(op, name);
  if (p < 0 && !(creates(op) && strcmp(name, "requires_grad") == 0)) fail_name(L, op, name);
  if (p >= 0 && args->at[p]) fail(L, op, p, "is given twice, by position and by name");
}

/* Pushes the named arguments and notes where they are. */
static void place_named(lua_State *L, const ol_op *op, int table, ol_args *args) {
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) check_name(L, op, args);
  for (int p = 0; op->param[p].name; p++) {
    lua_pushstring(L, op->param[p].name);
    if (lua_rawget(L, table) == LUA_TNIL)
      lua_pop(L, 1);
    else {
      args->at[p] = lua_gettop(L);
      args->run[p] = 1;
    }
  }
  if (!creates(op)) return;
  lua_pushliteral(L, "requires_grad");
  int type = lua_rawget(L, table);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN)
    ol_throw(L, "%s: requires_grad: boolean expected, got %s", op->name, ol_type_text(L, -1));
  args->requires_grad = lua_toboolean(L, -1);
}

static void place(lua_State *L, const ol_op *op, int count, ol_args *args) {
  int next = 1, named = count > 0 && is_named(L, op, count) ? count-- : 0, p = 0;
  for (; op->param[p].name; p++) {
    args->at[p] = 0;
    if (next > count) continue;
    args->run[p] = run_length(L, &op->param[p], next, count);
    if (!lua_isnil(L, next)) args->at[p] = next;
    next += args->run[p];
  }
  if (next <= count)
    ol_throw(L, "%s: at most %d argument%s expected, got %d", op->name, p, p == 1 ? "" : "s",
             count);
  args->requires_grad = false;
  if (named) place_named(L, op, named, args);
}

/* Reading: from values to ol_value. */

static int64_t read_integer(lua_State *L, const ol_op *op, int p, int index) {
  int64_t value;
  if (!ol_whole(L, index, &value)) fail_type(L, op, p, index);
  return value;
}

/* As typed, from 1 or, negative, from the end; here from 0. */
static int64_t from_typed(lua_State *L, const ol_op *op, int p, int64_t typed) {
  if (typed == 0) fail(L, op, p, "positions count from 1, got 0");
  return typed > 0 ? typed - 1 : typed;
}

static int64_t read_element(lua_State *L, const ol_op *op, int p, int64_t value) {
  return op->param[p].kind == OL_DIMS ? from_typed(L, op, p, value) : value;
}

static void check_length(lua_State *L, const ol_op *op, int p, uint64_t length) {
  if (length > OL_MAX_DIMS)
    fail(L, op, p, lua_pushfstring(L, "at most %d integers expected", OL_MAX_DIMS));
}

static void read_list(lua_State *L, const ol_op *op, int p, int index, ol_shape *out) {
  uint64_t length = lua_rawlen(L, index);
  check_length(L, op, p, length);
  out->ndim = (int)length;
  for (int i = 0; i < out->ndim; i++) {
    int64_t value;
    lua_rawgeti(L, index, i + 1);
    if (!ol_whole(L, -1, &value))
      fail(L, op, p,
           lua_pushfstring(L, "entry %d: integer expected, got %s", i + 1, ol_value_text(L, -1)));
    out->size[i] = read_element(L, op, p, value);
    lua_pop(L, 1);
  }
  if (length) return;
  lua_pushnil(L);
  if (lua_next(L, index)) fail(L, op, p, "a list has positions for keys");
}

static void read_integers(lua_State *L, const ol_op *op, int p, int index, int run, ol_shape *out) {
  if (lua_type(L, index) == LUA_TTABLE) {
    read_list(L, op, p, index, out);
    return;
  }
  check_length(L, op, p, (uint64_t)run);
  out->ndim = run;
  for (int i = 0; i < run; i++)
    out->size[i] = read_element(L, op, p, read_integer(L, op, p, index + i));
}

/* The pointers go into a userdata that stays on the stack. */
static void read_tensors(lua_State *L, const ol_op *op, int p, int index, ol_value *value) {
  if (lua_type(L, index) != LUA_TTABLE) fail_type(L, op, p, index);
  lua_Unsigned length = lua_rawlen(L, index);
  if (length == 0 || length > INT32_MAX) fail(L, op, p, "a list of at least one tensor expected");
  value->tensors.item = lua_newuserdatauv(L, (size_t)length * sizeof(ol_tensor *), 0);
  value->tensors.count = (int)length;
  for (int i = 0; i < value->tensors.count; i++) {
    lua_rawgeti(L, index, i + 1);
    value->tensors.item[i] = ol_to_tensor(L, -1);
    if (!value->tensors.item[i])
      fail(L, op, p,
           lua_pushfstring(L, "entry %d: tensor expected, got %s", i + 1, ol_type_text(L, -1)));
    lua_pop(L, 1);
  }
}

/* The place of word in choices ("none|mean|sum"), or -1. */
static int choice_of(const char *choices, const char *word) {
  size_t length = strlen(word);
  for (int i = 0;; i++) {
    size_t own = strcspn(choices, "|");
    if (own == length && memcmp(choices, word, own) == 0) return i;
    if (choices[own] == '\0') return -1;
    choices += own + 1;
  }
}

static int read_choice(lua_State *L, const ol_op *op, int p, int index) {
  if (lua_type(L, index) != LUA_TSTRING) fail_type(L, op, p, index);
  int choice = choice_of(op->param[p].choices, lua_tostring(L, index));
  if (choice < 0)
    fail(L, op, p,
         lua_pushfstring(L, "one of %s expected, got \"%s\"", op->param[p].choices,
                         lua_tostring(L, index)));
  return choice;
}

static ol_dtype read_dtype(lua_State *L, const ol_op *op, int p, int index) {
  ol_dtype dtype;
  if (lua_type(L, index) != LUA_TSTRING) fail_type(L, op, p, index);
  if (!ol_dtype_parse(lua_tostring(L, index), &dtype)) {
    const char *legal[OL_DTYPES];
    for (int i = 0; i < OL_DTYPES; i++) legal[i] = ol_dtype_name((ol_dtype)i);
    ol_raise_unknown(L, op->name, "dtype", lua_tostring(L, index), legal, OL_DTYPES);
  }
  return dtype;
}

static bool read_tensor(lua_State *L, int index, ol_value *value) {
  value->tensor = ol_to_tensor(L, index);
  return value->tensor != NULL;
}

static void read_value(lua_State *L, const ol_op *op, int p, ol_args *args) {
  ol_value *value = &args->call.arg[p];
  int index = args->at[p];
  bool fits = true;
  value->given = true;
  switch (op->param[p].kind) {
  case OL_TENSOR: fits = read_tensor(L, index, value); break;
  case OL_OPERAND:
    if (read_tensor(L, index, value)) break;
    fits = lua_type(L, index) == LUA_TNUMBER;
    args->numbers |= 1u << p;
    break;
  case OL_NUMBER:
    fits = lua_type(L, index) == LUA_TNUMBER;
    value->number = lua_tonumber(L, index);
    break;
  case OL_FLAG:
    fits = lua_type(L, index) == LUA_TBOOLEAN;
    value->flag = lua_toboolean(L, index);
    break;
  case OL_DATA: value->integer = read_integer(L, op, p, index); break;
  case OL_INDEX: value->integer = from_typed(L, op, p, read_integer(L, op, p, index)); break;
  case OL_SIZES:
    if (op->param[p].choices && lua_type(L, index) == LUA_TSTRING) {
      value->list.ndim = -1 - read_choice(L, op, p, index);
      break;
    } /* fall through */
  case OL_DIMS: read_integers(L, op, p, index, args->run[p], &value->list); break;
  case OL_TENSORS: break; /* before */
  case OL_TYPE: value->dtype = read_dtype(L, op, p, index); break;
  case OL_CHOICE: value->choice = read_choice(L, op, p, index); break;
  default: break;
  }
  if (!fits) fail_type(L, op, p, index);
}

static void preset_value(lua_State *L, const ol_op *op, int p, ol_value *value) {
  const ol_param *param = &op->param[p];
  if (!param->optional) fail_type(L, op, p, 0);
  value->given = false;
  switch (param->kind) {
  case OL_TENSOR:
  case OL_OPERAND: value->tensor = NULL; break;
  case OL_TENSORS: value->tensors.count = 0; break;
  case OL_SIZES:
  case OL_DIMS: value->list.ndim = 0; break;
  case OL_NUMBER: value->number = param->preset; break;
  case OL_DATA: value->integer = (int64_t)param->preset; break;
  case OL_INDEX:
    value->integer = (int64_t)(param->preset > 0 ? param->preset - 1 : param->preset);
    break;
  case OL_FLAG: value->flag = param->preset != 0; break;
  case OL_TYPE: value->dtype = (ol_dtype)param->preset; break;
  case OL_CHOICE: value->choice = (int)param->preset; break;
  default: break;
  }
}

static void read_all(lua_State *L, const ol_op *op, ol_args *args) {
  args->call.op = op;
  args->numbers = args->made = 0;
  for (int p = 0; op->param[p].name; p++)
    if (args->at[p])
      read_value(L, op, p, args);
    else
      preset_value(L, op, p, &args->call.arg[p]);
  memset(args->call.out, 0, sizeof args->call.out);
  memset(args->call.kept, 0, sizeof args->call.kept);
}

void ol_read_args(lua_State *L, const ol_op *op, int count, ol_args *args) {
  luaL_checkstack(L, 2 * OL_MAX_PARAMS + 8, op->name);
  place(L, op, count, args);
  for (int p = 0; op->param[p].name; p++) /* what needs memory comes before borrowed tensors */
    if (op->param[p].kind == OL_TENSORS && args->at[p])
      read_tensors(L, op, p, args->at[p], &args->call.arg[p]);
  read_all(L, op, args);
}

void ol_read_operands(lua_State *L, const ol_op *op, int count, ol_args *args) {
  args->requires_grad = false;
  for (int p = 0; op->param[p].name; p++) args->at[p] = p < count ? p + 1 : 0;
  read_all(L, op, args);
}
