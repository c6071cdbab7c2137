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

void ol_parallel_for(int64_t count, int64_t grain, ol_range_fn *fn, void *context) {
  if (count <= 0) return;
  int64_t chunks = (count - 1) / grain + 1;
  if (chunks == 1 || ol_threads() == 1 || ol_in_parallel()) {
    fn(0, count, context);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (int64_t chunk = 0; chunk < chunks; chunk++) {
    int64_t begin = chunk * grain, end = begin + grain;
    fn(begin, end < count ? end : count, context);
  }
}
