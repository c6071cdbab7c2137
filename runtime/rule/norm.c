/* norm: sums of squares and maxima by chunks, joined in order. */
#include "rule/norm.h"

#include <math.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "rule/kernel.h"

/* What a chunk gives. A NaN makes both NaN. */
typedef struct part {
  double squares, largest;
} part;

typedef struct job {
  const ol_norm_input *inputs;
  int64_t *first; /* the first chunk of each input, and the end */
  part *parts;
  int64_t count, elements;
  int64_t begin; /* the first chunk to be measured */
  double scale;  /* a power of two that elements are multiplied with */
} job;

/* Where doubles need scaling, floats, whose squares are doubles, vanish beside them or are 0. */
static part measure(const ol_norm_input *input, int64_t begin, int64_t end, double scale) {
  if (scale != 1 && input->dtype != OL_F64) return (part){ 0 };
  double squares[OL_LANES] = { 0 }, largest;
  int64_t offset = begin * (int64_t)ol_dtype_size(input->dtype);
  ol_measure stretch = { (const char *)input->data + offset, input->dtype, end - begin, scale };
  ol_kernel_measure(&stretch, squares, &largest);
  return (part){ ol_reduce_fold(OL_RULE_SUM, squares), largest };
}

/* Chunks begin … end of those to be measured. */
static void measure_chunks(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  int64_t low = 0, high = j->count;
  begin += j->begin;
  end += j->begin;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (j->first[middle] <= begin)
      low = middle;
    else
      high = middle;
  }
  for (int64_t chunk = begin; chunk < end; chunk++) {
    while (j->first[low + 1] <= chunk) low++;
    const ol_norm_input *input = &j->inputs[low];
    int64_t from = (chunk - j->first[low]) * OL_MACHINE_CHUNK, to = from + OL_MACHINE_CHUNK;
    j->parts[chunk] = measure(input, from, to < input->count ? to : input->count, j->scale);
  }
}

/* Measures inputs begin … end. */
static void measure_inputs(job *j, int64_t begin, int64_t end) {
  int64_t chunks = j->first[end] - j->first[begin];
  j->begin = j->first[begin];
  if (j->elements < OL_MACHINE_CHUNK)
    measure_chunks(0, chunks, j);
  else
    ol_parallel_for(chunks, 1, measure_chunks, j);
}

/* Joins what inputs begin … end gave; notes the first that is not finite. */
static part fold(const job *j, int64_t begin, int64_t end, int64_t *nonfinite) {
  part total = { 0 };
  *nonfinite = -1;
  for (int64_t i = begin; i < end; i++)
    for (int64_t chunk = j->first[i]; chunk < j->first[i + 1]; chunk++) {
      part p = j->parts[chunk];
      if (!isfinite(p.largest) && *nonfinite < 0) *nonfinite = i;
      total.squares += p.squares;
      total.largest = ol_reduce_join(OL_RULE_AMAX, total.largest, p.largest);
    }
  return total;
}

/* A result that still holds the sum of squares. */
static ol_norm_result sum(const job *j, int64_t begin, int64_t end) {
  ol_norm_result result;
  part total = fold(j, begin, end, &result.nonfinite);
  result.two = total.squares;
  result.infinity = total.largest;
  return result;
}

/* Makes a norm of it. Squares of finite doubles overflow or vanish: then once more, scaled by a
 * power of two. */
static void finish(job *j, int64_t begin, int64_t end, ol_norm_result *result) {
  bool safe = result->two >= 0x1p-900 && result->two <= 0x1p1000;
  if (safe || result->infinity == 0 || !isfinite(result->infinity)) {
    result->two = sqrt(result->two);
    return;
  }
  int64_t ignored;
  int exponent;
  frexp(result->infinity, &exponent);
  if (exponent < -1000) exponent = -1000;
  j->scale = ldexp(1, -exponent);
  measure_inputs(j, begin, end);
  result->two = ldexp(sqrt(fold(j, begin, end, &ignored).squares), exponent);
}

/* All sums are taken before any is made a norm, for which its inputs may be measured again. */
static void reduce(job *j, ol_norm_part *parts, int64_t part_count, ol_norm_result *out) {
  measure_inputs(j, 0, j->count);
  *out = sum(j, 0, j->count);
  for (int64_t k = 0, begin = 0; k < part_count; begin = parts[k++].end)
    parts[k].result = sum(j, begin, parts[k].end);
  finish(j, 0, j->count, out);
  for (int64_t k = 0, begin = 0; k < part_count; begin = parts[k++].end)
    finish(j, begin, parts[k].end, &parts[k].result);
}

static ol_status check(ol_error *error, const ol_norm_input *inputs, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!ol_dtype_is_float(inputs[i].dtype))
      return ol_fail(error, OL_DTYPE, "norm: takes floats, not %s", ol_dtype_name(inputs[i].dtype));
  return OL_OK;
}

ol_status ol_norm_of_parts(ol_error *error, const ol_norm_input *inputs, int64_t count,
                           ol_norm_part *parts, int64_t part_count, ol_norm_result *out) {
  job j = { .inputs = inputs, .count = count, .scale = 1 };
  int64_t chunks = 0;
  OL_TRY(check(error, inputs, count));
  j.first = ol_alloc(sizeof *j.first * (size_t)(count + 1));
  for (int64_t i = 0; j.first && i < count; i++) {
    j.first[i] = chunks;
    chunks += (inputs[i].count + OL_MACHINE_CHUNK - 1) / OL_MACHINE_CHUNK;
    j.elements += inputs[i].count;
  }
  if (j.first) j.first[count] = chunks;
  j.parts = ol_alloc(sizeof *j.parts * (size_t)chunks);
  ol_status status = OL_OK;
  if (!j.first || !j.parts)
    status = ol_fail(error, OL_MEMORY, "out of memory for the norm of gradients");
  else
    reduce(&j, parts, part_count, out);
  ol_free(j.first);
  ol_free(j.parts);
  return status;
}

ol_status ol_norm(ol_error *error, const ol_norm_input *inputs, int64_t count,
                  ol_norm_result *out) {
  return ol_norm_of_parts(error, inputs, count, NULL, 0, out);
}
