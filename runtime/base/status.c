/* status: formats error messages. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ol_status ol_fail(ol_error *error, ol_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error->status = status;
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return status;
}

ol_status ol_fail_in(ol_error *error, const char *prefix) {
  char message[OL_ERROR_SIZE];
  memcpy(message, error->message, sizeof message);
  size_t used = (size_t)snprintf(error->message, sizeof error->message, "%s: ", prefix);
  if (used < sizeof error->message)
    snprintf(error->message + used, sizeof error->message - used, "%s", message);
  return error->status;
}
