/* parallel: every item once, in ranges that begin at multiples of the grain. */
#include "base/parallel.h"

#include "check.h"

enum { ITEMS = 100003, GRAIN = 1000 };

typedef void loop(int64_t count, int64_t grain, ol_range_fn *fn, void *context);

static loop *const loops[] = { ol_parallel_for, ol_parallel_take };

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

static void covers_all_items(loop *each, int threads) {
  ol_set_threads(threads);
  memset(visits, 0, sizeof visits);
  each(ITEMS, GRAIN, visit, NULL);
  int64_t once = 0;
  for (int64_t i = 0; i < ITEMS; i++) once += visits[i] == 1;
  CHECK_EQUAL(once, ITEMS);
  CHECK_EQUAL(crooked, 0);
}

/* A grain of any size keeps the loop in one piece. */
static void covers_items_whatever_the_grain(loop *each) {
  memset(visits, 0, sizeof visits);
  each(ITEMS, INT64_MAX, visit, NULL);
  CHECK_EQUAL(visits[0], 1);
  CHECK_EQUAL(visits[ITEMS - 1], 1);
}

static void all_of_it(loop *each) {
  for (int threads = 1; threads <= 4; threads++) covers_all_items(each, threads);
  covers_items_whatever_the_grain(each);
  ol_set_threads(3);
  CHECK(ol_threads() == 3 || ol_threads() == 1); /* 1 without OpenMP */
  CHECK(!ol_in_parallel());
  each(100, 10, nested, NULL);
  CHECK_EQUAL(inside, 0);
  each(0, 10, nested, NULL);
  each(-1, 10, nested, NULL);
}

int main(void) {
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) all_of_it(loops[i]);
  return check_summary();
}
