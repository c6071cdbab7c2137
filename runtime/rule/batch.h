/* batch: runs that go through their levels together. */
#ifndef OL_RULE_BATCH_H
#define OL_RULE_BATCH_H

#include "rule/machine.h"

/* Memory that grows and stays. */
typedef struct ol_block {
  void *data;
  size_t size;
} ol_block;

ol_status ol_block_reserve(ol_error *error, ol_block *block, size_t size);

/* What one batch at a time works with. */
typedef struct ol_workspace {
  ol_block items, chunks;   /* pieces of a level's passes, and groups of them */
  ol_block partials;        /* what pieces reduce */
  ol_block arrays, buffers; /* of runs that have buffers */
  int64_t item_count, chunk_count;
} ol_workspace;

typedef struct ol_batch {
  const ol_run *runs;
  const int64_t *order; /* the batch is runs[order[begin]] … */
  int64_t begin, end;
  double **numbers;     /* of every run: arguments, then room for what is computed */
  void *const **arrays; /* of every run: operands, then buffers; filled when the batch runs */
  char *scratch;        /* scratch_size bytes for each of so many threads */
  size_t scratch_size;
  int threads;
  int64_t grain; /* elements of a piece, where results do not depend on it */
  bool far;      /* arrays come from memory and not from a cache */
} ol_batch;

/* Runs order[begin] … order[end-1] of a batch. */
ol_batch ol_batch_part(const ol_batch *batch, int64_t begin, int64_t end);

/* Makes a workspace large enough for the batch. */
ol_status ol_workspace_reserve(ol_error *error, ol_workspace *space, const ol_batch *batch);

void ol_workspace_clear(ol_workspace *space);

/* Executes a batch in a workspace that is large enough: level by level, each on all threads, or on
 * the one that calls if it works inside a parallel loop. */
void ol_batch_run(const ol_batch *batch, ol_workspace *space);

#endif
