/* status: messages, prefixes and where they are cut. */
#include "base/status.h"

#include "check.h"

static ol_status fails(ol_error *error) { return ol_fail(error, OL_SHAPE, "size %d", 3); }

static ol_status passes_on(ol_error *error, int *reached) {
  OL_TRY(fails(error));
  *reached = 1;
  return OL_OK;
}

static void messages_are_formatted(void) {
  ol_error error;
  int reached = 0;
  CHECK_EQUAL(passes_on(&error, &reached), OL_SHAPE);
  CHECK_EQUAL(error.status, OL_SHAPE);
  CHECK_EQUAL(reached, 0);
  CHECK_STRING(error.message, "size 3");
  CHECK_EQUAL(ol_fail_in(&error, "add"), OL_SHAPE);
  CHECK_STRING(error.message, "add: size 3");
}

static void long_messages_are_cut(void) {
  static char text[2 * OL_ERROR_SIZE];
  memset(text, 'x', sizeof text - 1);
  ol_error error;
  ol_fail(&error, OL_FILE, "%s", text);
  CHECK_EQUAL(strlen(error.message), OL_ERROR_SIZE - 1);
  ol_fail_in(&error, "read");
  CHECK_EQUAL(strlen(error.message), OL_ERROR_SIZE - 1);
  CHECK(strncmp(error.message, "read: xxx", 9) == 0);
  ol_fail_in(&error, text);
  CHECK_EQUAL(strlen(error.message), OL_ERROR_SIZE - 1);
}

int main(void) {
  messages_are_formatted();
  long_messages_are_cut();
  return check_summary();
}
