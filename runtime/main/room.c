/* room: refuses to start where OpenBLAS would hang.
 *
 * Debian's OpenBLAS asks for 128 MiB of address space for each thread, some of it when it is
 * loaded, and asks again for ever where it does not get them. Under a limit (ulimit -v) we look
 * before it does: this runs ahead of the constructors of libraries. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tensor/blas.h"

/* Threads that OpenMP will use: what the environment says, or the processors. */
static long count_threads(char **environment) {
  static const char name[] = "OMP_NUM_THREADS=";
  cpu_set_t set;
  for (; *environment; environment++)
    if (strncmp(*environment, name, sizeof name - 1) == 0) {
      long threads = strtol(*environment + sizeof name - 1, NULL, 10);
      if (threads > 0) return threads;
    }
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void refuse_to_hang(int argc, char **argv, char **environment) {
  char text[256];
  struct rlimit limit;
  (void)argc;
  (void)argv;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  long threads = count_threads(environment), allowed = (long)(limit.rlim_cur >> 20);
  long needed = OL_BLAS_ROOM + OL_BLAS_ROOM_A_THREAD * threads;
  if (allowed >= needed) return;
  int length = snprintf(text, sizeof text,
                        "optlua: ulimit -v allows %ld MiB, and OpenBLAS, with threads: %ld, would "
                        "hang with less than %ld MiB; raise the limit, or set OMP_NUM_THREADS to "
                        "fewer\n",
                        allowed, threads, needed);
  ssize_t written = write(STDERR_FILENO, text, (size_t)length);
  (void)written; /* nobody may be there to read it */
  _exit(EXIT_FAILURE);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first)(int, char **, char **) = refuse_to_hang;
