/* memory: alignment, counters, failing on demand. */
#include "base/memory.h"

#include <pthread.h>

#include "check.h"

static void blocks_are_aligned(void) {
  for (size_t size = 0; size < 300; size += 7) {
    char *block = ol_alloc(size);
    CHECK(block && (uintptr_t)block % OL_ALIGNMENT == 0);
    if (block) memset(block, 0xa5, size);
    ol_free(block);
  }
  ol_free(NULL);
}

static void zeroed_blocks_are_zero(void) {
  enum { SIZE = 1 << 20 };
  unsigned char *block = ol_alloc_zero(SIZE);
  size_t zeros = 0;
  while (block && zeros < SIZE && block[zeros] == 0) zeros++;
  CHECK_EQUAL(zeros, SIZE);
  ol_free(block);
}

static void large_blocks_are_staggered(void) {
  enum { COUNT = 8, SIZE = 40 << 20, PAGE = 4096 }; /* malloc gives whole pages */
  char *block[COUNT];
  for (int i = 0; i < COUNT; i++) {
    block[i] = ol_alloc(SIZE);
    CHECK(block[i] && (uintptr_t)block[i] % OL_ALIGNMENT == 0);
    if (block[i]) memset(block[i], 0xa5, PAGE);
    for (int k = 0; k < i; k++) CHECK((uintptr_t)block[i] % PAGE != (uintptr_t)block[k] % PAGE);
  }
  for (int i = 0; i < COUNT; i++) ol_free(block[i]);
}

static void counters_follow(void) {
  ol_memory_stats before = ol_memory_read();
  void *one = ol_alloc(100), *two = ol_alloc_zero(28);
  ol_memory_stats during = ol_memory_read();
  CHECK_EQUAL(during.live_bytes - before.live_bytes, 128);
  CHECK_EQUAL(during.live_blocks - before.live_blocks, 2);
  ol_free(one);
  ol_free(two);
  ol_memory_stats after = ol_memory_read();
  CHECK_EQUAL(after.live_bytes, before.live_bytes);
  CHECK_EQUAL(after.live_blocks, before.live_blocks);
  CHECK_EQUAL(after.total_bytes - before.total_bytes, 128);
  CHECK_EQUAL(after.total_blocks - before.total_blocks, 2);
}

/* Writes which of the next four allocations succeed, as "yynn". */
static void pattern_of_four(char out[5]) {
  for (int i = 0; i < 4; i++) {
    void *block = ol_alloc(8);
    out[i] = block ? 'y' : 'n';
    ol_free(block);
  }
  out[4] = '\0';
}

static void fails_on_demand(void) {
  char pattern[5];
  ol_memory_fail_after(2, false);
  pattern_of_four(pattern);
  CHECK_STRING(pattern, "yyny");
  ol_memory_fail_after(0, false);
  pattern_of_four(pattern);
  CHECK_STRING(pattern, "nyyy");
  ol_memory_fail_after(1, true);
  pattern_of_four(pattern);
  CHECK_STRING(pattern, "ynnn");
  ol_memory_fail_after(-1, false);
  pattern_of_four(pattern);
  CHECK_STRING(pattern, "yyyy");
}

static void failures_are_reported(void) {
  ol_error error = { 0 };
  int marker;
  void *out = &marker;
  ol_memory_fail_after(0, false);
  CHECK_EQUAL(ol_alloc_for(&error, 24, "a test", &out), OL_MEMORY);
  CHECK_EQUAL(error.status, OL_MEMORY);
  CHECK_STRING(error.message, "out of memory: 24 bytes for a test");
  CHECK(out == &marker);
  CHECK_EQUAL(ol_alloc_for(&error, 24, "a test", &out), OL_OK);
  CHECK(out != &marker);
  ol_free(out);
}

static void absurd_sizes_fail(void) {
  CHECK(ol_alloc(SIZE_MAX) == NULL);
  CHECK(ol_alloc(SIZE_MAX / 2) == NULL);
  CHECK(ol_alloc_zero(SIZE_MAX - 64) == NULL);
}

static bool holds(const unsigned char *block, size_t size, unsigned char value) {
  for (size_t i = 0; i < size; i++)
    if (block[i] != value) return false;
  return true;
}

