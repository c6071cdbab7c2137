/* options: the command line. */
#ifndef OL_MAIN_OPTIONS_H
#define OL_MAIN_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

/* A word that takes the script's place and runs a function of the Lua library on what follows. */
typedef struct ol_command {
  const char *word;
  const char *operand; /* what must follow it, or NULL */
  const char *module, *function;
  const char *summary;
  bool optional; /* whether the operand may be left out */
} ol_command;

/* What comes before the script. */
typedef enum ol_option_kind {
  OL_OPTION_END, /* no option is left */
  OL_OPTION_EXECUTE,
  OL_OPTION_INTERACTIVE,
  OL_OPTION_LIBRARY,
  OL_OPTION_VERSION,
  OL_OPTION_NO_ENVIRONMENT,
  OL_OPTION_WARNINGS,
  OL_OPTION_FACTS, /* --version */
  OL_OPTION_HELP,
  OL_OPTION_UNKNOWN,
  OL_OPTION_INCOMPLETE, /* its value is missing */
} ol_option_kind;

typedef struct ol_option {
  ol_option_kind kind;
  const char *value; /* of -e and -l */
} ol_option;

/* Reads the option at argv[*index] and moves *index past it; at the end, to the script. */
ol_option ol_option_read(char **argv, int *index);

/* The command line as a whole. */
typedef struct ol_options {
  int script; /* index in argv of the script, "-" or a command; argc if there is none */
  bool interactive, version, facts, help;
  bool no_environment, executes;
  const ol_command *command; /* NULL: argv[script] is a script */
} ol_options;

/* Reads all options; false after a complaint on stderr about the one that is wrong. */
bool ol_options_read(int argc, char **argv, ol_options *out);

/* Writes how optlua is used. */
void ol_usage(FILE *file);

#endif
