/* folder: what lies in a folder. */
#ifndef OL_IO_FOLDER_H
#define OL_IO_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct ol_folder_entry {
  const char *name;
  bool is_file, is_folder; /* links followed */
  bool is_link;
} ol_folder_entry;

typedef struct ol_folder {
  ol_folder_entry *entry; /* in the order of the bytes of their names, without . and .. */
  size_t count, room;
} ol_folder;

/* Lists a folder. Errors (OL_FILE) name the path and the reason. */
ol_status ol_folder_read(ol_error *error, const char *path, ol_folder *out);

void ol_folder_drop(ol_folder *folder);

#endif
