/* editor: reads lines from the user, with editing and history when there is a terminal. */
#ifndef OL_MAIN_EDITOR_H
#define OL_MAIN_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include <lua.h>

typedef enum ol_line {
  OL_LINE_READ,
  OL_LINE_CANCELLED, /* by SIGINT */
  OL_LINE_END,       /* of the input */
} ol_line;

/* Opens the one editor of the process on stdin and stdout. Names are completed from L. With
 * `environment`, the history file and ~/.editrc are used. */
void ol_editor_open(lua_State *L, bool environment);

/* Shows the prompt and reads a line without its newline into *text, *length; the text is valid
 * until the next call. */
ol_line ol_editor_read(const char *prompt, const char **text, size_t *length);

void ol_editor_close(void);

#endif
