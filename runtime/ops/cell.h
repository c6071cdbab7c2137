/* cell: the arithmetic of one step of a recurrent network, for one row of a batch.
 *
 * A step has a row of `width` times n numbers. Before it the row holds the products of input and
 * state with the weights, after it the activations that backward needs. */
#ifndef OL_OPS_CELL_H
#define OL_OPS_CELL_H

#include "tensor/dtype.h"

/* Makes one step. h (n) and c (n) are the state, replaced by the next one; memory (2n) receives c
 * and its tanh. */
typedef void ol_cell_forward(int64_t n, void *row, void *h, void *c, void *memory);

/* The other way round. dh and dc are the gradients of the state after the step, replaced by those
 * of the state before it as far as they do not come through the products; slopes receives the
 * gradient of the row before the step. h and c are the state before the step. */
typedef void ol_cell_backward(int64_t n, const void *row, const void *h, const void *c,
                              const void *memory, void *dh, void *dc, void *slopes);

/* Blocks of n rows of the weights of the state, and where their products lie in the row. */
typedef struct ol_cell_piece {
  int from, count, at;
} ol_cell_piece;

typedef struct ol_cell {
  int gates; /* blocks of n rows in the weights; those of the input stand first in the row */
  int width; /* blocks of n numbers in the row */
  bool memory;
  int pieces;
  ol_cell_piece piece[2];
  ol_cell_forward *forward[2]; /* float32, float64 */
  ol_cell_backward *backward[2];
} ol_cell;

/* h = tanh(x + h W) (Elman, 1990), or relu. */
extern const ol_cell ol_tanh_cell, ol_relu_cell;

/* Gates i, f, g, o (Hochreiter and Schmidhuber, 1997; Gers et al., 2000): c = σ(f) c + σ(i)
 * tanh(g), h = σ(o) tanh(c). */
extern const ol_cell ol_lstm_cell;

/* Gates r, z, n (Cho et al., 2014, with the reset after the product, as PyTorch has it):
 * h = (1 - σ(z)) tanh(n + σ(r) q) + σ(z) h, where q is the state's product for n. */
extern const ol_cell ol_gru_cell;

#endif