/* Recycled blocks have room for what is asked, each for itself. */
static void used_blocks_are_apart(void) {
  enum { COUNT = 80 };
  unsigned char *block[COUNT];
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < COUNT; i++) {
      block[i] = ol_alloc((size_t)(i * i * 11 + round));
      CHECK(block[i] && (uintptr_t)block[i] % OL_ALIGNMENT == 0);
      if (block[i]) memset(block[i], i, (size_t)(i * i * 11 + round));
    }
    for (int i = 0; i < COUNT; i++) {
      CHECK(block[i] && holds(block[i], (size_t)(i * i * 11 + round), (unsigned char)i));
      ol_free(block[i]);
    }
  }
}

/* Recycled blocks too. */
static void used_blocks_come_back_zeroed(void) {
  for (size_t size = 1; size <= 70000; size += size / 9 + 37) {
    unsigned char *block = ol_alloc(size);
    if (block) memset(block, 0xff, size);
    ol_free(block);
    block = ol_alloc_zero(size);
    size_t zeros = 0;
    while (block && zeros < size && block[zeros] == 0) zeros++;
    CHECK_EQUAL(zeros, size);
    ol_free(block);
  }
}

/* No two live blocks share memory, whatever was freed before. */
static void recycled_blocks_are_apart(void) {
  enum { COUNT = 1000 };
  static unsigned char *block[COUNT];
  bool whole = true;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) {
      block[i] = ol_alloc((size_t)(i * 7 % 1100));
      if (block[i]) memset(block[i], i & 0xff, (size_t)(i * 7 % 1100));
    }
    for (int i = 0; i < COUNT; i++)
      for (int k = 0; block[i] && k < i * 7 % 1100; k++) whole &= block[i][k] == (i & 0xff);
    for (int i = 0; i < COUNT; i++) ol_free(block[(i * 3 + round) % COUNT]);
  }
  CHECK(whole);
}

static void *allocate_elsewhere(void *unused) {
  void *kept = ol_alloc(64);
  for (int i = 0; i < 100; i++) ol_free(ol_alloc(200));
  (void)unused;
  return kept;
}

static void threads_are_counted(void) {
  ol_memory_stats before = ol_memory_read();
  pthread_t thread;
  void *kept = NULL;
  CHECK_EQUAL(pthread_create(&thread, NULL, allocate_elsewhere, NULL), 0);
  pthread_join(thread, &kept);
  ol_memory_stats after = ol_memory_read();
  CHECK_EQUAL(after.live_bytes - before.live_bytes, 64);
  CHECK_EQUAL(after.live_blocks - before.live_blocks, 1);
  CHECK_EQUAL(after.total_blocks - before.total_blocks, 101);
  ol_free(kept);
  CHECK_EQUAL(ol_memory_read().live_bytes, before.live_bytes);
}

/* Of AddressSanitizer, with either compiler; absent (NULL) without it. */
extern int __asan_address_is_poisoned(const volatile void *address) __attribute__((weak));

static void the_sanitizer_sees_freed_blocks(void) {
  char *block = ol_alloc(64);
  ol_free(block);
  if (__asan_address_is_poisoned) CHECK(__asan_address_is_poisoned(block));
}

static void arrays_grow(void) {
  ol_error error;
  int *list = NULL;
  size_t room = 0, size = 0;
  for (int k = 0; k < 1000; k++) {
    CHECK_EQUAL(OL_GROW(&error, &list, size, 1, &room, "a list"), OL_OK);
    list[size++] = k;
  }
  CHECK(room >= 1000 && room < 4000);
  CHECK(list[0] == 0 && list[999] == 999);
  const int *before = list;
  CHECK_EQUAL(OL_GROW(&error, &list, size, SIZE_MAX / 2, &room, "a list"), OL_MEMORY);
  CHECK_EQUAL(OL_GROW(&error, &list, size, SIZE_MAX - 10, &room, "a list"), OL_MEMORY);
  CHECK(list == before);
  ol_free(list);
}

static void poison_shows(void) {
  ol_memory_poison(true);
  float *numbers = ol_alloc(2 * sizeof *numbers), *zeros = ol_alloc_zero(sizeof *zeros);
  CHECK(numbers[0] != numbers[0] && numbers[1] != numbers[1] && zeros[0] == 0);
  ol_memory_poison(false);
  ol_free(numbers);
  ol_free(zeros);
}

int main(void) {
  arrays_grow();
  poison_shows();
  blocks_are_aligned();
  zeroed_blocks_are_zero();
  large_blocks_are_staggered();
  counters_follow();
  fails_on_demand();
  failures_are_reported();
  absurd_sizes_fail();
  used_blocks_are_apart();
  used_blocks_come_back_zeroed();
  recycled_blocks_are_apart();
  threads_are_counted();
  the_sanitizer_sees_freed_blocks();
  return check_summary();
}
