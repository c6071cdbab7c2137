/* heap: malloc, behind lists of small blocks. */
#include "main/heap.h"

#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
enum { KEPT_MOST = 0 }; /* late touches are to be seen */
#else
enum { KEPT_MOST = 1 << 15 };
#endif

enum { STEP = 8, LISTS = 32 };

typedef struct spare {
  struct spare *next;
} spare;

static spare *lists[LISTS]; /* blocks of 8, 16, … 256 bytes */
static int kept;            /* blocks in all of them */

/* The list of blocks of exactly this size, or NULL. */
static spare **list_of(size_t size) {
  return size > 0 && size <= STEP * LISTS && size % STEP == 0 ? &lists[size / STEP - 1] : NULL;
}

static void *take(size_t size) {
  spare **list = list_of(size);
  if (!list || !*list) return malloc(size);
  spare *block = *list;
  *list = block->next;
  __builtin_prefetch(*list, 1); /* the next to be taken: it was left long ago */
  kept--;
  return block;
}

static void give(void *block, size_t size) {
  spare **list = list_of(size), *own = block;
  if (!list || kept == KEPT_MOST) {
    free(block);
    return;
  }
  own->next = *list;
  *list = own;
  kept++;
}

/* A lua_Alloc. Every block is a malloc, so that blocks of the state's first allocator fit in. */
static void *resize(void *context, void *block, size_t old_size, size_t size) {
  (void)context;
  if (block && size > 0) return realloc(block, size);
  if (size > 0) return take(size);
  if (block) give(block, old_size);
  return NULL;
}

void ol_heap_open(lua_State *L) { lua_setallocf(L, resize, NULL); }
