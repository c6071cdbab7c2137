/* parallel: loops over ranges on the OpenMP team, and the kernels' macro.
 *
 * Workers get raw pointers. They never allocate, count references, fail or call Lua. How a range is
 * cut never changes the result: kernels work element by element or on blocks of fixed size. */
#ifndef OL_BASE_PARALLEL_H
#define OL_BASE_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

/* A function with a hot loop: compiled for several instruction sets, chosen when it is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(OL_NO_CLONES)
#define OL_KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OL_KERNEL
#endif

/* In front of a loop whose arrays are identical or apart: it vectorises without asking. */
#if defined(__clang__)
#define OL_APART _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define OL_APART _Pragma("GCC ivdep")
#else
#define OL_APART
#endif

#define OL_GRAIN 32768 /* elements of cheap work below which a loop stays on one thread */

/* The grain of items that are so many elements of cheap work each; none is allowed. */
static inline int64_t ol_grain(double work) { return 1 + (int64_t)(OL_GRAIN / (work + 1)); }

/* Works on the items from begin to end (exclusive). */
typedef void ol_range_fn(int64_t begin, int64_t end, void *context);

/* Calls fn over disjoint ranges that cover 0 … count-1, in parallel when count exceeds grain and
 * the caller is not itself inside a parallel loop. Ranges begin at multiples of grain. */
void ol_parallel_for(int64_t count, int64_t grain, ol_range_fn *fn, void *context);

/* The same, but that each thread takes the next range of `grain` items when it is done with one:
 * for ranges that take differently long, as those do that come from memory. */
void ol_parallel_take(int64_t count, int64_t grain, ol_range_fn *fn, void *context);

/* The number of threads that a loop may use, at least 1. */
int ol_threads(void);

/* The number of the calling thread within the loop that it works for: 0 … ol_threads()-1. */
int ol_thread(void);

/* Sets the number of threads of this process (1 … 1024); BLAS follows, as it shares the OpenMP
 * team. */
void ol_set_threads(int threads);

/* Whether the caller runs inside ol_parallel_for on more than one thread. */
bool ol_in_parallel(void);

#endif
