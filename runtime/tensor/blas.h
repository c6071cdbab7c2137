/* blas: matrix products, for row-major matrices with strides. The only door to CBLAS. */
#ifndef OL_TENSOR_BLAS_H
#define OL_TENSOR_BLAS_H

#include "tensor/dtype.h"

/* Address space in MiB that OpenBLAS takes with all that is loaded beside it, and for each thread:
 * with less it hangs. */
#define OL_BLAS_ROOM          250
#define OL_BLAS_ROOM_A_THREAD 150

/* A matrix operand: element (i, j) at data[i*row + j*col]; one of row, col is 1 or the size there
 * is at most 1. */
typedef struct ol_matrix {
  void *data;
  int64_t row, col;
} ol_matrix;

/* Whether BLAS can read a matrix with these strides without a copy. */
bool ol_blas_accepts(int64_t rows, int64_t cols, int64_t row, int64_t col);

/* c (m,n) = alpha * a (m,k) * b (k,n) + beta * c. dtype is float32 or float64; c.col is 1. Handles
 * m, n or k of 0 (then c = beta * c; beta 0 overwrites, whatever c held). */
void ol_blas_gemm(ol_dtype dtype, int64_t m, int64_t n, int64_t k, double alpha, ol_matrix a,
                  ol_matrix b, double beta, ol_matrix c);

/* What the loaded library says of itself, e.g. "OpenBLAS 0.3.21 … SkylakeX MAX_THREADS=64". */
const char *ol_blas_config(void);

/* "openmp", "pthread", "serial" or "unknown": how the loaded library runs its threads. */
const char *ol_blas_threading(void);

/* The file that the library was loaded from, or "". */
const char *ol_blas_path(void);

/* Runs products on at most this many threads from now on; 0: as many as loops (ol_threads). */
void ol_blas_set_threads(int threads);

#endif
