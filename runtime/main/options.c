/* options: the command line. */
#include "main/options.h"

#include <stddef.h>
#include <string.h>

#include "main/call.h"

/* Commands of the executable are added here. */
static const ol_command commands[] = {
  { "--doc", "NAME", "optlua.doc", "print", "describe an operation, a layer, an optimizer", true },
  { "test", NULL, "optlua.tools.test", "run", "run the specs of a folder: test [DIR]" },
  { "check", "FILE", "optlua.tools.check", "run",
    "look for traps in scripts, and test optimizers" },
  { "ckpt", "COMMAND", "optlua.tools.ckpt", "run",
    "look at checkpoints: ckpt show|verify|diff|convert PATH" },
  { "plot", "RUN", "optlua.tools.plot", "run",
    "draw curves of runs: plot RUN... [--of NAME] [--out FILE]" },
};

#define COMMANDS (sizeof commands / sizeof *commands)

static const ol_command *find_command(const char *word) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(word, commands[i].word) == 0) return &commands[i];
  return NULL;
}

/* -e and -l: the value is the rest of the word or else the next word, unless that is an option. */
static ol_option option_with_value(ol_option_kind kind, char **argv, int *index) {
  const char *value = argv[*index - 1] + 2;
  if (*value != '\0') return (ol_option){ kind, value };
  value = argv[*index];
  if (value == NULL || value[0] == '-') return (ol_option){ OL_OPTION_INCOMPLETE, NULL };
  ++*index;
  return (ol_option){ kind, value };
}

static ol_option_kind kind_of(const char *word) {
  static const struct {
    const char *word;
    ol_option_kind kind;
  } kinds[] = {
    { "-i", OL_OPTION_INTERACTIVE },
    { "-v", OL_OPTION_VERSION },
    { "-E", OL_OPTION_NO_ENVIRONMENT },
    { "-W", OL_OPTION_WARNINGS },
    { "--version", OL_OPTION_FACTS },
    { "--help", OL_OPTION_HELP },
    { "--", OL_OPTION_END },
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(word, kinds[i].word) == 0) return kinds[i].kind;
  if (word[1] == 'e') return OL_OPTION_EXECUTE;
  if (word[1] == 'l') return OL_OPTION_LIBRARY;
  return OL_OPTION_UNKNOWN;
}

ol_option ol_option_read(char **argv, int *index) {
  const char *word = argv[*index];
  if (word == NULL || word[0] != '-' || strcmp(word, "-") == 0 || find_command(word) != NULL)
    return (ol_option){ OL_OPTION_END, NULL };
  ++*index;
  ol_option_kind kind = kind_of(word);
  if (kind == OL_OPTION_EXECUTE || kind == OL_OPTION_LIBRARY)
    return option_with_value(kind, argv, index);
  return (ol_option){ kind, NULL };
}

/* Takes note of one option. */
static bool accept(ol_option_kind kind, ol_options *out) {
  switch (kind) {
  case OL_OPTION_EXECUTE: return out->executes = true;
  case OL_OPTION_INTERACTIVE: return out->interactive = out->version = true;
  case OL_OPTION_VERSION: return out->version = true;
  case OL_OPTION_FACTS: return out->facts = true;
  case OL_OPTION_HELP: return out->help = true;
  case OL_OPTION_NO_ENVIRONMENT: return out->no_environment = true;
  case OL_OPTION_UNKNOWN:
  case OL_OPTION_INCOMPLETE: return false;
  default: return true;
  }
}

static bool complain(const char *what, const char *word) {
  fprintf(stderr, OL_PROGRAM ": %s '%s'\n", what, word);
  ol_usage(stderr);
  return false;
}

/* A command is a command unless "--" stands before it. */
static const ol_command *command_at(char **argv, int index) {
  if (argv[index] == NULL || (index > 1 && strcmp(argv[index - 1], "--") == 0)) return NULL;
  return find_command(argv[index]);
}

bool ol_options_read(int argc, char **argv, ol_options *out) {
  *out = (ol_options){ .script = argc > 0 ? 1 : 0 };
  ol_option option;
  do {
    option = ol_option_read(argv, &out->script);
    if (!accept(option.kind, out))
      return complain(option.kind == OL_OPTION_UNKNOWN ? "unrecognized option" : "no value after",
                      argv[out->script - 1]);
  } while (option.kind != OL_OPTION_END);
  out->command = command_at(argv, out->script);
  const ol_command *command = out->command;
  if (command != NULL && command->operand != NULL && !command->optional &&
      argv[out->script + 1] == NULL)
    return complain("no operand after", out->command->word);
  return true;
}

void ol_usage(FILE *file) {
  fputs("usage: " OL_PROGRAM " [options] [script [arguments]]\n"
        "  -e CHUNK   run a string of Lua\n"
        "  -i         read from the terminal after the script\n"
        "  -l NAME    require NAME into the global NAME\n"
        "  -l G=NAME  require NAME into the global G\n"
        "  -v         show the version\n"
        "  -E         ignore the environment\n"
        "  -W         turn warnings on\n"
        "  --         end of the options\n"
        "  -          end of the options; the script is the standard input\n"
        "  --version  show what this build is made of\n"
        "  --help     show this text\n",
        file);
  for (size_t i = 0; i < COMMANDS; i++) {
    const ol_command *c = &commands[i];
    fprintf(file, "  %s %-*s %s\n", c->word, (int)(9 - strlen(c->word)),
            c->operand ? c->operand : "", c->summary);
  }
}
