/* print: tensors as text, as PyTorch prints them (torch/_tensor_str.py, version 2.13). */
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "bind/error.h"
#include "bind/native.h"
#include "bind/print.h"
#include "bind/tensor.h"

static struct {
  int precision;    /* digits after the point */
  double threshold; /* elements above which the middle is left out */
  int edgeitems;    /* items shown at each end of a dimension then */
  int linewidth;
  int scientific; /* 1, 0, or -1: as the numbers are */
} style = { 4, 1000, 3, 80, -1 };

/* How the elements of one tensor are written. */
typedef struct printer {
  const ol_tensor *tensor;
  luaL_Buffer *text;
  bool summarize; /* whether the middle is left out */
  bool whole, scientific;
  int width;
  double least, most; /* absolute values of the numbers that are finite and not 0 */
} printer;

#define NUMBER 400 /* bytes for the longest number: 1e308 in %f with 60 digits */

static void write_fraction(const printer *p, double x, char *out) {
  if (isnan(x))
    strcpy(out, "nan");
  else if (isinf(x))
    strcpy(out, x < 0 ? "-inf" : "inf");
  else if (p->scientific)
    snprintf(out, NUMBER, "%.*e", style.precision, x);
  else if (p->whole)
    snprintf(out, NUMBER, "%.0f.", x);
  else
    snprintf(out, NUMBER, "%.*f", style.precision, x);
}

static void write_number(const printer *p, int64_t offset, char *out) {
  ol_tensor one = *p->tensor;
  one.offset = offset;
  one.shape.ndim = 0;
  if (ol_dtype_is_float(one.dtype))
    write_fraction(p, ol_tensor_get(&one, 0), out);
  else
    snprintf(out, NUMBER, "%lld", (long long)ol_tensor_get_integer(&one, 0));
}

/* The item shown after item i of a dimension of this size; size when there is none. */
static int64_t next_item(const printer *p, int64_t i, int64_t size) {
  if (p->summarize && size > 2 * style.edgeitems && i + 1 == style.edgeitems)
    return size - style.edgeitems;
  return i + 1;
}

typedef void visit_fn(printer *p, int64_t offset);

/* Visits the elements that are shown. */
static void visit(printer *p, int dim, int64_t offset, visit_fn *fn) {
  const ol_tensor *x = p->tensor;
  if (dim == x->shape.ndim) {
    fn(p, offset);
    return;
  }
  int64_t size = x->shape.size[dim];
  if (p->summarize && style.edgeitems == 0) return;
  for (int64_t i = 0; i < size; i = next_item(p, i, size))
    visit(p, dim + 1, offset + i * x->stride[dim], fn);
}

static double fraction_at(const printer *p, int64_t offset) {
  ol_tensor one = *p->tensor;
  one.offset = offset;
  one.shape.ndim = 0;
  return ol_tensor_get(&one, 0);
}

static void measure(printer *p, int64_t offset) {
  double x = fraction_at(p, offset);
  if (!isfinite(x) || x == 0) return;
  if (x != ceil(x)) p->whole = false;
  p->least = fmin(p->least, fabs(x));
  p->most = fmax(p->most, fabs(x));
}

/* Only numbers that are finite and not 0 widen the columns of fractions. */
static void widen(printer *p, int64_t offset) {
  char number[NUMBER];
  if (ol_dtype_is_float(p->tensor->dtype)) {
    double x = fraction_at(p, offset);
    if (!isfinite(x) || x == 0) return;
  }
  write_number(p, offset, number);
  if ((int)strlen(number) > p->width) p->width = (int)strlen(number);
}

static void choose_format(printer *p) {
  p->whole = true;
  p->width = 1;
  p->least = INFINITY;
  p->most = 0;
  if (ol_dtype_is_float(p->tensor->dtype)) {
    visit(p, 0, p->tensor->offset, measure);
    if (p->most == 0) return;
    p->scientific = p->most / p->least > 1000 || p->most > 1e8 || p->least < 1e-4;
    if (style.scientific >= 0) p->scientific = style.scientific;
  }
  visit(p, 0, p->tensor->offset, widen);
}

