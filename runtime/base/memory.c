/* memory: aligned blocks with their size in front, counted in process-wide totals. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer all of a malloc but the payload is poisoned, so that it sees each byte
 * that is touched before or behind a block. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* A block is a malloc of header and payload; the header ends where the payload begins, at the
 * first aligned address that leaves room for it. */
typedef struct header {
  void *base;
  size_t size;
} header;

static _Atomic int64_t live_bytes, live_blocks, total_bytes, total_blocks;
static _Atomic int64_t failing = -1; /* allocations until the first that fails; -1: never */
static _Atomic bool failing_on;      /* whether later ones fail too */

static bool must_fail(void) {
  if (atomic_load_explicit(&failing, memory_order_relaxed) < 0) return false;
  if (atomic_fetch_sub(&failing, 1) > 0) return false;
  atomic_store(&failing, failing_on ? 0 : -1);
  return true;
}

static void count(int64_t bytes, int64_t blocks) {
  atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
  atomic_fetch_add_explicit(&live_blocks, blocks, memory_order_relaxed);
  if (blocks < 0) return;
  atomic_fetch_add_explicit(&total_bytes, bytes, memory_order_relaxed);
  atomic_fetch_add_explicit(&total_blocks, blocks, memory_order_relaxed);
}

static void *allocate(size_t size, bool zero) {
  const size_t extra = sizeof(header) + OL_ALIGNMENT - 1;
  if (size > (size_t)PTRDIFF_MAX - extra || must_fail()) return NULL;
  char *base = zero ? calloc(1, size + extra) : malloc(size + extra);
  if (!base) return NULL;
  uintptr_t start = (uintptr_t)base + extra;
  header *block = (header *)(start - start % OL_ALIGNMENT);
  block[-1] = (header){ .base = base, .size = size };
  ASAN_POISON_MEMORY_REGION(base, size + extra);
  ASAN_UNPOISON_MEMORY_REGION(block, size);
  count((int64_t)size, 1);
  return block;
}

void *ol_alloc(size_t size) { return allocate(size, false); }

void *ol_alloc_zero(size_t size) { return allocate(size, true); }

void ol_free(void *block) {
  if (!block) return;
  header *own = (header *)block - 1;
  ASAN_UNPOISON_MEMORY_REGION(own, sizeof *own);
  count(-(int64_t)own->size, -1);
  free(own->base);
}

ol_status ol_alloc_for(ol_error *error, size_t size, const char *what, void **out) {
  void *block = ol_alloc(size);
  if (!block) return ol_fail(error, OL_MEMORY, "out of memory: %zu bytes for %s", size, what);
  *out = block;
  return OL_OK;
}

ol_memory_stats ol_memory_read(void) {
  return (ol_memory_stats){ live_bytes, live_blocks, total_bytes, total_blocks };
}

void ol_memory_fail_after(int64_t allocations, bool persistent) {
  failing_on = persistent;
  failing = allocations < 0 ? -1 : allocations;
}
