/* native: compiles passes to machine code: one loop over the elements that keeps in registers what
 * the instructions hand to each other. It computes what the kernels compute, operation by
 * operation, so the bits are the same; where it can go, it is faster, because a tile need not be
 * read and written for each instruction, and because slow operations overlap with others.
 *
 * It goes over whole rows of elements: of elementwise passes, with reductions over the whole
 * tensor, arrays of bfloat16 and arrays that are spread over long rows; and of long rows and wide
 * columns that are reduced. The kernels do the rest: what is left of a row, functions, codes,
 * matrices that are turned, other processors than x86-64 with AVX2, and systems that refuse to
 * execute what a program has written. */
#ifndef OL_RULE_NATIVE_H
#define OL_RULE_NATIVE_H

#include "rule/kernel.h"

enum {
  OL_NATIVE_ROW = OL_NOISE_ROW, /* elements that machine code does at once */
  OL_NATIVE_LINES = 4, /* and lines of a matrix, so that totals of columns move less often */
};

typedef struct ol_native ol_native;

/* Whether passes can be compiled, and the code executed, here. */
bool ol_native_is_supported(void);

/* Compiles a pass that consists of plain instructions. NULL where that is not possible. */
ol_native *ol_native_compile(const ol_graph *graph, const ol_pass *pass);

/* Whether the code is right for these numbers of a run: powers are compiled for their exponent. */
bool ol_native_fits(const ol_native *native, const double *numbers);

/* NULL is allowed. */
void ol_native_free(ol_native *native);

/* Bytes that a call needs, aligned to OL_ALIGNMENT. */
size_t ol_native_frame(const ol_native *native);

/* How many of the elements at … end can be done in one go: natively (*native is true), or not. */
int64_t ol_native_stretch(const ol_work *work, int64_t at, int64_t end, bool *native);

/* A stretch of elements: at … at+count of the pass, whole rows of 32. */
typedef struct ol_native_call {
  const ol_work *work;
  int64_t at, count;
  double (*lanes)[OL_LANES]; /* of each accumulator, or of a row that is reduced; they go on */
  double *totals;            /* of each column that is reduced, from `at` on; they go on */
  int lines;                 /* of the matrix whose columns these are: OL_NATIVE_LINES, or one */
  void *frame;               /* memory for the call */
} ol_native_call;

/* Does it. Cannot fail. */
void ol_native_run(const ol_native *native, const ol_native_call *call);

#endif
