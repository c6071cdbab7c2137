/* kernel_body: the machine for one type and instruction set; a template, included by kernel.c. The
 * includer defines
 *   T, WIDTH   float and f32, or double and f64    BITS     the unsigned integer of that width
 *   ISA        the name of the instruction set     TARGET   the attribute that allows its use
 *   VECTOR     bytes of its vectors */

#include "rule/kernel_state.h"

#include "rule/kernel_ops.h"

#include "rule/kernel_narrow.h"

#include "rule/kernel_move.h"

#include "rule/kernel_reduce.h"

#include "rule/kernel_pass.h"

#include "rule/kernel_norm.h"

#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef SQRT
#undef MIN
#undef MAX
#undef LT
#undef GT
#undef ABS
#undef SIGN
#undef LERP
#undef CLAMP
#undef WHERE
#undef PLAIN_OPS
#undef FUNCTIONS
#undef T
#undef WIDTH
#undef BITS
