/* crash_test: kills programs that save, at random moments: nothing that was saved is lost.
 *
 *   crash_test [KILLS]
 *
 * Only kills that hit a save are counted. Each program goes on from what its predecessor left and
 * says so; see tests/saver.lua. The seed of the moments is printed, and read from CRASH_SEED. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST    100    /* optimizers; each has a folder of its own */
#define LONGEST 250000 /* microseconds until a kill */

typedef struct outcome {
  bool whole;     /* it found everything in order */
  bool in_a_save; /* it was killed during one */
  long done;      /* the last save that ended, or 0 */
  char words[64]; /* what it said last */
} outcome;

static uint64_t state;

static uint64_t random_below(uint64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % n;
}

static const char *program(void) {
  const char *name = getenv("OPTLUA");
  return name ? name : "build/optlua";
}

/* How many optimizers the registry has. */
static int count_optimizers(void) {
  char command[512];
  int count = 0;
  snprintf(command, sizeof command, "%s -e 'print(#require(\"optlua\").optim.list())'", program());
  FILE *pipe = popen(command, "r");
  if (pipe && fscanf(pipe, "%d", &count) != 1) count = 0;
  if (pipe) pclose(pipe);
  return count < MOST ? count : MOST;
}

static pid_t start(const char *folder, int number, long last, int *said) {
  char digits[2][24];
  int ends[2];
  snprintf(digits[0], sizeof digits[0], "%d", number);
  snprintf(digits[1], sizeof digits[1], "%ld", last);
  if (pipe(ends) != 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    setenv("OMP_NUM_THREADS", "1", 1);
    execl(program(), program(), "tests/saver.lua", folder, digits[0], digits[1], (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  *said = ends[0];
  return child;
}

/* Reads a line that it says. */
static void hear(const char *line, outcome *out) {
  long step;
  snprintf(out->words, sizeof out->words, "%s", line);
  if (strncmp(line, "whole", 5) == 0) out->whole = true;
  if (strncmp(line, "begin", 5) == 0) out->in_a_save = true;
  if (sscanf(line, "done %ld", &step) == 1) {
    out->in_a_save = false;
    out->done = step;
  }
}

/* Lets one run, and kills it at some moment after it has found all in order. */
static outcome run_and_kill(const char *folder, int number, long last) {
  char line[64];
  int said = -1, status = 0;
  outcome out = { .done = last };
  pid_t child = start(folder, number, last, &said);
  if (child < 0) return out;
  FILE *stream = fdopen(said, "r");
  if (stream && fgets(line, sizeof line, stream)) {
    hear(line, &out);
    usleep((useconds_t)random_below(LONGEST));
  }
  kill(child, SIGKILL);
  while (stream && fgets(line, sizeof line, stream)) hear(line, &out);
  if (stream) fclose(stream);
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) out.whole = false; /* it ended by itself: it said why */
  return out;
}

int main(int argc, char **argv) {
  long wanted = argc > 1 ? atol(argv[1]) : 20, hits = 0, kills = 0, lost = 0;
  long last[MOST] = { 0 }, saves = 0;
  int optimizers = count_optimizers();
  const char *seed = getenv("CRASH_SEED");
  char root[] = "/tmp/optlua-crash-XXXXXX", folder[64], command[64];
  state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
  printf("CRASH_SEED=%llu\n", (unsigned long long)state);
  if (!CHECK(optimizers > 0) || !CHECK(mkdtemp(root))) return check_summary();
  for (; hits < wanted && kills < 10 * wanted + 20 && lost < 5; kills++) {
    int number = (int)(kills % optimizers);
    snprintf(folder, sizeof folder, "%s/%d", root, number);
    outcome out = run_and_kill(folder, number, last[number]);
    if (!CHECK(out.whole)) {
      printf("  optimizer %d, kill %ld: last word \"%s\"\n", number, kills, out.words);
      lost++;
    }
    saves += out.done - last[number];
    hits += out.in_a_save;
    last[number] = out.done;
  }
  /* What the last kills left. */
  for (int number = 0; number < optimizers && number < kills; number++) {
    snprintf(folder, sizeof folder, "%s/%d", root, number);
    if (!CHECK(run_and_kill(folder, number, last[number]).whole)) lost++;
  }
  printf("%ld kills, %ld of them during a save, %ld saves that ended, %d optimizers: %ld lost\n",
         kills, hits, saves, optimizers, lost);
  CHECK(hits >= wanted);
  snprintf(command, sizeof command, "rm -rf %s", root);
  CHECK_EQUAL(lost ? 0 : system(command), 0);
  return check_summary();
}
