/* machine: cuts runs into pieces, level by level, and shares them among threads. */
#include "rule/machine.h"

#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "rule/kernel.h"
#include "tensor/blas.h"

/* A piece of work; what it reduces goes to partial[…]. */
typedef struct item {
  int64_t run;
  int32_t pass;
  int64_t begin, end, partial;
} item;

/* Memory that grows and stays. */
typedef struct block {
  void *data;
  size_t size;
} block;

/* Runs that are executed together: all without matrix products; then each with products, because
 * products use all threads and their buffers are large. */
typedef struct batch {
  int64_t begin, end; /* positions in `order` */
} batch;

struct ol_machine {
  const ol_run *runs;
  int64_t count; /* runs that are prepared; 0: none */
  int threads;   /* that have scratch memory */
  size_t scratch_size;
  int64_t item_count, chunk_count;
  block order, items, chunks, partials; /* runs by batch; pieces of a level, and groups of them */
  block numbers, number_of;             /* of runs that compute numbers; of every run */
  block arrays, arrays_of, buffers;     /* of runs that have buffers; of every run */
  block scratch;
};

ol_status ol_machine_new(ol_error *error, ol_machine **out) {
  OL_TRY(ol_alloc_for(error, sizeof **out, "a machine", (void **)out));
  **out = (ol_machine){ 0 };
  return OL_OK;
}

void ol_machine_free(ol_machine *m) {
  if (!m) return;
  block *blocks[] = { &m->order,     &m->items,  &m->chunks,    &m->partials, &m->numbers,
                      &m->number_of, &m->arrays, &m->arrays_of, &m->buffers,  &m->scratch };
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ol_free(blocks[i]->data);
  ol_free(m);
}

static ol_status reserve(ol_error *error, block *b, size_t size) {
  if (size <= b->size) return OL_OK;
  void *data;
  OL_TRY(ol_alloc_for(error, size, "an update", &data));
  ol_free(b->data);
  *b = (block){ data, size };
  return OL_OK;
}

/* How a pass is cut. */

typedef struct cut {
  int64_t units, grain; /* of the pass; in a piece */
  int64_t weight;       /* elements in a unit */
} cut;

static int64_t pass_elements(const ol_run *run, const ol_pass *pass) {
  if (pass->shape == OL_RULE_OWN) return run->count;
  return ol_shape_numel(&run->program->code->shape[pass->shape]);
}

static cut cut_of(const ol_run *run, const ol_pass *pass) {
  if (pass->dim < 0) return (cut){ pass_elements(run, pass), OL_MACHINE_CHUNK, 1 };
  ol_units units = ol_kernel_units(&run->program->code->shape[pass->shape], pass->dim);
  int64_t grain = units.elements > 0 ? OL_MACHINE_CHUNK / units.elements : OL_MACHINE_CHUNK;
  return (cut){ units.count, grain > 0 ? grain : 1, units.elements };
}

/* What an execution needs. */

typedef struct needs {
  int64_t items, partials, arrays;
  size_t buffers;
} needs;

static size_t buffer_size(const ol_program *program, int buffer) {
  const ol_code *code = program->code;
  int64_t count = ol_shape_numel(&code->shape[code->buffer[buffer]]);
  size_t size = (size_t)count * ol_dtype_size(program->dtype);
  return (size + OL_ALIGNMENT - 1) / OL_ALIGNMENT * OL_ALIGNMENT;
}

static needs needs_of_run(const ol_run *run) {
  needs n = { 0 };
  const ol_code *code = run->program->code;
  for (int i = 0; i < code->passes; i++) {
    cut c = cut_of(run, &code->pass[i]);
    int64_t items = (c.units + c.grain - 1) / c.grain;
    n.items += items;
    n.partials += items * code->pass[i].accumulators;
  }
  if (code->buffers > 0) n.arrays = run->program->operands + code->buffers;
  for (int i = 0; i < code->buffers; i++) n.buffers += buffer_size(run->program, i);
  return n;
}

