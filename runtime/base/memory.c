/* memory: aligned blocks with their size in front, counted; all but huge ones are kept for reuse.
 */
#include "base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/local.h"

/* Under AddressSanitizer all of a malloc but the payload is poisoned, so that it sees each byte
 * that is touched before or behind a block. */
#if defined(__has_feature) /* clang */
#define SANITIZED __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if SANITIZED
#include <sanitizer/asan_interface.h>
#define KEEPS_SPARES false
#else
#define KEEPS_SPARES                               true
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* A block is a malloc of header and payload; the header ends where the payload begins, at the
 * first aligned address that leaves room for it. */
typedef struct header {
  void *base;
  size_t size;
} header;

#define EXTRA (sizeof(header) + OL_ALIGNMENT - 1)

/* What each thread has for itself: mallocs that it freed, for its next ones of their size, and its
 * part of the counters. An operation on a few elements allocates two blocks; malloc and atomic
 * counters would be a third of its time. Memory that malloc has given back to the system costs more
 * to touch again than most operations take. */
#define STEP  64         /* mallocs are multiples of this many bytes, up to HUGE */
#define HUGE  (16 << 20) /* larger ones are not kept */
#define KEPT  (48 << 20) /* bytes that a thread keeps: Lua drops many tensors at a time */
#define DRIFT (1 << 20)  /* bytes, or blocks times STEP, that a thread counts for itself */

/* Large blocks begin at different places of their pages, this many bytes on from one to the next.
 * Arrays that are walked side by side would else have all addresses equal in their low 12 bits,
 * and processors, which compare these first, take a load for one of what was just stored. */
#define LARGE   (1 << 16)
#define STAGGER (17 * OL_ALIGNMENT)
#define PAGE    4096

typedef struct spare {
  struct spare *next;
} spare;

/* They are rounded up, so that few sizes occur: to multiples of STEP up to 512 bytes, then to four
 * sizes between powers of two. */
typedef struct bin {
  int index;
  size_t size;
} bin;

#define BINS 68

static bin bin_of(size_t size) {
  const size_t last = size - 1;
  const int top = 63 - __builtin_clzll(last | 1), shift = top > 8 ? top - 2 : 6;
  return (bin){ (shift - 6) * 4 + (int)(last >> shift), ((last >> shift) + 1) << shift };
}

typedef struct thread {
  bool known; /* whether it will be released when the thread ends */
  ol_memory_stats stats;
  size_t kept;    /* bytes of spares */
  size_t stagger; /* of the last large block */
  spare *spares[BINS];
} thread;

OL_THREAD_LOCAL thread mine;
static pthread_key_t threads;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Atomic int64_t live_bytes, live_blocks, total_bytes, total_blocks;
static _Atomic int64_t failing = -1;   /* allocations until the first that fails; -1: never */
static _Atomic bool failing_on;        /* whether later ones fail too */
static _Atomic size_t most = SIZE_MAX; /* bytes of one allocation */
static _Atomic bool poisons; /* whether blocks are filled with what nobody wants to read */

static bool must_fail(void) {
  if (atomic_load_explicit(&failing, memory_order_relaxed) < 0) return false;
  if (atomic_fetch_sub(&failing, 1) > 0) return false;
  atomic_store(&failing, failing_on ? 0 : -1);
  return true;
}

/* Adds a thread's counts to those of the process. */
static void report(thread *self) {
  atomic_fetch_add(&live_bytes, self->stats.live_bytes);
  atomic_fetch_add(&live_blocks, self->stats.live_blocks);
  atomic_fetch_add(&total_bytes, self->stats.total_bytes);
  atomic_fetch_add(&total_blocks, self->stats.total_blocks);
  self->stats = (ol_memory_stats){ 0 };
}

static void count(thread *self, int64_t bytes, int64_t blocks) {
  self->stats.live_bytes += bytes;
  self->stats.live_blocks += blocks;
  if (blocks > 0) {
    self->stats.total_bytes += bytes;
    self->stats.total_blocks += blocks;
  }
  if (self->stats.total_blocks * STEP > DRIFT || self->stats.total_bytes > DRIFT ||
      self->stats.live_bytes < -DRIFT)
    report(self);
}

static void drop_spares(thread *self) {
  for (int i = 0; i < BINS; i++)
    for (spare *s = self->spares[i]; s;) {
      spare *next = s->next;
      free(s);
      s = next;
    }
  memset(self->spares, 0, sizeof self->spares);
  self->kept = 0;
}

static void end_thread(void *ended) {
  thread *self = ended;
  report(self);
  drop_spares(self);
  *self = (thread){ 0 };
}

