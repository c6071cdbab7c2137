/* history: what was entered, in this session and, through a file, in earlier ones. */
#ifndef OL_MAIN_HISTORY_H
#define OL_MAIN_HISTORY_H

#include <histedit.h>
#include <stdbool.h>

/* Opens the one history of the process, for libedit; with_file, it begins with what the file
 * $OPTLUA_HISTORY, or else ~/.optlua_history, holds. A file that cannot be read or written is done
 * without. NULL if memory is short. */
History *ol_history_open(bool with_file);

/* Adds an entry of one line or several, and appends it to the file at once, so that sessions
 * neither overwrite each other nor lose entries. Blank entries, and the last one over again, are
 * left out. */
void ol_history_add(const char *entry);

void ol_history_close(void);

#endif