static needs needs_of_batch(const ol_machine *m, batch b) {
  needs sum = { 0 };
  const int64_t *order = m->order.data;
  for (int64_t i = b.begin; i < b.end; i++) {
    needs n = needs_of_run(&m->runs[order[i]]);
    sum.items += n.items;
    sum.partials += n.partials;
    sum.arrays += n.arrays;
    sum.buffers += n.buffers;
  }
  return sum;
}

/* Batches in order; false after the last. */
static bool next_batch(const ol_machine *m, batch *b) {
  const int64_t *order = m->order.data;
  if (b->end == m->count) return false;
  bool alone = m->runs[order[b->end]].program->multiplies;
  b->begin = b->end++;
  while (!alone && b->end < m->count && !m->runs[order[b->end]].program->multiplies) b->end++;
  return true;
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
  for (int i = 0; i < program->operands; i++)
    if (((program->reads | program->writes) >> i & 1) && run->count > 0 && !run->arrays[i])
      return ol_fail(error, OL_ARGUMENT, "array %d of a rule is missing", i + 1);
  return OL_OK;
}

static ol_status order_runs(ol_error *error, ol_machine *m, const ol_run *runs, int64_t count) {
  OL_TRY(reserve(error, &m->order, sizeof(int64_t) * (size_t)count));
  int64_t *order = m->order.data, at = 0;
  for (int multiplies = 0; multiplies < 2; multiplies++)
    for (int64_t i = 0; i < count; i++)
      if (runs[i].program->multiplies == multiplies) order[at++] = i;
  m->runs = runs;
  return OL_OK;
}

static ol_status reserve_batches(ol_error *error, ol_machine *m) {
  for (batch b = { 0 }; next_batch(m, &b);) {
    needs n = needs_of_batch(m, b);
    OL_TRY(reserve(error, &m->items, sizeof(item) * (size_t)n.items));
    OL_TRY(reserve(error, &m->chunks, sizeof(int64_t) * (size_t)(n.items + 1)));
    OL_TRY(reserve(error, &m->partials, sizeof(double) * (size_t)n.partials));
    OL_TRY(reserve(error, &m->arrays, sizeof(void *) * (size_t)n.arrays));
    OL_TRY(reserve(error, &m->buffers, n.buffers));
  }
  return reserve(error, &m->arrays_of, sizeof(void *) * (size_t)m->count);
}

/* Each run has its numbers; those that compute some have a copy with room for them. */
static ol_status reserve_numbers(ol_error *error, ol_machine *m) {
  size_t total = 0;
  for (int64_t i = 0; i < m->count; i++) total += (size_t)m->runs[i].program->code->numbers;
  OL_TRY(reserve(error, &m->numbers, sizeof(double) * total));
  OL_TRY(reserve(error, &m->number_of, sizeof(double *) * (size_t)m->count));
  double *next = m->numbers.data, **number_of = m->number_of.data;
  for (int64_t i = 0; i < m->count; i++) {
    const ol_program *program = m->runs[i].program;
    bool computes = program->code->numbers > program->numbers;
    number_of[i] = computes ? next : (double *)m->runs[i].numbers;
    if (computes) next += program->code->numbers;
  }
  return OL_OK;
}

static ol_status reserve_scratch(ol_error *error, ol_machine *m) {
  m->scratch_size = 0;
  const ol_program *last = NULL;
  for (int64_t i = 0; i < m->count; i++) {
    const ol_program *program = m->runs[i].program;
    if (program == last) continue;
    last = program;
    size_t size = ol_kernel_scratch(program->code, program->dtype);
    if (size > m->scratch_size) m->scratch_size = size;
  }
  m->threads = ol_threads();
  return reserve(error, &m->scratch, m->scratch_size * (size_t)m->threads);
}

static ol_status prepare(ol_error *error, ol_machine *m, const ol_run *runs, int64_t count) {
  for (int64_t i = 0; i < count; i++) OL_TRY(check_run(error, &runs[i]));
  OL_TRY(order_runs(error, m, runs, count));
  m->count = count;
  OL_TRY(reserve_batches(error, m));
  OL_TRY(reserve_numbers(error, m));
  return reserve_scratch(error, m);
}

