/* parallel: every item once, in ranges that begin at multiples of the grain. */
#include "base/parallel.h"

#include "check.h"

enum { ITEMS = 100003, GRAIN = 1000 };

static unsigned char visits[ITEMS];
static int64_t crooked; /* ranges that do not begin at a multiple of the grain */
static int inside;      /* whether a loop inside a loop was cut */

static void visit(int64_t begin, int64_t end, void *context) {
  (void)context;
  if (begin % GRAIN != 0) crooked++;
  for (int64_t i = begin; i < end; i++) visits[i]++;
}

static void whole(int64_t begin, int64_t end, void *context) {
  if (begin != 0 || end != *(int64_t *)context) inside = 1;
}

static void nested(int64_t begin, int64_t end, void *context) {
  (void)context;
  int64_t count = 10 * (end - begin);
  if (ol_in_parallel()) ol_parallel_for(count, 1, whole, &count);
}

static void covers_all_items(int threads) {
  ol_set_threads(threads);
  memset(visits, 0, sizeof visits);
  ol_parallel_for(ITEMS, GRAIN, visit, NULL);
  int64_t once = 0;
  for (int64_t i = 0; i < ITEMS; i++) once += visits[i] == 1;
  CHECK_EQUAL(once, ITEMS);
  CHECK_EQUAL(crooked, 0);
}

/* A grain of any size keeps the loop in one piece. */
static void covers_items_whatever_the_grain(void) {
  memset(visits, 0, sizeof visits);
  ol_parallel_for(ITEMS, INT64_MAX, visit, NULL);
  CHECK_EQUAL(visits[0], 1);
  CHECK_EQUAL(visits[ITEMS - 1], 1);
}

int main(void) {
  for (int threads = 1; threads <= 4; threads++) covers_all_items(threads);
  covers_items_whatever_the_grain();
  ol_set_threads(3);
  CHECK(ol_threads() == 3 || ol_threads() == 1); /* 1 without OpenMP */
  CHECK(!ol_in_parallel());
  ol_parallel_for(100, 10, nested, NULL);
  CHECK_EQUAL(inside, 0);
  ol_parallel_for(0, 10, nested, NULL);
  ol_parallel_for(-1, 10, nested, NULL);
  return check_summary();
}
