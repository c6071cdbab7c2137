/* native_code: machine code of a pass, and the memory that it finds behind its argument. */
#ifndef OL_RULE_NATIVE_CODE_H
#define OL_RULE_NATIVE_CODE_H

#include "rule/native.h"

enum {
  OL_NATIVE_VECTOR = 32, /* bytes */
  OL_NATIVE_ARRAYS = 12, /* as many registers are there for them */
  OL_NATIVE_CONSTANTS = 64,
  OL_NATIVE_NOISES = 8, /* arrays that round stochastically */
  OL_NATIVE_EXPONENTS = 4,
  OL_NATIVE_NONE = -1,
  OL_NATIVE_TOTALS = -2, /* in place of an array: doubles, one for each column */
};

/* What is spread over a vector in the frame. */
typedef struct ol_native_constant {
  enum {
    OL_NATIVE_NUMBER,          /* number `index` of the run */
    OL_NATIVE_GRADIENT_FACTOR, /* or 1 */
    OL_NATIVE_ELEMENT,         /* of access `index`: the same along the row */
    OL_NATIVE_BITS,            /* of an element */
  } kind;
  int index;
  uint64_t bits;
} ol_native_constant;

/* The frame: lanes of accumulators, noise and constants follow. */
typedef struct ol_native_frame_head {
  int64_t count; /* elements */
  char *base[OL_NATIVE_ARRAYS];
} ol_native_frame_head;

/* The noise of an array: counters of the words for the next row, and the words of this one. */
typedef struct ol_native_noise {
  uint32_t counter[OL_NATIVE_VECTOR / sizeof(uint32_t)];
  uint32_t word[2][OL_NATIVE_VECTOR / sizeof(uint32_t)];
} ol_native_noise;

struct ol_native {
  char *code;     /* void (*)(void *frame) */
  size_t size;    /* of the code */
  size_t several; /* where the code begins that does several lines at once */
  bool wide;      /* computes in float64 */
  bool columns;   /* reduces over a dimension that is not the last */
  int arrays, accesses, accumulators, constants, noises, exponents;
  ol_shape shape; /* of the pass */
  struct {
    int16_t array, access; /* access: the one below, or NONE */
    uint8_t width;         /* bytes of an element */
  } array[OL_NATIVE_ARRAYS];
  ol_access access[OL_NATIVE_ARRAYS]; /* with strides of their own */
  ol_native_constant constant[OL_NATIVE_CONSTANTS];
  int16_t noise[OL_NATIVE_NOISES]; /* arrays */
  struct {
    int number;   /* of the run */
    double value; /* that it must have */
  } exponent[OL_NATIVE_EXPONENTS];
};

/* Where in the frame is what. */

static inline size_t ol_native_lanes_at(void) {
  return (sizeof(ol_native_frame_head) + OL_ALIGNMENT - 1) / OL_ALIGNMENT * OL_ALIGNMENT;
}

static inline size_t ol_native_noise_at(const ol_native *n) {
  return ol_native_lanes_at() + sizeof(double[OL_LANES]) * (size_t)n->accumulators;
}

static inline size_t ol_native_constants_at(const ol_native *n) {
  return ol_native_noise_at(n) + sizeof(ol_native_noise) * (size_t)n->noises;
}

/* A number as the pass computes with it. */
static inline double ol_native_rounded(const ol_native *n, double value) {
  return n->wide ? value : (double)(float)value;
}

#endif
