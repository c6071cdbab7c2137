/* folder: opendir and fstatat. */
#include "io/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"

void ol_folder_drop(ol_folder *folder) {
  for (size_t i = 0; i < folder->count; i++) ol_free((void *)folder->entry[i].name);
  ol_free(folder->entry);
  *folder = (ol_folder){ 0 };
}

static ol_status add(ol_error *error, DIR *stream, const char *name, ol_folder *folder) {
  struct stat status = { 0 }, link = { 0 };
  size_t size = strlen(name) + 1;
  void *copy;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return OL_OK;
  OL_TRY(OL_GROW(error, &folder->entry, folder->count, 1, &folder->room, "a folder"));
  OL_TRY(ol_alloc_for(error, size, "a file's name", &copy));
  memcpy(copy, name, size);
  (void)fstatat(dirfd(stream), name, &status, 0); /* a link to nowhere is neither */
  (void)fstatat(dirfd(stream), name, &link, AT_SYMLINK_NOFOLLOW);
  folder->entry[folder->count++] = (ol_folder_entry){ .name = copy,
                                                      .is_file = S_ISREG(status.st_mode),
                                                      .is_folder = S_ISDIR(status.st_mode),
                                                      .is_link = S_ISLNK(link.st_mode) };
  return OL_OK;
}

static ol_status read_all(ol_error *error, const char *path, DIR *stream, ol_folder *folder) {
  for (;;) {
    errno = 0;
    struct dirent *found = readdir(stream);
    if (!found && errno)
      return ol_fail(error, OL_FILE, "%s: cannot be listed: %s", path, strerror(errno));
    if (!found) return OL_OK;
    OL_TRY(add(error, stream, found->d_name, folder));
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ol_folder_entry *)a)->name, ((const ol_folder_entry *)b)->name);
}

ol_status ol_folder_read(ol_error *error, const char *path, ol_folder *out) {
  ol_folder folder = { 0 };
  DIR *stream = opendir(path);
  if (!stream) return ol_fail(error, OL_FILE, "%s: cannot be listed: %s", path, strerror(errno));
  ol_status status = read_all(error, path, stream, &folder);
  closedir(stream);
  if (status != OL_OK) {
    ol_folder_drop(&folder);
    return status;
  }
  if (folder.count > 1) qsort(folder.entry, folder.count, sizeof *folder.entry, by_name);
  *out = folder;
  return OL_OK;
}
