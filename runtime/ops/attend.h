/* attend: attention of stacks of heads, a tile of rows at a time.
 *
 * The weights of all pairs of positions are never there at once: forward keeps the logarithm of
 * each row's sum of exponentials, from which backward makes a tile of weights anew (Dao et al.,
 * 2022, "FlashAttention", without its tiles of keys). */
#ifndef OL_OPS_ATTEND_H
#define OL_OPS_ATTEND_H

#include "base/rng.h"
#include "ops/stack.h"

/* One attention: softmax(scale * query keyᵀ + mask) value for every head. Stacks whose tensor is
 * NULL are absent; all others broadcast to batch, are readable by BLAS, and those that are written
 * have dense rows and are batch as a whole. */
typedef struct ol_attend {
  ol_dtype dtype;       /* float32 or float64, of all but a uint8 mask */
  ol_shape batch;       /* a head at each position */
  int64_t rows, keys;   /* L, S */
  int64_t width, depth; /* E of query and key, Ev of value */
  double scale;
  bool causal;                /* row i attends to keys 0 … i alone */
  double dropout;             /* the probability that a weight is dropped */
  ol_rng rng;                 /* what drops: the same numbers forward and backward */
  ol_stack query, key, value; /* (L,E), (S,E), (S,Ev) */
  ol_stack mask;              /* (L,S), any strides: uint8, 0 hides; or added to the scores */
  ol_stack out;               /* (L,Ev): written by forward */
  double *logs;               /* (batch, L): written by forward, read by backward; +inf of a row
                                 that may attend to nothing, which gives zeros */
  ol_stack slope;             /* (L,Ev): backward reads the gradient of out, */
  ol_stack query_slope;       /* and writes those of query, */
  ol_stack key_slope;         /* key, */
  ol_stack value_slope;       /* value, */
  ol_stack mask_slope;        /* and the scores, (L,S) */
} ol_attend;

/* The 128-bit blocks of random numbers that the dropout of one attention takes. */
uint64_t ol_attend_draws(const ol_attend *attend);

/* Computes out and logs. Fails only for want of memory, before anything is written. */
ol_status ol_attend_forward(ol_error *error, const ol_attend *attend);

/* Computes the slopes that are wanted. Fails likewise. */
ol_status ol_attend_backward(ol_error *error, const ol_attend *attend);

#endif
