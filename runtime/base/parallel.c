/* parallel: the only file that knows OpenMP. */
#include "base/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>

int ol_threads(void) { return omp_get_max_threads(); }
int ol_thread(void) { return omp_get_thread_num(); }
void ol_set_threads(int threads) { omp_set_num_threads(threads); }
bool ol_in_parallel(void) { return omp_in_parallel(); }

/* A child has none of the threads of its parent, and would wait for them for ever. */
static void on_fork(void) { omp_set_num_threads(1); }

__attribute__((constructor)) static void watch_forks(void) {
  (void)pthread_atfork(NULL, NULL, on_fork);
}
#else
int ol_threads(void) { return 1; }
int ol_thread(void) { return 0; }
void ol_set_threads(int threads) { (void)threads; }
bool ol_in_parallel(void) { return false; }
#endif

/* Does the work if there is but one range, or one thread. */
static bool ran_alone(int64_t count, int64_t grain, ol_range_fn *fn, void *context) {
  if (count <= 0) return true;
  if (count > grain && ol_threads() > 1 && !ol_in_parallel()) return false;
  fn(0, count, context);
  return true;
}

static void do_range(int64_t count, int64_t begin, int64_t grain, ol_range_fn *fn, void *context) {
  fn(begin, count - begin > grain ? begin + grain : count, context);
}

void ol_parallel_for(int64_t count, int64_t grain, ol_range_fn *fn, void *context) {
  if (ran_alone(count, grain, fn, context)) return;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (int64_t begin = 0; begin < count; begin += grain) do_range(count, begin, grain, fn, context);
}

void ol_parallel_take(int64_t count, int64_t grain, ol_range_fn *fn, void *context) {
  if (ran_alone(count, grain, fn, context)) return;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic)
#endif
  for (int64_t begin = 0; begin < count; begin += grain) do_range(count, begin, grain, fn, context);
}
