/* editor: reads lines from the user, with editing and history when there is a terminal. */
#include "main/editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>

#include "main/complete.h"
#include "main/history.h"
#include "main/signals.h"

#define LIST_LIMIT 200 /* completions shown at once */

static struct {
  EditLine *line;  /* NULL: there is no terminal */
  locale_t locale; /* how typed characters are read; Lua's own locale stays "C" */
  lua_State *L;
  const char *prompt;
  char *plain; /* the buffer of getline */
  size_t plain_size;
} editor;

static const char *show_prompt(EditLine *line) {
  (void)line;
  return editor.prompt;
}

/* ---- Completion ---- */

/* The length of what all names of the sorted list on top have in common. */
static size_t common_length(lua_State *L, lua_Integer count) {
  lua_rawgeti(L, -1, 1);
  lua_rawgeti(L, -2, count);
  const char *first = lua_tostring(L, -2), *last = lua_tostring(L, -1);
  size_t length = 0;
  while (first[length] != '\0' && first[length] == last[length]) length++;
  lua_pop(L, 2);
  return length;
}

/* Shows the list on top in columns. */
static void show_list(lua_State *L, lua_Integer count) {
  int columns = 80, width = 0;
  el_get(editor.line, EL_GETTC, "co", &columns);
  for (lua_Integer i = 1; i <= count; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i);
    int length = (int)lua_rawlen(L, -1) + 2;
    if (length > width) width = length;
  }
  int across = columns > width ? columns / width : 1;
  for (lua_Integer i = 1; i <= count; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i);
    printf("%s%-*s", (i - 1) % across == 0 ? "\n" : "", width, lua_tostring(L, -1));
  }
  putchar('\n');
}

/* With the list on top: inserts what is certain, or else shows what is possible. */
static int offer(lua_State *L, size_t word_length) {
  lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
  if (count == 0) return CC_REFRESH_BEEP;
  size_t common = common_length(L, count);
  if (common > word_length) {
    lua_rawgeti(L, -1, 1);
    lua_pushlstring(L, lua_tostring(L, -1) + word_length, common - word_length);
    el_insertstr(editor.line, lua_tostring(L, -1));
    return CC_REFRESH;
  }
  if (count == 1) return CC_REFRESH;
  if (count <= LIST_LIMIT)
    show_list(L, count);
  else
    printf("\n%d names\n", (int)count);
  return CC_REDISPLAY;
}

/* Completes the text up to the cursor; at the beginning of a line, indents. */
static int complete_line(lua_State *L) {
  const LineInfo *info = lua_touserdata(L, 1);
  size_t length = (size_t)(info->cursor - info->buffer), blanks = 0;
  while (blanks < length && info->buffer[blanks] == ' ') blanks++;
  int code = CC_REFRESH;
  if (blanks == length)
    el_insertstr(editor.line, "  ");
  else
    code = offer(L, ol_complete(L, info->buffer, length));
  lua_pushinteger(L, code);
  return 1;
}

/* The function of the tabulator key. Errors of the user's __index functions end here, in a beep. */
static unsigned char complete(EditLine *line, int key) {
  (void)key;
  lua_State *L = editor.L;
  if (!lua_checkstack(L, LUA_MINSTACK)) return CC_ERROR;
  lua_pushcfunction(L, complete_line);
  lua_pushlightuserdata(L, (void *)el_line(line));
  ol_interrupts before = ol_interrupts_begin(L);
  int status = lua_pcall(L, 1, 1, 0);
  ol_interrupts_end(before);
  int code = status == LUA_OK ? (int)lua_tointeger(L, -1) : CC_REFRESH_BEEP;
  lua_pop(L, 1);
  return (unsigned char)code;
}

/* ---- Lines ---- */

/* The user's character set; where the environment names none, that of today's terminals. */
static locale_t open_locale(void) {
  locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
  bool is_ascii = locale == 0 || strcmp(nl_langinfo_l(CODESET, locale), "ANSI_X3.4-1968") == 0;
  if (!is_ascii) return locale;
  if (locale != 0) freelocale(locale);
  return newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static bool has_terminal(void) {
  const char *type = getenv("TERM");
  return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && type != NULL && type[0] != '\0' &&
         strcmp(type, "dumb") != 0;
}

void ol_editor_open(lua_State *L, bool environment) {
  editor.L = L;
  if (!has_terminal()) return;
  editor.locale = open_locale();
  locale_t before = uselocale(editor.locale);
  editor.line = el_init("optlua", stdin, stdout, stderr);
  History *entries = ol_history_open(environment);
  if (editor.line == NULL || entries == NULL) {
    uselocale(before);
    ol_editor_close();
    return;
  }
  el_set(editor.line, EL_PROMPT_ESC, show_prompt, '\1');
  el_set(editor.line, EL_EDITOR, "emacs");
  el_set(editor.line, EL_SIGNAL, 1);
  el_set(editor.line, EL_HIST, history, entries);
  el_wset(editor.line, EL_ADDFN, L"complete", L"Complete the name", complete); // el_set leaks
  el_set(editor.line, EL_BIND, "^I", "complete", NULL);
  if (environment) el_source(editor.line, NULL);
  uselocale(before);
}

static ol_line read_edited(const char **text, size_t *length) {
  int count = 0;
  locale_t before = uselocale(editor.locale);
  el_set(editor.line, EL_PREP_TERM, 1); // before the prompt: whoever sees it can type
  errno = 0;
  *text = el_gets(editor.line, &count);
  int failure = errno;
  uselocale(before);
  if (*text != NULL && count > 0) {
    *length = (size_t)count - ((*text)[count - 1] == '\n');
    return OL_LINE_READ;
  }
  if (count >= 0 || (failure != EINTR && failure != EILSEQ)) return OL_LINE_END;
  putchar('\n');
  return OL_LINE_CANCELLED;
}

static ol_line read_plain(const char **text, size_t *length) {
  fputs(editor.prompt, stdout);
  fflush(stdout);
  ssize_t count = getline(&editor.plain, &editor.plain_size, stdin);
  if (count > 0) {
    *text = editor.plain;
    *length = (size_t)count - (editor.plain[count - 1] == '\n');
    return OL_LINE_READ;
  }
  if (errno != EINTR || feof(stdin)) return OL_LINE_END;
  clearerr(stdin);
  putchar('\n');
  return OL_LINE_CANCELLED;
}

ol_line ol_editor_read(const char *prompt, const char **text, size_t *length) {
  editor.prompt = prompt;
  ol_interrupts before = ol_interrupts_wait();
  ol_line line = editor.line != NULL ? read_edited(text, length) : read_plain(text, length);
  ol_interrupts_end(before);
  return line;
}

void ol_editor_close(void) {
  if (editor.line != NULL) el_end(editor.line);
  ol_history_close();
  if (editor.locale != 0) freelocale(editor.locale);
  free(editor.plain);
  memset(&editor, 0, sizeof editor);
}
