/* symbol: the values that update rules compute with, as userdata, and the operations on them. */
#ifndef OL_BIND_SYMBOL_H
#define OL_BIND_SYMBOL_H

#include <lua.h>

#include "rule/graph.h"

/* User values of a tracer. */
enum {
  OL_TRACER_NUMBERS = 1, /* a table from the names of the group's numbers to their slots
                            (group_add), or nil */
  OL_TRACER_SYMBOLS,     /* the metatable of symbols */
};

/* The rule that is being run, as userdata; one for each Lua state. */
typedef struct ol_tracer {
  const void *mark;   /* what a tracer bears */
  ol_graph *graph;    /* made when it is first needed */
  bool running;       /* a rule is being run: symbols may be used */
  bool by_shape;      /* it looked at the shape of a symbol */
  const void *states; /* the userdata whose fields are the states of this run */
} ol_tracer;

/* Pushes the tracer of this Lua state. */
void ol_push_tracer(lua_State *L);

/* Makes the graph if there is none yet. */
void ol_tracer_ready(lua_State *L, ol_tracer *tracer);

/* Pushes the value of operand 0, the parameter, or 1, its gradient, as a symbol of the tracer at an
 * index. */
void ol_push_operand(lua_State *L, int tracer, int operand);

/* The symbol at index, in *out; false when there is none. Does not raise. */
bool ol_to_symbol(lua_State *L, int index, ol_symbol *out);

/* Pushes a userdata whose fields are states: names is the stack index of a list, whose i-th name is
 * operand 1 + i. */
void ol_push_states(lua_State *L, int names);

/* Adds the operations to the table on top of the stack; once for each Lua state. */
void ol_open_symbol(lua_State *L);

#endif
