/* division: division to whole numbers, as C functions for other families. */
#ifndef OL_OPS_DIVISION_H
#define OL_OPS_DIVISION_H

#include "autograd/op.h"

typedef enum ol_division {
  OL_DIVIDE_TRUNC,     /* x / y, towards zero */
  OL_DIVIDE_FLOOR,     /* x / y, down */
  OL_DIVIDE_FMOD,      /* x - y * trunc(x / y): the sign of x */
  OL_DIVIDE_REMAINDER, /* x - y * floor(x / y): the sign of y */
} ol_division;

/* The forward function of an op that divides its first parameter by its second so. Integers stay
 * integers; a zero among integer divisors fails (OL_ARGUMENT) before anything is written. */
ol_status ol_divide_call(ol_error *error, ol_call *call, ol_division kind);

#endif