static void make_key(void) { (void)pthread_key_create(&threads, end_thread); }

/* When the library is unloaded, threads that end later must not come back here. */
__attribute__((destructor)) static void drop_key(void) {
  if (!mine.known) return;
  end_thread(&mine);
  (void)pthread_key_delete(threads);
}

static thread *this_thread(void) {
  thread *self = &mine;
  if (self->known) return self;
  (void)pthread_once(&once, make_key);
  (void)pthread_setspecific(threads, self);
  self->known = true;
  return self;
}

/* A malloc of `size` bytes, rounded up, or NULL. */
static void *take(thread *self, size_t size, bool zero) {
  if (size > HUGE) return zero ? calloc(1, size) : malloc(size);
  bin b = bin_of(size);
  spare *s = self->spares[b.index];
  if (!s) return zero ? calloc(1, b.size) : malloc(b.size);
  self->spares[b.index] = s->next;
  self->kept -= b.size;
  return zero ? memset(s, 0, size) : s;
}

/* When too much is kept it is not what is needed, and all of it goes. */
static void give(thread *self, void *base, size_t size) {
  if (!KEEPS_SPARES || size > HUGE) {
    free(base);
    return;
  }
  if (self->kept + size > KEPT) drop_spares(self);
  bin b = bin_of(size);
  spare *s = base;
  s->next = self->spares[b.index];
  self->spares[b.index] = s;
  self->kept += b.size;
}

/* Bytes of the malloc of a block. */
static size_t whole(size_t size) { return size + EXTRA + (size < LARGE ? 0 : PAGE); }

/* How far behind the first possible address it begins. */
static size_t stagger(thread *self, size_t size) {
  if (size < LARGE) return 0;
  return self->stagger = (self->stagger + STAGGER) % PAGE;
}

static void *allocate(size_t size, bool zero) {
  if (size > (size_t)PTRDIFF_MAX - EXTRA - PAGE || must_fail()) return NULL;
  if (size > atomic_load_explicit(&most, memory_order_relaxed)) return NULL;
  thread *self = this_thread();
  char *base = take(self, whole(size), zero);
  if (!base) return NULL;
  uintptr_t start = (uintptr_t)base + EXTRA + stagger(self, size);
  header *block = (header *)(start - start % OL_ALIGNMENT);
  block[-1] = (header){ .base = base, .size = size };
  ASAN_POISON_MEMORY_REGION(base, whole(size));
  ASAN_UNPOISON_MEMORY_REGION(block, size);
  count(self, (int64_t)size, 1);
  if (!zero && atomic_load_explicit(&poisons, memory_order_relaxed)) memset(block, 0xFF, size);
  return block;
}

void *ol_alloc(size_t size) { return allocate(size, false); }

void *ol_alloc_zero(size_t size) { return allocate(size, true); }

void ol_free(void *block) {
  if (!block) return;
  header *own = (header *)block - 1;
  ASAN_UNPOISON_MEMORY_REGION(own, sizeof *own);
  thread *self = this_thread();
  count(self, -(int64_t)own->size, -1);
  give(self, own->base, whole(own->size));
}

ol_status ol_alloc_for(ol_error *error, size_t size, const char *what, void **out) {
  void *block = ol_alloc(size);
  if (!block) return ol_fail(error, OL_MEMORY, "out of memory: %zu bytes for %s", size, what);
  *out = block;
  return OL_OK;
}

ol_status ol_grow(ol_error *error, void **array, size_t count, size_t more, size_t size,
                  size_t *room, const char *what) {
  size_t wider = *room < 32 ? 64 : 2 * *room, bytes;
  void *block = NULL;
  if (*room - count >= more) return OL_OK;
  if (wider - count < more) wider = count + more;
  if (wider < more || __builtin_mul_overflow(wider, size, &bytes))
    return ol_fail(error, OL_MEMORY, "out of memory: %s", what);
  OL_TRY(ol_alloc_for(error, bytes, what, &block));
  if (count) memcpy(block, *array, count * size);
  ol_free(*array);
  *array = block;
  *room = wider;
  return OL_OK;
}

ol_memory_stats ol_memory_read(void) {
  report(this_thread());
  return (ol_memory_stats){ live_bytes, live_blocks, total_bytes, total_blocks };
}

int64_t ol_memory_fail_after(int64_t allocations, bool persistent) {
  failing_on = persistent;
  return atomic_exchange(&failing, allocations < 0 ? -1 : allocations);
}

void ol_memory_poison(bool on) { poisons = on; }

void ol_memory_limit(size_t bytes) { most = bytes ? bytes : SIZE_MAX; }
