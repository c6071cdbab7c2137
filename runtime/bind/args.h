/* args: reads the arguments of a C function as its descriptor says.
 *
 * Arguments come by position, in the order of the descriptor's parameters, then by name in a last
 * table: t:sum(1, { keepdim = true }). A list of integers can be written out, t:reshape(2, 3),
 * where nothing that follows could be meant. */
#ifndef OL_BIND_ARGS_H
#define OL_BIND_ARGS_H

#include <lua.h>

#include "autograd/op.h"

/* Any value, left on the stack at ol_args.at; for functions of the binding only. */
#define OL_ANY ((ol_kind)100)

typedef struct ol_args {
  ol_call call;           /* the values; tensors are borrowed from the stack */
  int at[OL_MAX_PARAMS];  /* stack index of each argument; 0: not given */
  int run[OL_MAX_PARAMS]; /* how many values make it up: more than 1 for a list written out */
  unsigned numbers;   /* bits of operands that are numbers: their tensors are still to be made */
  unsigned made;      /* bits of those whose tensor the call holds */
  bool requires_grad; /* the option of functions that create tensors */
} ol_args;

/* Reads the `count` values at the bottom of the stack as the arguments of op; raises where they do
 * not fit. Numbers that stand for tensors are left for ol_make_operands. May push onto the stack.
 */
void ol_read_args(lua_State *L, const ol_op *op, int count, ol_args *out);

/* The same for the operands of an arithmetic metamethod, which have no names. */
void ol_read_operands(lua_State *L, const ol_op *op, int count, ol_args *out);

/* Makes the 0-d tensors of operands that are numbers; to be released by ol_drop_operands. Does not
 * raise. */
ol_status ol_make_operands(ol_error *error, lua_State *L, ol_args *args);

void ol_drop_operands(ol_args *args);

/* Whether the value at index is a number that is a whole one: its integer in *out. */
bool ol_whole(lua_State *L, int index, int64_t *out);

#endif
