/* pointwise: the frame gives what a naive loop over single elements gives, for sizes around tiles
 * and threads' shares, for strided, constant and converted operands, on any number of threads, and
 * survives every failed allocation. */
#include "ops/pointwise.h"

#include "autograd/tape.h"
#include "base/memory.h"
#include "check.h"
#include "ops/arithmetic.h"
#include "ops/generator.h"
#include "ops/registry.h"

static ol_error error;

static ol_tensor *make(ol_dtype dtype, int64_t rows, int64_t cols) {
  ol_shape shape = { 2, { rows, cols } };
  ol_tensor *x = NULL;
  if (!CHECK(ol_tensor_new(&error, dtype, &shape, &x) == OL_OK)) return NULL;
  for (int64_t i = 0; i < x->numel; i++) ol_tensor_set(x, i, (double)((i * 37 + rows) % 101) - 50);
  return x;
}

static ol_tensor *transposed(ol_tensor *x) {
  ol_shape shape = { 2, { x->shape.size[1], x->shape.size[0] } };
  ol_tensor *view = NULL;
  CHECK(ol_tensor_view(&error, x, &shape, (int64_t[]){ x->stride[1], x->stride[0] }, 0, &view) ==
        OL_OK);
  ol_release(x);
  return view;
}

/* x - 3 y, element by element, where y may have one row or one column. */
static void check_sum(ol_tensor *x, ol_tensor *y, ol_tensor *got) {
  int64_t cols = x->shape.size[1], wrong = 0;
  for (int64_t i = 0; i < x->numel; i++) {
    int64_t r = y->shape.size[0] == 1 ? 0 : i / cols, c = y->shape.size[1] == 1 ? 0 : i % cols;
    double want = ol_tensor_get(x, i) - 3 * ol_tensor_get(y, r * y->shape.size[1] + c);
    wrong += ol_tensor_get(got, i) != want;
  }
  CHECK_EQUAL(wrong, 0);
}

static void check_pair(ol_tensor *x, ol_tensor *y) {
  ol_tensor *got = NULL;
  if (CHECK(ol_add_scaled(&error, x, y, -3, &got) == OL_OK)) check_sum(x, y, got);
  ol_release(got);
}

/* All layouts of x (rows, cols) and y that broadcasts to it. */
static void layouts(ol_dtype a, ol_dtype b, int64_t rows, int64_t cols) {
  const int64_t shape[][2] = { { rows, cols }, { 1, cols }, { rows, 1 }, { 1, 1 } };
  for (int k = 0; k < 16; k++) {
    const int64_t *own = shape[k % 4];
    ol_tensor *x = k & 4 ? transposed(make(a, cols, rows)) : make(a, rows, cols);
    ol_tensor *y = k & 8 ? transposed(make(b, own[1], own[0])) : make(b, own[0], own[1]);
    check_pair(x, y);
    ol_release(x);
    ol_release(y);
  }
}

static void sizes(void) {
  static const int64_t cols[] = { 1, 3, 511, 512, 513, 1300 };
  for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
    layouts(OL_F32, OL_F32, 3, cols[i]);
    layouts(OL_F32, OL_F64, 5, cols[i]);
    layouts(OL_I64, OL_U8, 2, cols[i]);
    layouts(OL_F64, OL_I64, 1, cols[i]);
  }
  layouts(OL_F32, OL_U8, 70, 1000);
}

/* The bytes of gelu, and of random numbers, on 1, 2 and 3 threads. */
static void threads(void) {
  const int before = ol_threads();
  ol_tensor *x = make(OL_F32, 3, 50000), *first[2] = { NULL, NULL };
  const ol_op *ops[] = { ol_op_find("gelu"), ol_op_find("randn_like") };
  for (int count = 1; count <= 3; count++) {
    ol_set_threads(count);
    for (int k = 0; k < 2; k++) {
      ol_call call = { .arg[0] = { .given = true, .tensor = x } };
      ol_manual_seed(5);
      if (!CHECK(ol_apply(&error, ops[k], &call) == OL_OK)) continue;
      if (first[k])
        CHECK(memcmp(ol_tensor_data(first[k]), ol_tensor_data(call.out[0]), 600000) == 0);
      else
        first[k] = ol_retain(call.out[0]);
      ol_release(call.out[0]);
    }
  }
  ol_set_threads(before);
  for (int k = 0; k < 2; k++) ol_release(first[k]);
  ol_release(x);
}

/* Applies an op in place and returns its status; out is released. */
static ol_status apply(const char *name, ol_tensor *x, ol_tensor *y, double number) {
  ol_call call = { .arg = { { .given = true, .tensor = x },
                            { .given = true, .tensor = y },
                            { .given = true, .number = number } } };
  ol_status status = ol_apply(&error, ol_op_find(name), &call);
  ol_release(call.out[0]);
  return status;
}

/* Fails each allocation of x += y in turn, with y another view of the same memory. */
static void failures(void) {
  ol_tensor *x = make(OL_F32, 4, 4), *y = transposed(make(OL_F32, 4, 4)), *view = NULL;
  CHECK(ol_tensor_view(&error, x, &x->shape, (int64_t[]){ 1, 4 }, 0, &view) == OL_OK);
  const int64_t live = ol_memory_read().live_blocks;
  const uint64_t version = x->storage->version;
  int64_t failed = 0;
  ol_status status = OL_MEMORY;
  while (status != OL_OK && failed < 100) {
    ol_memory_fail_after(failed, false);
    status = apply("add_", x, view, 1);
    ol_memory_fail_after(-1, false);
    CHECK(status == OL_OK || status == OL_MEMORY);
    CHECK_EQUAL(ol_memory_read().live_blocks, live);
    CHECK_EQUAL(x->storage->version, version + (status == OL_OK));
    failed++;
  }
  CHECK(failed > 1);
  ol_release(view);
  ol_release(x);
  ol_release(y);
}

int main(void) {
  sizes();
  threads();
  failures();
  return check_summary();
}