static void add_spaces(luaL_Buffer *text, int count) {
  for (int i = 0; i < count; i++) luaL_addchar(text, ' ');
}

static void add_number(printer *p, int64_t offset) {
  char number[NUMBER];
  write_number(p, offset, number);
  add_spaces(p->text, p->width - (int)strlen(number));
  luaL_addstring(p->text, number);
}

/* The last dimension, in lines. */
static void add_vector(printer *p, int64_t offset, int indent) {
  int64_t size = p->tensor->shape.size[p->tensor->shape.ndim - 1], shown = 0;
  int64_t stride = p->tensor->stride[p->tensor->shape.ndim - 1];
  int64_t line = (style.linewidth - indent) / (p->width + 2);
  bool cut = p->summarize && size > 2 * style.edgeitems;
  if (line < 1) line = 1;
  luaL_addchar(p->text, '[');
  for (int64_t i = 0; i < size; shown++) {
    if (shown > 0) luaL_addstring(p->text, shown % line ? ", " : ",\n");
    if (shown > 0 && shown % line == 0) add_spaces(p->text, indent + 1);
    if (cut && shown == style.edgeitems) {
      luaL_addstring(p->text, style.edgeitems ? " ..." : "...");
      i = style.edgeitems ? size - style.edgeitems : size;
      continue;
    }
    add_number(p, offset + i * stride);
    i++;
  }
  luaL_addchar(p->text, ']');
}

static void add_separator(printer *p, int below, int indent) {
  luaL_addchar(p->text, ',');
  for (int i = 1; i < below; i++) luaL_addchar(p->text, '\n');
  add_spaces(p->text, indent + 1);
}

static void add_elements(printer *p, int dim, int64_t offset, int indent) {
  const ol_tensor *x = p->tensor;
  int below = x->shape.ndim - dim;
  if (below == 0) add_number(p, offset);
  if (below == 1) add_vector(p, offset, indent);
  if (below <= 1) return;
  int64_t size = x->shape.size[dim], shown = 0;
  bool cut = p->summarize && size > 2 * style.edgeitems;
  luaL_addchar(p->text, '[');
  for (int64_t i = 0; i < size; shown++) {
    if (shown > 0) add_separator(p, below, indent);
    if (cut && shown == style.edgeitems) {
      luaL_addstring(p->text, "...");
      i = size - style.edgeitems;
      continue;
    }
    add_elements(p, dim + 1, offset + i * x->stride[dim], indent + 1);
    i++;
  }
  luaL_addchar(p->text, ']');
}

/* Pushes "tensor([…" without what follows the elements. */
static void push_elements(lua_State *L, const ol_tensor *x) {
  luaL_Buffer text;
  printer p = { .tensor = x, .text = &text, .summarize = (double)x->numel > style.threshold };
  luaL_buffinit(L, &text);
  luaL_addstring(&text, "tensor(");
  if (x->numel == 0)
    luaL_addstring(&text, "[]");
  else {
    choose_format(&p);
    add_elements(&p, 0, x->offset, (int)strlen("tensor("));
  }
  luaL_pushresult(&text);
}

/* Appends ", suffix" to the text on top of the stack, on a line of its own where it is too long.
 * *column is the width of the last line. */
static void add_suffix(lua_State *L, size_t *column, const char *suffix) {
  size_t length = strlen(suffix), indent = strlen("tensor(");
  if (*column + length + 2 > (size_t)style.linewidth) {
    lua_pushfstring(L, ",\n       %s", suffix);
    *column = indent + length;
  } else {
    lua_pushfstring(L, ", %s", suffix);
    *column += length + 2;
  }
  lua_concat(L, 2);
}

/* As Python writes a tuple: "(2, 3)", "(2,)". */
static const char *tuple(const ol_shape *shape, char *text) {
  ol_shape_text(shape, text);
  if (shape->ndim == 1) strcpy(text + strlen(text) - 1, ",)");
  return text;
}

