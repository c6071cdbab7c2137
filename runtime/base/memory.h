/* memory: the one allocator of the runtime: aligned, counted, failing on demand. */
#ifndef OL_BASE_MEMORY_H
#define OL_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define OL_ALIGNMENT 64 /* bytes; a cache line and the widest vector */

/* Allocates size bytes (0 allowed) aligned to OL_ALIGNMENT, or returns NULL. Not zeroed. */
void *ol_alloc(size_t size);

/* As ol_alloc, zeroed. Large blocks come zeroed from the system and cost nothing until touched. */
void *ol_alloc_zero(size_t size);

/* Releases a block of ol_alloc or ol_alloc_zero; NULL is allowed. */
void ol_free(void *block);

/* Allocates into *out and reports failure: "out of memory: N bytes for WHAT". */
ol_status ol_alloc_for(ol_error *error, size_t size, const char *what, void **out);

/* The same into a pointer of any type: OL_ALLOC(error, size, "a list", &list). */
#define OL_ALLOC(error, size, what, out)                                                           \
  ({                                                                                               \
    void *block_ = NULL;                                                                           \
    const ol_status made_ = ol_alloc_for(error, size, what, &block_);                              \
    if (made_ == OL_OK) *(out) = block_;                                                           \
    made_;                                                                                         \
  })

/* Makes room in *array, of *room elements of `size` bytes, of which `count` are used, for `more`
 * that follow: it moves to a block at least twice as large where they do not fit. */
ol_status ol_grow(ol_error *error, void **array, size_t count, size_t more, size_t size,
                  size_t *room, const char *what);

/* The same of an array of any type: OL_GROW(error, &list, count, more, &room, "a list"). */
#define OL_GROW(error, array, count, more, room, what)                                             \
  ({                                                                                               \
    void *grown_ = *(array);                                                                       \
    const ol_status made_ = ol_grow(error, &grown_, count, more, sizeof **(array), room, what);    \
    *(array) = grown_;                                                                             \
    made_;                                                                                         \
  })

typedef struct ol_memory_stats {
  int64_t live_bytes, live_blocks;   /* allocated now */
  int64_t total_bytes, total_blocks; /* allocated since the start of the process */
} ol_memory_stats;

/* Reads the counters. What other threads that still run have done lately, up to some MiB each, may
 * be missing. */
ol_memory_stats ol_memory_read(void);

/* For tests: lets count allocations succeed and fails the one after them and, if persistent, all
 * later ones too. A negative count switches the failing off. Returns what was left of the count
 * before: negative where its one failure has come. */
int64_t ol_memory_fail_after(int64_t count, bool persistent);

/* For tests: fills what ol_alloc gives with bytes of 0xFF, which are NaN to floats and -1 to
 * integers, so that what is read before it is written shows. */
void ol_memory_poison(bool on);

/* For tests: fails every allocation of more than so many bytes; 0: none for its size. */
void ol_memory_limit(size_t bytes);

#endif
