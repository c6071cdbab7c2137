/* executable: machine code that a program makes for itself. */
#ifndef OL_BASE_EXECUTABLE_H
#define OL_BASE_EXECUTABLE_H

#include <stddef.h>

/* Copies code to pages of its own that can be executed and not be written any more. NULL where the
 * system refuses that: nothing that works without may depend on it. */
void *ol_executable_new(const void *code, size_t size);

/* Gives the pages back; size: as it was made with. NULL is allowed. */
void ol_executable_free(void *code, size_t size);

#endif