ol_status ol_machine_prepare(ol_error *error, ol_machine *m, const ol_run *runs, int64_t count) {
  m->count = 0;
  ol_status status = prepare(error, m, runs, count);
  if (status != OL_OK) m->count = 0;
  return status;
}

/* Execution of a batch. */

/* The operands of a run, followed by its buffers. */
static void **lay_out(const ol_run *run, void **arrays, char **buffers) {
  const ol_program *program = run->program;
  memcpy(arrays, run->arrays, sizeof *arrays * (size_t)program->operands);
  arrays += program->operands;
  for (int i = 0; i < program->code->buffers; i++) {
    *arrays++ = *buffers;
    *buffers += buffer_size(program, i);
  }
  return arrays;
}

static void open_batch(ol_machine *m, batch b) {
  const int64_t *order = m->order.data;
  double **number_of = m->number_of.data;
  void *const **arrays_of = m->arrays_of.data;
  void **arrays = m->arrays.data;
  char *buffers = m->buffers.data;
  for (int64_t i = b.begin; i < b.end; i++) {
    const ol_run *run = &m->runs[order[i]];
    const ol_program *program = run->program;
    if (program->code->numbers > program->numbers)
      memcpy(number_of[order[i]], run->numbers, sizeof(double) * (size_t)program->numbers);
    arrays_of[order[i]] = program->code->buffers > 0 ? arrays : run->arrays;
    if (program->code->buffers > 0) arrays = lay_out(run, arrays, &buffers);
  }
}

/* Appends the pieces of a pass; a new chunk begins where one would exceed its size. */
static void add_pass(ol_machine *m, int64_t run, int pass, int64_t *partial, int64_t *filled) {
  item *items = m->items.data;
  int64_t *chunks = m->chunks.data;
  const ol_pass *p = &m->runs[run].program->code->pass[pass];
  cut c = cut_of(&m->runs[run], p);
  for (int64_t begin = 0; begin < c.units; begin += c.grain) {
    int64_t end = begin + c.grain < c.units ? begin + c.grain : c.units;
    int64_t weight = (end - begin) * c.weight;
    if (m->chunk_count == 0 || *filled + weight > OL_MACHINE_CHUNK) {
      chunks[m->chunk_count++] = m->item_count;
      *filled = 0;
    }
    *filled += weight;
    items[m->item_count++] = (item){ run, pass, begin, end, *partial };
    *partial += p->accumulators;
  }
}

static void collect(ol_machine *m, batch b, int level) {
  const int64_t *order = m->order.data;
  int64_t partial = 0, filled = 0;
  m->item_count = m->chunk_count = 0;
  for (int64_t i = b.begin; i < b.end; i++) {
    const ol_code *code = m->runs[order[i]].program->code;
    for (int p = 0; p < code->passes; p++)
      if (code->pass[p].level == level) add_pass(m, order[i], p, &partial, &filled);
  }
  ((int64_t *)m->chunks.data)[m->chunk_count] = m->item_count;
}

static void run_chunks(int64_t begin, int64_t end, void *context) {
  const ol_machine *m = context;
  const item *items = m->items.data;
  const int64_t *chunks = m->chunks.data;
  void *const *const *arrays_of = m->arrays_of.data;
  double *const *number_of = m->number_of.data;
  for (int64_t i = chunks[begin]; i < chunks[end]; i++) {
    const ol_run *run = &m->runs[items[i].run];
    ol_work work = { .code = run->program->code,
                     .pass = &run->program->code->pass[items[i].pass],
                     .numbers = number_of[items[i].run],
                     .arrays = arrays_of[items[i].run],
                     .gradient_factor = run->gradient_factor,
                     .begin = items[i].begin,
                     .end = items[i].end,
                     .partial = (double *)m->partials.data + items[i].partial,
                     .scratch = (char *)m->scratch.data + m->scratch_size * (size_t)ol_thread() };
    ol_kernel_run(run->program->dtype, &work);
  }
}

