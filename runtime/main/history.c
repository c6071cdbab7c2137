/* history: what was entered, in this session and, through a file, in earlier ones. */
#include "main/history.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HISTORY_SIZE 1000 /* entries */

static History *entries;         /* NULL: closed */
static char file_name[PATH_MAX]; /* "": none */

/* The history file is text: one entry after the other, the second and later lines of each behind a
 * tabulator. */
static void write_entry(FILE *file, const char *entry) {
  for (; *entry != '\0'; entry++) {
    putc(*entry, file);
    if (*entry == '\n') putc('\t', file);
  }
  putc('\n', file);
}

/* Opens a file that only its owner can read, to append to it; NULL if that cannot be. */
static FILE *open_private(const char *name) {
  int descriptor = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  FILE *file = descriptor >= 0 ? fdopen(descriptor, "a") : NULL;
  if (descriptor >= 0 && file == NULL) close(descriptor);
  return file;
}

/* Enters what stands in the text of a history file, which is overwritten. Returns how many. */
static int enter_entries(char *text) {
  HistEvent event;
  int count = 0;
  char *entry = text, *end = text;
  for (const char *at = text; *at != '\0'; at++) {
    *end++ = *at;
    if (*at == '\n' && at[1] == '\t')
      at++;
    else if (*at == '\n') {
      end[-1] = '\0';
      history(entries, &event, H_ENTER, entry);
      entry = end;
      count++;
    }
  }
  return count;
}

/* Replaces a file that has grown too long by the entries that are kept. */
static void shorten_file(void) {
  HistEvent event;
  char name[sizeof file_name + 1];
  snprintf(name, sizeof name, "%s~", file_name);
  FILE *file = open_private(name);
  if (file == NULL) return;
  int found = history(entries, &event, H_LAST);
  for (; found >= 0; found = history(entries, &event, H_PREV)) write_entry(file, event.str);
  bool failed = ferror(file);
  if (fclose(file) == 0 && !failed) rename(name, file_name);
}

/* $OPTLUA_HISTORY, or else ~/.optlua_history; "" if there is no such place. */
static void find_file(void) {
  const char *file = getenv("OPTLUA_HISTORY"), *home = getenv("HOME");
  int length = 0;
  if (file != NULL)
    length = snprintf(file_name, sizeof file_name, "%s", file);
  else if (home != NULL)
    length = snprintf(file_name, sizeof file_name, "%s/.optlua_history", home);
  if (length >= (int)sizeof file_name) file_name[0] = '\0';
}

static void load_file(void) {
  char *text = NULL;
  size_t size = 0;
  find_file();
  FILE *file = fopen(file_name, "re");
  if (file == NULL) return;
  if (getdelim(&text, &size, '\0', file) > 0 && enter_entries(text) > 2 * HISTORY_SIZE)
    shorten_file();
  free(text);
  fclose(file);
}

void ol_history_add(const char *entry) {
  HistEvent event;
  entry += strspn(entry, " \t\n");
  if (entries == NULL || *entry == '\0') return;
  if (history(entries, &event, H_FIRST) >= 0 && strcmp(event.str, entry) == 0) return;
  history(entries, &event, H_ENTER, entry);
  FILE *file = file_name[0] != '\0' ? open_private(file_name) : NULL;
  if (file == NULL) return;
  write_entry(file, entry);
  fclose(file);
}

History *ol_history_open(bool with_file) {
  HistEvent event;
  entries = history_init();
  if (entries == NULL) return NULL;
  history(entries, &event, H_SETSIZE, HISTORY_SIZE);
  if (with_file) load_file();
  return entries;
}

void ol_history_close(void) {
  if (entries != NULL) history_end(entries);
  entries = NULL;
  file_name[0] = '\0';
}
