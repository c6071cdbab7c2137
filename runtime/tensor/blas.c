/* blas: calls CBLAS, and asks the loaded library about itself. */
#define _GNU_SOURCE /* dladdr */
#include "tensor/blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/parallel.h"

/* OpenBLAS's own functions; absent (NULL) in other libraries. */
#pragma weak openblas_get_config
#pragma weak openblas_get_parallel
#pragma weak openblas_set_num_threads
extern char *openblas_get_config(void);
extern int openblas_get_parallel(void);
extern void openblas_set_num_threads(int threads);

#ifdef __x86_64__
#pragma weak openblas_get_corename
#pragma weak gotoblas_dynamic_init
#pragma weak gotoblas_dynamic_quit
extern char *openblas_get_corename(void);
extern void gotoblas_dynamic_init(void);
extern void gotoblas_dynamic_quit(void);

/* A processor that is newer than OpenBLAS is taken for the oldest that it knows: 0.3.21 runs
 * Emerald Rapids as a Prescott of 2004, and products take four times as long. It is then told to
 * choose again, unless the user has chosen. */
__attribute__((constructor)) static void choose_core(void) {
  static const char variable[] = "OPENBLAS_CORETYPE";
  if (!openblas_get_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit) return;
  if (strcmp(openblas_get_corename(), "Prescott") != 0 || getenv(variable)) return;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
  setenv(variable, __builtin_cpu_supports("avx512vl") ? "SkylakeX" : "Haswell", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(variable);
}
#endif

/* The product of a matrix by itself. */
static void multiply_once(int64_t begin, int64_t end, void *context) {
  enum { SIZE = 48 };
  static const float zeros[SIZE * SIZE];
  float out[SIZE * SIZE];
  (void)context;
  for (; begin < end; begin++)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIZE, SIZE, SIZE, 1, zeros, SIZE, zeros,
                SIZE, 0, out, SIZE);
}

/* Where the address space is limited, OpenBLAS takes its memory at once, while there is some: with
 * too little it hangs. It keeps what it has. */
__attribute__((constructor)) static void take_memory(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  ol_parallel_for(ol_threads(), 1, multiply_once, NULL);
}

/* Whether rows are dense and apart. A size of 1 makes its stride meaningless. */
static bool by_rows(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  return (cols <= 1 || col == 1) && (rows <= 1 || row >= (cols > 1 ? cols : 1));
}

bool ol_blas_accepts(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  if (rows > INT_MAX || cols > INT_MAX || row > INT_MAX || col > INT_MAX) return false;
  return by_rows(rows, cols, row, col) || by_rows(cols, rows, col, row);
}

/* The leading dimension: the larger stride, at least the length of what it steps over. */
static int leading(int64_t rows, int64_t cols, ol_matrix matrix, bool trans) {
  int64_t stride = trans ? matrix.col : matrix.row, least = trans ? rows : cols;
  if ((trans ? cols : rows) <= 1 || stride < least) stride = least;
  return (int)(stride > 0 ? stride : 1);
}

/* A matrix times a vector of so many elements together is a product of its own in BLAS, from memory
 * up to three times as fast. */
#define LARGE_FOR_A_VECTOR (1 << 18)

#define GEMV(cblas, type)                                                                          \
  for (int64_t i = 0; beta == 0 && i < m; i++) ((type *)y)[i * incy] = 0;                          \
  cblas(CblasRowMajor, turned ? CblasTrans : CblasNoTrans, rows, cols, (type)alpha, a.data, lda,   \
        x, incx, (type)beta, y, incy)

/* y = alpha * a (m,k) * x + beta * y; what y held is not read where beta is 0. */
static void multiply_vector(ol_dtype dtype, int64_t m, int64_t k, double alpha, ol_matrix a,
                            const void *x, int64_t step, double beta, void *y, int64_t stride) {
  bool turned = !by_rows(m, k, a.row, a.col);
  int rows = (int)(turned ? k : m), cols = (int)(turned ? m : k), lda = leading(m, k, a, turned);
  int incx = (int)step, incy = (int)stride;
  if (dtype == OL_F32) {
    GEMV(cblas_sgemv, float);
  } else {
    GEMV(cblas_dgemv, double);
  }
}

/* Whether a product is one of a large matrix (m,k) and a vector whose elements are `step` apart. */
static bool is_large_by_vector(int64_t others, int64_t m, int64_t k, int64_t step, int64_t stride) {
  return others == 1 && m > 1 && k > 1 && m * k >= LARGE_FOR_A_VECTOR && step > 0 && stride > 0 &&
         step <= INT_MAX && stride <= INT_MAX;
}

#define GEMM(cblas, type)                                                                          \
  cblas(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m,     \
        (int)n, (int)k, (type)alpha, a.data, lda, b.data, ldb, (type)beta, c.data, ldc)

void ol_blas_gemm(ol_dtype dtype, int64_t m, int64_t n, int64_t k, double alpha, ol_matrix a,
                  ol_matrix b, double beta, ol_matrix c) {
  if (m == 0 || n == 0) return;
  if (is_large_by_vector(n, m, k, b.row, c.row)) {
    multiply_vector(dtype, m, k, alpha, a, b.data, b.row, beta, c.data, c.row);
    return;
  }
  if (is_large_by_vector(m, n, k, a.col, c.col)) {
    const ol_matrix turned = { b.data, b.col, b.row };
    multiply_vector(dtype, n, k, alpha, turned, a.data, a.col, beta, c.data, c.col);
    return;
  }
  bool ta = !by_rows(m, k, a.row, a.col), tb = !by_rows(k, n, b.row, b.col);
  int lda = leading(m, k, a, ta), ldb = leading(k, n, b, tb), ldc = leading(m, n, c, false);
  if (dtype == OL_F32)
    GEMM(cblas_sgemm, float);
  else
    GEMM(cblas_dgemm, double);
}

const char *ol_blas_config(void) {
  return openblas_get_config ? openblas_get_config() : "CBLAS (not OpenBLAS)";
}

const char *ol_blas_threading(void) {
  static const char *const names[] = { "serial", "pthread", "openmp" };
  int kind = openblas_get_parallel ? openblas_get_parallel() : -1;
  return kind >= 0 && kind <= 2 ? names[kind] : "unknown";
}

const char *ol_blas_path(void) {
  Dl_info info;
  return dladdr((void *)cblas_sgemm, &info) && info.dli_fname ? info.dli_fname : "";
}

void ol_blas_set_threads(int threads) {
  if (openblas_set_num_threads) openblas_set_num_threads(threads > 0 ? threads : ol_threads());
}
