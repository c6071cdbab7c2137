/* executable: pages that are written first, and executed then. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "base/executable.h"

#include <string.h>
#include <sys/mman.h>

void *ol_executable_new(const void *code, size_t size) {
  void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  memcpy(pages, code, size);
  if (mprotect(pages, size, PROT_READ | PROT_EXEC) == 0) return pages;
  munmap(pages, size);
  return NULL;
}

void ol_executable_free(void *code, size_t size) {
  if (code) munmap(code, size);
}
