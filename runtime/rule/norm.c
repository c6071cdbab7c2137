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
  int64_t count;
  double scale; /* a power of two that elements are multiplied with */
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

/* Chunks begin … end of all inputs together. */
static void measure_chunks(int64_t begin, int64_t end, void *context) {
  const job *j = context;
  int64_t low = 0, high = j->count;
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

/* Measures everything; notes the first input that is not finite. */
static part measure_all(const job *j, int64_t chunks, int64_t elements, int64_t *nonfinite) {
  part total = { 0 };
  if (elements < OL_MACHINE_CHUNK)
    measure_chunks(0, chunks, (void *)j);
  else
    ol_parallel_for(chunks, 1, measure_chunks, (void *)j);
  *nonfinite = -1;
  for (int64_t i = 0; i < j->count; i++)
    for (int64_t chunk = j->first[i]; chunk < j->first[i + 1]; chunk++) {
      part p = j->parts[chunk];
      if (!isfinite(p.largest) && *nonfinite < 0) *nonfinite = i;
      total.squares += p.squares;
      total.largest = ol_reduce_join(OL_RULE_AMAX, total.largest, p.largest);
    }
  return total;
}

/* Squares of finite doubles overflow or vanish: then once more, scaled by a power of two. */
static double two_norm(job *j, int64_t chunks, int64_t elements, part total) {
  bool safe = total.squares >= 0x1p-900 && total.squares <= 0x1p1000;
  if (safe || total.largest == 0 || !isfinite(total.largest)) return sqrt(total.squares);
  int64_t ignored;
  int exponent;
  frexp(total.largest, &exponent);
  if (exponent < -1000) exponent = -1000;
  j->scale = ldexp(1, -exponent);
  return ldexp(sqrt(measure_all(j, chunks, elements, &ignored).squares), exponent);
}

static ol_status check(ol_error *error, const ol_norm_input *inputs, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!ol_dtype_is_float(inputs[i].dtype))
      return ol_fail(error, OL_DTYPE, "norm: takes floats, not %s", ol_dtype_name(inputs[i].dtype));
  return OL_OK;
}

ol_status ol_norm(ol_error *error, const ol_norm_input *inputs, int64_t count,
                  ol_norm_result *out) {
  job j = { .inputs = inputs, .count = count, .scale = 1 };
  int64_t chunks = 0, elements = 0;
  OL_TRY(check(error, inputs, count));
  j.first = ol_alloc(sizeof *j.first * (size_t)(count + 1));
  for (int64_t i = 0; j.first && i < count; i++) {
    j.first[i] = chunks;
    chunks += (inputs[i].count + OL_MACHINE_CHUNK - 1) / OL_MACHINE_CHUNK;
    elements += inputs[i].count;
  }
  if (j.first) j.first[count] = chunks;
  j.parts = ol_alloc(sizeof *j.parts * (size_t)chunks);
  ol_status status = OL_OK;
  if (!j.first || !j.parts) {
    status = ol_fail(error, OL_MEMORY, "out of memory for the norm of gradients");
  } else {
    part total = measure_all(&j, chunks, elements, &out->nonfinite);
    out->infinity = total.largest;
    out->two = two_norm(&j, chunks, elements, total);
  }
  ol_free(j.first);
  ol_free(j.parts);
  return status;
}