/* The end of a level: reductions become numbers, numbers more numbers, and products are made. */

/* Joins the pieces of a pass, from item `at` on; returns the item after them. */
static int64_t join_pieces(ol_machine *m, int64_t run, const ol_pass *pass, int64_t at) {
  const item *items = m->items.data;
  const double *partials = m->partials.data;
  double *numbers = ((double **)m->number_of.data)[run];
  cut c = cut_of(&m->runs[run], pass);
  int64_t end = at + (c.units + c.grain - 1) / c.grain;
  for (int i = 0; i < pass->accumulators; i++) {
    ol_rule_op op = (ol_rule_op)pass->accumulator[i].op;
    double total = ol_reduce_identity(op);
    for (int64_t k = at; k < end; k++)
      total = ol_reduce_join(op, total, partials[items[k].partial + i]);
    numbers[pass->accumulator[i].number] = ol_reduce_finish(op, total, c.units);
  }
  return end;
}

static void compute_numbers(ol_machine *m, int64_t run, int level) {
  const ol_code *code = m->runs[run].program->code;
  double *numbers = ((double **)m->number_of.data)[run];
  for (int i = 0; i < code->number_ops; i++) {
    const ol_number_op *op = &code->number_op[i];
    if (op->level != level) continue;
    double in[3] = { 0 };
    for (int k = 0; k < 3; k++)
      if (op->in[k] >= 0) in[k] = numbers[op->in[k]];
    numbers[op->out] = ol_rule_op_number((ol_rule_op)op->op, in);
  }
}

static ol_matrix matrix(void *data, bool turned, int64_t rows, int64_t cols) {
  return turned ? (ol_matrix){ data, 1, rows } : (ol_matrix){ data, cols, 1 };
}

static void multiply(ol_machine *m, int64_t run, int level) {
  const ol_program *program = m->runs[run].program;
  void *const *arrays = ((void *const **)m->arrays_of.data)[run];
  for (int i = 0; i < program->code->products; i++) {
    const ol_product *p = &program->code->product[i];
    if (p->level != level) continue;
    ol_blas_gemm(program->dtype, p->m, p->n, p->k, 1, matrix(arrays[p->a], p->turned_a, p->m, p->k),
                 matrix(arrays[p->b], p->turned_b, p->k, p->n), 0,
                 matrix(arrays[p->c], false, p->m, p->n));
  }
}

static void end_level(ol_machine *m, batch b, int level) {
  const int64_t *order = m->order.data;
  int64_t at = 0;
  for (int64_t i = b.begin; i < b.end; i++) {
    const ol_code *code = m->runs[order[i]].program->code;
    for (int p = 0; p < code->passes; p++)
      if (code->pass[p].level == level) at = join_pieces(m, order[i], &code->pass[p], at);
    compute_numbers(m, order[i], level);
    multiply(m, order[i], level);
  }
}

static void run_batch(ol_machine *m, batch b) {
  int levels = 0;
  const int64_t *order = m->order.data;
  for (int64_t i = b.begin; i < b.end; i++) {
    const ol_program *program = m->runs[order[i]].program;
    if (program->levels > levels) levels = program->levels;
  }
  open_batch(m, b);
  for (int level = 0; level < levels; level++) {
    collect(m, b, level);
    if (ol_threads() <= m->threads)
      ol_parallel_for(m->chunk_count, 1, run_chunks, m);
    else
      run_chunks(0, m->chunk_count, m);
    end_level(m, b, level);
  }
}

static void add_totals(const ol_machine *m) {
  double *const *number_of = m->number_of.data;
  for (int64_t i = 0; i < m->count; i++) {
    const ol_code *code = m->runs[i].program->code;
    for (int k = 0; k < code->totals; k++)
      m->runs[i].totals[code->total[k].slot] += number_of[i][code->total[k].number];
  }
}

void ol_machine_commit(ol_machine *m) {
  for (batch b = { 0 }; next_batch(m, &b);) run_batch(m, b);
  add_totals(m);
  m->count = 0;
}
