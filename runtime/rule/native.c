/* native: runs the machine code of passes. */
#include "rule/native.h"

#include <string.h>

#include "base/executable.h"
#include "base/memory.h"
#include "rule/native_code.h"

enum {
  ROW = OL_NATIVE_ROW,
  VECTOR = OL_NATIVE_VECTOR,
  LONG = 2048, /* elements of a tensor that is worth to be cut into rows */
};

#if defined(__x86_64__)
/* Whether the system executes what was written; asked once. */
static bool may_execute(void) {
  static int known; /* 1: yes, -1: no */
  if (known == 0) {
    const uint8_t ret = 0xc3;
    void *code = ol_executable_new(&ret, sizeof ret);
    known = code ? 1 : -1;
    ol_executable_free(code, sizeof ret);
  }
  return known > 0;
}

bool ol_native_is_supported(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && may_execute();
}
#else
bool ol_native_is_supported(void) { return false; }
#endif

void ol_native_free(ol_native *n) {
  if (!n) return;
  ol_executable_free(n->code, n->size);
  ol_free(n);
}

size_t ol_native_frame(const ol_native *n) {
  return n ? ol_native_constants_at(n) + VECTOR * (size_t)n->constants : 0;
}

bool ol_native_fits(const ol_native *n, const double *numbers) {
  for (int i = 0; i < n->exponents; i++)
    if (ol_native_rounded(n, numbers[n->exponent[i].number]) != n->exponent[i].value) return false;
  return true;
}

/* Elements from `at` on to where a multiple of n begins. */
static int64_t to_multiple(int64_t at, int64_t n) { return (n - at % n) % n; }

/* Where a tensor of a run ends. */
static int64_t end_of(const ol_work *work, const ol_noise_part *part, int64_t end) {
  const bool last = part + 1 == work->noise + work->noise_parts;
  return last || part[1].begin > end ? end : part[1].begin;
}

/* Rows of noise begin with each tensor: they are worth to be looked for in long ones. */
static int64_t stretch_of_tensors(const ol_work *work, int64_t at, int64_t end, bool *native) {
  const ol_noise_part *part = ol_noise_at(work->noise, work->noise_parts, at);
  int64_t last = end_of(work, part, end);
  if (last - at >= LONG) {
    const int64_t odd = to_multiple(at - part->begin, ROW);
    *native = odd == 0;
    return odd > 0 ? odd : (last - at) / ROW * ROW;
  }
  while (last < end && end_of(work, ++part, end) - last < LONG) last = end_of(work, part, end);
  return last - at;
}

int64_t ol_native_stretch(const ol_work *work, int64_t at, int64_t end, bool *native) {
  const ol_native *n = work->pass->native;
  const int64_t left = end - at, odd = n->accumulators > 0 ? to_multiple(at, OL_LANES) : 0;
  *native = false;
  if (n->noises > 0 && work->noise_parts > 1) {
    if (n->accumulators > 0) return left; /* rows of noise and of lanes may never meet */
    return stretch_of_tensors(work, at, end, native);
  }
  if (odd > 0) return odd < left ? odd : left;
  *native = left >= ROW;
  return *native ? left / ROW * ROW : left;
}

/* The frame. */

static uint64_t bits_of(const ol_native *n, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return n->wide ? bits : ol_bits_of((float)value);
}

/* The address of the first element of an array that has strides of its own. */
static char *place_in(const ol_native *n, const ol_native_call *call, int access) {
  int64_t index[OL_MAX_DIMS];
  const ol_access *a = &n->access[access];
  char *base = call->work->arrays[a->array];
  return base + ol_kernel_place(a, &n->shape, call->at, index) * (n->wide ? 8 : 4);
}

static uint64_t pattern_of(const ol_native *n, const ol_native_call *call,
                           const ol_native_constant *from) {
  const ol_work *work = call->work;
  uint64_t bits = 0;
  switch (from->kind) {
  case OL_NATIVE_NUMBER: return bits_of(n, work->numbers[from->index]);
  case OL_NATIVE_GRADIENT_FACTOR:
    return bits_of(n, work->gradient_factor ? *work->gradient_factor : 1);
  case OL_NATIVE_ELEMENT:
    memcpy(&bits, place_in(n, call, from->index), n->wide ? 8 : 4);
    return bits;
  default: return from->bits;
  }
}

static void spread(const ol_native *n, uint64_t pattern, uint64_t *to) {
  if (!n->wide) pattern |= pattern << 32;
  for (size_t i = 0; i < VECTOR / sizeof *to; i++) to[i] = pattern;
}

/* Where an array has the first element. */
static char *base_of(const ol_native *n, const ol_native_call *call, int i) {
  const int array = n->array[i].array, access = n->array[i].access;
  if (array == OL_NATIVE_TOTALS) return (char *)call->totals;
  if (access != OL_NATIVE_NONE) return place_in(n, call, access);
  return (char *)call->work->arrays[array] + call->at * n->array[i].width;
}

static void begin_noise(const ol_native *n, const ol_native_call *call, ol_native_noise *to) {
  const ol_work *work = call->work;
  if (n->noises == 0) return;
  const ol_noise_part *part = ol_noise_at(work->noise, work->noise_parts, call->at);
  const int64_t word = ol_noise_word(call->at - part->begin);
  for (int i = 0; i < n->noises; i++) {
    const uint64_t salt = work->salt ? work->salt[n->noise[i]] : 0;
    const uint32_t counter = ol_noise_counter(part->key + salt, word);
    for (uint32_t k = 0; k < VECTOR / sizeof k; k++) to[i].counter[k] = counter + k * OL_WEYL;
  }
}

void ol_native_run(const ol_native *n, const ol_native_call *call) {
  char *frame = call->frame;
  ol_native_frame_head *head = call->frame;
  const size_t lanes = sizeof(double[OL_LANES]) * (size_t)n->accumulators;
  head->count = call->count;
  for (int i = 0; i < n->arrays; i++) head->base[i] = base_of(n, call, i);
  begin_noise(n, call, (ol_native_noise *)(frame + ol_native_noise_at(n)));
  uint64_t *constants = (uint64_t *)(frame + ol_native_constants_at(n));
  for (int i = 0; i < n->constants; i++)
    spread(n, pattern_of(n, call, &n->constant[i]), constants + i * (VECTOR / 8));
  if (lanes > 0) memcpy(frame + ol_native_lanes_at(), call->lanes, lanes);
  ((void (*)(void *))(void *)(n->code + (call->lines > 1 ? n->several : 0)))(frame);
  if (lanes > 0) memcpy(call->lanes, frame + ol_native_lanes_at(), lanes);
}