static bool shows_dtype(const ol_tensor *x) {
  return x->dtype != OL_F32 && (x->dtype != OL_I64 || x->numel == 0);
}

void ol_push_text(lua_State *L, const ol_tensor *x) {
  char text[OL_SHAPE_TEXT + 64], shape[OL_SHAPE_TEXT + 2];
  push_elements(L, x);
  const char *line = strrchr(lua_tostring(L, -1), '\n');
  size_t column = line ? strlen(line) + 1 : lua_rawlen(L, -1) + 2;
  if ((x->numel == 0 && x->shape.ndim != 1) || (x->numel > 0 && style.edgeitems == 0)) {
    snprintf(text, sizeof text, "size=%s", tuple(&x->shape, shape));
    add_suffix(L, &column, text);
  }
  if (shows_dtype(x)) {
    snprintf(text, sizeof text, "dtype=%s", ol_dtype_name(x->dtype));
    add_suffix(L, &column, text);
  }
  if (!ol_is_leaf(x)) {
    snprintf(text, sizeof text, "grad_fn=<%s>", ol_made_by(x));
    add_suffix(L, &column, text);
  } else if (x->requires_grad)
    add_suffix(L, &column, "requires_grad=true");
  lua_pushliteral(L, ")");
  lua_concat(L, 2);
}

int ol_tensor_tostring(lua_State *L) {
  const ol_tensor *x = ol_to_tensor(L, 1);
  if (x)
    ol_push_text(L, x);
  else
    lua_pushfstring(L, "tensor (%s)", ol_is_tensor(L, 1) ? "released" : "none");
  return 1;
}

static int in_range(lua_State *L, const ol_value *value, const char *name, int most) {
  if (value->integer < 0 || value->integer > most)
    ol_throw(L, "set_printoptions: %s: an integer from 0 to %d expected, got %I", name, most,
             (LUAI_UACINT)value->integer);
  return (int)value->integer;
}

static void set_profile(int profile) {
  style.precision = profile == 1 ? 2 : 4;
  style.threshold = profile == 2 ? INFINITY : 1000;
  style.edgeitems = profile == 1 ? 2 : 3;
  style.linewidth = 80;
}

static int set_printoptions(lua_State *L) {
  ol_args args;
  ol_native_args(L, lua_gettop(L), &args);
  const ol_value *arg = args.call.arg;
  int precision = in_range(L, &arg[0], "precision", 50);
  int edgeitems = in_range(L, &arg[2], "edgeitems", 1000000);
  int linewidth = in_range(L, &arg[3], "linewidth", 1000000);
  if (arg[5].given) set_profile(arg[5].choice);
  if (arg[0].given) style.precision = precision;
  if (arg[1].given) style.threshold = arg[1].number;
  if (arg[2].given) style.edgeitems = edgeitems;
  if (arg[3].given) style.linewidth = linewidth;
  style.scientific = arg[4].given ? arg[4].flag : -1;
  return 0;
}

static const ol_native natives[] = {
  { { .name = "set_printoptions",
      .doc = "How tensors print from now on; what is left out stays, but sci_mode, which becomes "
             "automatic.",
      .example = "optlua.set_printoptions { precision = 2 }\n"
                 "print(optlua.tensor({ 0.125, 3 })) --> tensor([0.12, 3.00])",
      .param = { { "precision", OL_DATA, true, .doc = "digits after the point; 4 at first" },
                 { "threshold", OL_NUMBER, true,
                   .doc = "elements above which the middle is left out; 1000 at first" },
                 { "edgeitems", OL_DATA, true, .doc = "items shown at each end then; 3 at first" },
                 { "linewidth", OL_DATA, true, .doc = "characters a line; 80 at first" },
                 { "sci_mode", OL_FLAG, true, .doc = "scientific notation always or never" },
                 { "profile", OL_CHOICE, true, .choices = "default|short|full",
                   .doc = "sets the first four" } },
      .flags = OL_OP_FUNCTION },
    set_printoptions },
  { { 0 } },
};

const ol_natives ol_print_natives = { "print", "Printing", natives };
