/* machine: prepares the runs of a step, and commits them batch by batch. */
#include "rule/machine.h"

#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "rule/batch.h"
#include "rule/kernel.h"

/* Runs are ordered by how they are executed. Those without matrix products are one batch. A run
 * with small products is a batch that one thread works through, while others do the same for
 * others. A run with large products is a batch by itself, on all threads. */
typedef enum kind { ELEMENTWISE, SMALL, LARGE, KINDS } kind;

enum { SMALL_PRODUCTS = 1 << 28 }; /* multiplications of a small run: some milliseconds */

struct ol_machine {
  const ol_run *runs;
  int64_t count;            /* runs that are prepared; 0: none */
  int64_t first[KINDS + 1]; /* positions in order */
  ol_batch batch;           /* with all runs */
  ol_batch elementwise;     /* with those of that kind */
  ol_block order, numbers, numbers_of, arrays_of, scratch;
  ol_block workspaces; /* one for each thread */
  int workspace_count;
};

ol_status ol_machine_new(ol_error *error, ol_machine **out) {
  OL_TRY(ol_alloc_for(error, sizeof **out, "a machine", (void **)out));
  **out = (ol_machine){ 0 };
  return OL_OK;
}

void ol_machine_free(ol_machine *m) {
  if (!m) return;
  ol_workspace *spaces = m->workspaces.data;
  for (int i = 0; i < m->workspace_count; i++) ol_workspace_clear(&spaces[i]);
  ol_block *blocks[] = { &m->order,     &m->numbers, &m->numbers_of,
                         &m->arrays_of, &m->scratch, &m->workspaces };
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ol_free(blocks[i]->data);
  ol_free(m);
}

/* Preparation. */

static ol_status check_run(ol_error *error, const ol_run *run) {
  const ol_program *program = run->program;
  int64_t expected = ol_shape_numel(&program->code->shape[OL_RULE_OWN]);
  if (program->shape_bound && run->count != expected)
    return ol_fail(error, OL_SHAPE, "a rule that was traced for %lld elements runs on %lld",
                   (long long)expected, (long long)run->count);
  if (program->total_count > 0 && !run->totals)
    return ol_fail(error, OL_ARGUMENT, "a rule that uses group_add runs without a group");
  if (program->random && run->noise_parts == 0)
    return ol_fail(error, OL_ARGUMENT, "a rule that rounds stochastically runs without noise");
  for (int i = 0; i < program->operands; i++)
    if (((program->reads | program->writes) >> i & 1) && run->count > 0 && !run->arrays[i])
      return ol_fail(error, OL_ARGUMENT, "array %d of a rule is missing", i + 1);
  return OL_OK;
}

static kind kind_of(const ol_program *program) {
  double multiplications = 0;
  for (int i = 0; i < program->code->products; i++) {
    const ol_product *p = &program->code->product[i];
    multiplications += (double)p->m * (double)p->n * (double)p->k;
  }
  if (!program->multiplies) return ELEMENTWISE;
  return multiplications <= SMALL_PRODUCTS ? SMALL : LARGE;
}

static ol_status order_runs(ol_error *error, ol_machine *m) {
  OL_TRY(ol_block_reserve(error, &m->order, sizeof(int64_t) * (size_t)m->count));
  int64_t *order = m->order.data, at = 0;
  for (int k = 0; k < KINDS; k++) {
    m->first[k] = at;
    for (int64_t i = 0; i < m->count; i++)
      if (kind_of(m->runs[i].program) == (kind)k) order[at++] = i;
  }
  m->first[KINDS] = at;
  m->batch.order = order;
  return OL_OK;
}

/* Each run has its numbers; those that compute some have a copy with room for them. */
static ol_status lay_out_numbers(ol_error *error, ol_machine *m) {
  size_t total = 0;
  for (int64_t i = 0; i < m->count; i++) total += (size_t)m->runs[i].program->code->numbers;
  OL_TRY(ol_block_reserve(error, &m->numbers, sizeof(double) * total));
  OL_TRY(ol_block_reserve(error, &m->numbers_of, sizeof(double *) * (size_t)m->count));
  double *next = m->numbers.data, **numbers_of = m->numbers_of.data;
  for (int64_t i = 0; i < m->count; i++) {
    const ol_program *program = m->runs[i].program;
    numbers_of[i] = (double *)m->runs[i].numbers;
    if (program->code->numbers == program->numbers) continue;
    memcpy(next, m->runs[i].numbers, sizeof(double) * (size_t)program->numbers);
    numbers_of[i] = next;
    next += program->code->numbers;
  }
  m->batch.numbers = numbers_of;
  return OL_OK;
}

