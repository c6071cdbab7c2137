/* batch: cuts passes into pieces, level by level, and shares them among threads. */
#include "rule/batch.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "rule/kernel.h"
#include "tensor/blas.h"

/* A piece of a pass; what it reduces goes to partials[partial …]. */
typedef struct item {
  int64_t run;
  int32_t pass;
  int64_t begin, end, partial;
} item;

ol_status ol_block_reserve(ol_error *error, ol_block *block, size_t size) {
  if (size <= block->size) return OL_OK;
  void *data;
  OL_TRY(ol_alloc_for(error, size, "an update", &data));
  ol_free(block->data);
  *block = (ol_block){ data, size };
  return OL_OK;
}

void ol_workspace_clear(ol_workspace *space) {
  ol_free(space->items.data);
  ol_free(space->chunks.data);
  ol_free(space->partials.data);
  ol_free(space->arrays.data);
  ol_free(space->buffers.data);
}

static double cache; /* bytes of the largest one; 0: not asked yet */

void ol_machine_set_cache(double bytes) { cache = bytes; }

/* Whether a batch that moves so many bytes finds its arrays in memory and not in a cache. */
static bool is_far(double bytes) {
  const double small = 32e6, large = 512e6; /* caches are between, where nobody knows */
  if (cache == 0) {
    double size = (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
    cache = size < small ? small : size > large ? large : size;
  }
  return bytes > cache;
}

/* Elements of a piece of a batch of so many: there are some pieces for each thread, so that all end
 * together; and one where waking threads takes longer than the work. */
static int64_t grain_of(double elements, int threads) {
  const double least = 4096, pieces = 4.0 * threads;
  if (threads == 1 || elements <= OL_MACHINE_CHUNK) return OL_MACHINE_CHUNK;
  double grain = elements / pieces < least ? least : elements / pieces;
  if (grain > OL_MACHINE_CHUNK - OL_MACHINE_TILE) return OL_MACHINE_CHUNK;
  return ((int64_t)grain / OL_MACHINE_TILE + 1) * OL_MACHINE_TILE;
}

ol_batch ol_batch_part(const ol_batch *batch, int64_t begin, int64_t end) {
  double bytes = 0, elements = 0;
  ol_batch part = *batch;
  for (int64_t i = begin; i < end; i++) {
    const ol_run *run = &batch->runs[batch->order[i]];
    bytes += run->program->bytes * (double)run->count;
    elements += (double)run->count;
  }
  part.begin = begin, part.end = end;
  part.far = is_far(bytes);
  part.grain = grain_of(elements, batch->threads);
  return part;
}

/* How a pass is cut. */

typedef struct cut {
  int64_t units, grain; /* of the pass; in a piece */
  int64_t weight;       /* elements in a unit */
} cut;

static cut cut_of(const ol_batch *batch, const ol_run *run, const ol_pass *pass) {
  const ol_shape *shape = &run->program->code->shape[pass->shape];
  int64_t elements = pass->shape == OL_RULE_OWN ? run->count : ol_shape_numel(shape);
  if (pass->dim < 0)
    return (cut){ elements, pass->accumulators ? OL_MACHINE_CHUNK : batch->grain, 1 };
  ol_units units = ol_kernel_units(shape, pass->dim, batch->threads);
  int64_t grain = units.elements > 0 ? batch->grain / units.elements : batch->grain;
  return (cut){ units.count, grain > 0 ? grain : 1, units.elements };
}

static int64_t pieces(cut c) { return (c.units + c.grain - 1) / c.grain; }

/* What a batch needs. */

typedef struct needs {
  size_t items, partials, arrays, buffers;
} needs;

static size_t buffer_size(const ol_program *program, int buffer) {
  const ol_code *code = program->code;
  int64_t count = ol_shape_numel(&code->shape[code->buffer[buffer]]);
  size_t size = (size_t)count * ol_dtype_size(program->dtype);
  return (size + OL_ALIGNMENT - 1) / OL_ALIGNMENT * OL_ALIGNMENT;
}

static void add_needs(const ol_batch *batch, const ol_run *run, needs *n) {
  const ol_code *code = run->program->code;
  for (int i = 0; i < code->passes; i++) {
    size_t items = (size_t)pieces(cut_of(batch, run, &code->pass[i]));
    n->items += items;
    n->partials += items * (size_t)code->pass[i].accumulators;
  }
  if (code->buffers > 0) n->arrays += (size_t)(run->program->operands + code->buffers);
  for (int i = 0; i < code->buffers; i++) n->buffers += buffer_size(run->program, i);
}

ol_status ol_workspace_reserve(ol_error *error, ol_workspace *space, const ol_batch *batch) {
  needs n = { 0 };
  for (int64_t i = batch->begin; i < batch->end; i++)
    add_needs(batch, &batch->runs[batch->order[i]], &n);
  OL_TRY(ol_block_reserve(error, &space->items, sizeof(item) * n.items));
  OL_TRY(ol_block_reserve(error, &space->chunks, sizeof(int64_t) * (n.items + 1)));
  OL_TRY(ol_block_reserve(error, &space->partials, sizeof(double) * n.partials));
  OL_TRY(ol_block_reserve(error, &space->arrays, sizeof(void *) * n.arrays));
  return ol_block_reserve(error, &space->buffers, n.buffers);
}

/* Execution. */

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

static void lay_out_all(const ol_batch *batch, ol_workspace *space) {
  void **arrays = space->arrays.data;
  char *buffers = space->buffers.data;
  for (int64_t i = batch->begin; i < batch->end; i++) {
    const ol_run *run = &batch->runs[batch->order[i]];
    bool buffered = run->program->code->buffers > 0;
    batch->arrays[batch->order[i]] = buffered ? arrays : run->arrays;
    if (buffered) arrays = lay_out(run, arrays, &buffers);
  }
}

/* Appends the pieces of a pass; a new chunk begins where one would exceed its size. */
static void add_pass(const ol_batch *batch, ol_workspace *space, int64_t run, int pass,
                     int64_t *partial, int64_t *filled) {
  item *items = space->items.data;
  int64_t *chunks = space->chunks.data;
  const ol_pass *p = &batch->runs[run].program->code->pass[pass];
  cut c = cut_of(batch, &batch->runs[run], p);
  for (int64_t begin = 0; begin < c.units; begin += c.grain) {
    int64_t end = begin + c.grain < c.units ? begin + c.grain : c.units;
    int64_t weight = (end - begin) * c.weight;
    if (space->chunk_count == 0 || *filled + weight > batch->grain) {
      chunks[space->chunk_count++] = space->item_count;
      *filled = 0;
    }
    *filled += weight;
    items[space->item_count++] = (item){ run, pass, begin, end, *partial };
    *partial += p->accumulators;
  }
}

static void collect(const ol_batch *batch, ol_workspace *space, int level) {
  int64_t partial = 0, filled = 0, *chunks = space->chunks.data;
  space->item_count = space->chunk_count = 0;
  for (int64_t i = batch->begin; i < batch->end; i++) {
    int64_t run = batch->order[i];
    const ol_code *code = batch->runs[run].program->code;
    for (int p = 0; p < code->passes; p++)
      if (code->pass[p].level == level) add_pass(batch, space, run, p, &partial, &filled);
  }
  chunks[space->chunk_count] = space->item_count;
}

typedef struct job {
  const ol_batch *batch;
  const ol_workspace *space;
} job;

static void run_chunks(int64_t begin, int64_t end, void *context) {
  const ol_batch *batch = ((job *)context)->batch;
  const ol_workspace *space = ((job *)context)->space;
  const item *items = space->items.data;
  const int64_t *chunks = space->chunks.data;
  for (int64_t i = chunks[begin]; i < chunks[end]; i++) {
    const ol_run *run = &batch->runs[items[i].run];
    ol_work work = { .code = run->program->code,
                     .pass = &run->program->code->pass[items[i].pass],
                     .numbers = batch->numbers[items[i].run],
                     .arrays = batch->arrays[items[i].run],
                     .gradient_factor = run->gradient_factor,
                     .far = batch->far,
                     .count = run->count,
                     .noise = run->noise,
                     .noise_parts = run->noise_parts,
                     .salt = run->salt,
                     .begin = items[i].begin,
                     .end = items[i].end,
                     .threads = batch->threads,
                     .partial = (double *)space->partials.data + items[i].partial,
                     .scratch = batch->scratch + batch->scratch_size * (size_t)ol_thread() };
    ol_kernel_run(run->program->dtype, &work);
  }
}

/* The end of a level: reductions become numbers, numbers more numbers, and products are made. */

/* Joins the pieces of a pass, from item `at` on; returns the item after them. */
static int64_t join_pieces(const ol_batch *batch, const ol_workspace *space, int64_t run,
                           const ol_pass *pass, int64_t at) {
  const item *items = space->items.data;
  const double *partials = space->partials.data;
  cut c = cut_of(batch, &batch->runs[run], pass);
  int64_t end = at + pieces(c);
  for (int i = 0; i < pass->accumulators; i++) {
    ol_rule_op op = (ol_rule_op)pass->accumulator[i].op;
    double total = ol_reduce_identity(op);
    for (int64_t k = at; k < end; k++)
      total = ol_reduce_join(op, total, partials[items[k].partial + i]);
    batch->numbers[run][pass->accumulator[i].number] = ol_reduce_finish(op, total, c.units);
  }
  return end;
}

static void compute_numbers(const ol_code *code, double *numbers, int level) {
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

static void multiply(const ol_program *program, void *const *arrays, int level) {
  for (int i = 0; i < program->code->products; i++) {
    const ol_product *p = &program->code->product[i];
    if (p->level != level) continue;
    ol_matrix a = matrix(arrays[p->a], p->turned_a, p->m, p->k);
    ol_matrix b = matrix(arrays[p->b], p->turned_b, p->k, p->n);
    ol_matrix c = matrix(arrays[p->c], false, p->m, p->n);
    ol_blas_gemm(program->dtype, p->m, p->n, p->k, 1, a, b, 0, c);
  }
}

static void end_level(const ol_batch *batch, const ol_workspace *space, int level) {
  int64_t at = 0;
  for (int64_t i = batch->begin; i < batch->end; i++) {
    int64_t run = batch->order[i];
    const ol_program *program = batch->runs[run].program;
    for (int p = 0; p < program->code->passes; p++)
      if (program->code->pass[p].level == level)
        at = join_pieces(batch, space, run, &program->code->pass[p], at);
    compute_numbers(program->code, batch->numbers[run], level);
    multiply(program, batch->arrays[run], level);
  }
}

void ol_batch_run(const ol_batch *batch, ol_workspace *space) {
  int levels = 0;
  for (int64_t i = batch->begin; i < batch->end; i++) {
    const ol_program *program = batch->runs[batch->order[i]].program;
    if (program->levels > levels) levels = program->levels;
  }
  lay_out_all(batch, space);
  for (int level = 0; level < levels; level++) {
    job j = { batch, space };
    collect(batch, space, level);
    if (ol_threads() <= batch->threads)
      (batch->far ? ol_parallel_take : ol_parallel_for)(space->chunk_count, 1, run_chunks, &j);
    else
      run_chunks(0, space->chunk_count, &j);
    end_level(batch, space, level);
  }
}
