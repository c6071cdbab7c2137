/* check: what a C test needs. A failed check says where and what and the test goes on; main ends
 * with `return check_summary();`, which prints "N passed, N failed" as tests/run.lua wants it. */
#ifndef OL_TESTS_CHECK_H
#define OL_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int64_t check_passed, check_failed;

static inline bool check_count(bool passed, const char *file, int line, const char *what) {
  passed ? check_passed++ : check_failed++;
  if (!passed) printf("FAILED: %s:%d: %s\n", file, line, what);
  return passed;
}

static inline void check_equal(int64_t got, int64_t want, const char *file, int line,
                               const char *what) {
  if (!check_count(got == want, file, line, what))
    printf("  got %lld, want %lld\n", (long long)got, (long long)want);
}

static inline void check_string(const char *got, const char *want, const char *file, int line,
                                const char *what) {
  if (!check_count(got && strcmp(got, want) == 0, file, line, what))
    printf("  got \"%s\"\n  want \"%s\"\n", got ? got : "(null)", want);
}

static inline void check_near(double got, double want, double tolerance, const char *file, int line,
                              const char *what) {
  double distance = got > want ? got - want : want - got;
  if (!check_count(distance <= tolerance, file, line, what))
    printf("  got %.17g, want %.17g +- %.3g\n", got, want, tolerance);
}

/* Counts whether a condition holds; its value is the condition's. */
#define CHECK(condition) check_count((condition), __FILE__, __LINE__, #condition)

/* Counts whether two integers, two strings, or two numbers (to a tolerance; never NaN) agree. */
#define CHECK_EQUAL(got, want)  check_equal((got), (want), __FILE__, __LINE__, #got " == " #want)
#define CHECK_STRING(got, want) check_string((got), (want), __FILE__, __LINE__, #got " is " #want)
#define CHECK_NEAR(got, want, tolerance)                                                           \
  check_near((got), (want), (tolerance), __FILE__, __LINE__, #got " near " #want)

/* Prints the counts and returns the status for main. Running no check is a failure. */
static inline int check_summary(void) {
  if (check_passed + check_failed == 0) CHECK(!"the test makes no check");
  printf("%lld passed, %lld failed\n", (long long)check_passed, (long long)check_failed);
  return check_failed > 0;
}

#endif