static ol_status reserve_scratch(ol_error *error, ol_machine *m) {
  size_t most = 0;
  const ol_program *last = NULL;
  for (int64_t i = 0; i < m->count; i++) {
    const ol_program *program = m->runs[i].program;
    if (program == last) continue;
    last = program;
    size_t size = ol_kernel_scratch(program->code, program->dtype);
    if (size > most) most = size;
  }
  m->batch.threads = ol_threads();
  m->batch.scratch_size = most;
  OL_TRY(ol_block_reserve(error, &m->scratch, most * (size_t)m->batch.threads));
  m->batch.scratch = m->scratch.data;
  return OL_OK;
}

/* More workspaces when there are more threads than before. */
static ol_status add_workspaces(ol_error *error, ol_machine *m, int count) {
  if (count <= m->workspace_count) return OL_OK;
  ol_block more = { 0 };
  OL_TRY(ol_block_reserve(error, &more, sizeof(ol_workspace) * (size_t)count));
  memset(more.data, 0, more.size);
  if (m->workspace_count > 0)
    memcpy(more.data, m->workspaces.data, sizeof(ol_workspace) * (size_t)m->workspace_count);
  ol_free(m->workspaces.data);
  m->workspaces = more;
  m->workspace_count = count;
  return OL_OK;
}

static ol_batch alone(const ol_machine *m, int64_t position) {
  return ol_batch_part(&m->batch, position, position + 1);
}

static ol_status reserve_workspaces(ol_error *error, ol_machine *m) {
  OL_TRY(add_workspaces(error, m, m->batch.threads));
  ol_workspace *spaces = m->workspaces.data;
  m->elementwise = ol_batch_part(&m->batch, m->first[ELEMENTWISE], m->first[SMALL]);
  OL_TRY(ol_workspace_reserve(error, &spaces[0], &m->elementwise));
  for (int64_t i = m->first[SMALL]; i < m->count; i++) {
    ol_batch one = alone(m, i);
    int spread = i < m->first[LARGE] ? m->batch.threads : 1;
    for (int k = 0; k < spread; k++) OL_TRY(ol_workspace_reserve(error, &spaces[k], &one));
  }
  return OL_OK;
}

static ol_status prepare(ol_error *error, ol_machine *m) {
  for (int64_t i = 0; i < m->count; i++) OL_TRY(check_run(error, &m->runs[i]));
  m->batch.runs = m->runs;
  OL_TRY(order_runs(error, m));
  OL_TRY(lay_out_numbers(error, m));
  OL_TRY(ol_block_reserve(error, &m->arrays_of, sizeof(void *) * (size_t)m->count));
  m->batch.arrays = m->arrays_of.data;
  OL_TRY(reserve_scratch(error, m));
  return reserve_workspaces(error, m);
}

ol_status ol_machine_prepare(ol_error *error, ol_machine *m, const ol_run *runs, int64_t count) {
  m->runs = runs;
  m->count = count;
  ol_status status = prepare(error, m);
  if (status != OL_OK) m->count = 0;
  return status;
}

/* Commitment. */

static void run_small(int64_t begin, int64_t end, void *context) {
  const ol_machine *m = context;
  ol_workspace *space = (ol_workspace *)m->workspaces.data + ol_thread();
  for (int64_t i = begin; i < end; i++) {
    ol_batch one = alone(m, m->first[SMALL] + i);
    ol_batch_run(&one, space);
  }
}

static void add_totals(const ol_machine *m) {
  for (int64_t i = 0; i < m->count; i++) {
    const ol_code *code = m->runs[i].program->code;
    for (int k = 0; k < code->totals; k++)
      m->runs[i].totals[code->total[k].slot] += m->batch.numbers[i][code->total[k].number];
  }
}

void ol_machine_commit(ol_machine *m) {
  if (m->count == 0) return;
  ol_workspace *spaces = m->workspaces.data;
  ol_batch_run(&m->elementwise, &spaces[0]);
  if (ol_threads() <= m->batch.threads)
    ol_parallel_for(m->first[LARGE] - m->first[SMALL], 1, run_small, m);
  else
    run_small(0, m->first[LARGE] - m->first[SMALL], m);
  for (int64_t i = m->first[LARGE]; i < m->count; i++) {
    ol_batch one = alone(m, i);
    ol_batch_run(&one, &spaces[0]);
  }
  add_totals(m);
  m->count = 0;
}
