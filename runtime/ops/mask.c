/* mask: elements that are picked: masked_select, nonzero. Their number depends on the values. */
#include "base/memory.h"
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/indexing.h"
#include "tensor/loop.h"

/* ---- masked_select ---- */

/* Rows of tensor and mask, in order, on one thread. The context points to the address of the next
 * picked element, which moves on. */
#define DEFINE_PICK(type)                                                                          \
  static void pick_##type(int64_t count, char *const *data, const int64_t *stride,                 \
                          const void *context) {                                                   \
    type **next = (type **)context, *to = *next;                                                   \
    for (int64_t i = 0; i < count; i++)                                                            \
      if (data[1][i * stride[1]]) *to++ = *(const type *)(data[0] + i * stride[0]);                \
    *next = to;                                                                                    \
  }                                                                                                \
  static void place_##type(int64_t count, char *const *data, const int64_t *stride,                \
                           const void *context) {                                                  \
    type **next = (type **)context, *from = *next;                                                 \
    for (int64_t i = 0; i < count; i++)                                                            \
      if (data[1][i * stride[1]]) *(type *)(data[0] + i * stride[0]) = *from++;                    \
    *next = from;                                                                                  \
  }
DEFINE_PICK(uint8_t)
DEFINE_PICK(uint16_t)
DEFINE_PICK(uint32_t)
DEFINE_PICK(uint64_t)

static ol_row_fn *const picks[OL_DTYPES] = OL_BY_SIZE(pick);
static ol_row_fn *const places[OL_DTYPES] = OL_BY_SIZE(place);

/* Runs over x and mask, broadcast to shape; `next` as the rows take it. */
static void run(ol_row_fn *fn, const ol_shape *shape, ol_tensor *x, ol_tensor *mask, char *next) {
  ol_loop loop;
  ol_tensor *operands[] = { x, mask };
  ol_loop_init(&loop, shape, 2, operands);
  ol_loop_run(&loop, INT64_MAX, fn, &next);
}

static void count_row(int64_t count, char *const *data, const int64_t *stride,
                      const void *context) {
  int64_t *total = (int64_t *)context;
  for (int64_t i = 0; i < count; i++) *total += data[0][i * stride[0]] != 0;
}

/* How many elements of a mask, broadcast to shape, are not 0. */
static int64_t count(ol_tensor *mask, const ol_shape *shape) {
  int64_t total = 0;
  ol_loop loop;
  ol_loop_init(&loop, shape, 1, &mask);
  ol_loop_run(&loop, INT64_MAX, count_row, &total);
  return total;
}

static ol_status masked_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *mask = call->arg[1].tensor, *y;
  ol_shape shape, row = { .ndim = 1 };
  if (mask->dtype != OL_U8)
    return ol_fail(error, OL_DTYPE, "masked_select: a mask is uint8, not %s",
                   ol_dtype_name(mask->dtype));
  OL_TRY(ol_shape_broadcast(error, "masked_select", &x->shape, &mask->shape, &shape));
  row.size[0] = count(mask, &shape);
  OL_TRY(ol_tensor_new(error, x->dtype, &row, &y));
  run(picks[x->dtype], &shape, x, mask, ol_tensor_data(y));
  call->out[0] = y;
  return OL_OK;
}

static ol_status masked_back(ol_error *error, ol_back *back) {
  ol_tensor *mask = back->arg[1].tensor, *dense, *grad;
  ol_shape shape;
  OL_TRY(ol_shape_broadcast(error, "masked_select", back->shape[0], &mask->shape, &shape));
  OL_TRY(ol_tensor_contiguous(error, back->grad_out[0], &dense));
  ol_status status = ol_tensor_zeros(error, dense->dtype, &shape, &grad);
  if (status == OL_OK) {
    run(places[dense->dtype], &shape, grad, mask, ol_tensor_data(dense));
    back->grad[0] = grad;
  }
  ol_release(dense);
  return status;
}

/* ---- nonzero ---- */

#define DEFINE_TEST(type)                                                                          \
  OL_KERNEL static void test_##type(int64_t n, char *const *data, const int64_t *stride,           \
                                    const void *context) {                                         \
    (void)context;                                                                                 \
    char *picked = data[0];                                                                        \
    const type *x = (const type *)data[1];                                                         \
    if (stride[0] == 1 && stride[1] == sizeof(type))                                               \
      OL_APART for (int64_t i = 0; i < n; i++) picked[i] = x[i] != 0;                              \
    else                                                                                           \
      for (int64_t i = 0; i < n; i++)                                                              \
        picked[i * stride[0]] = *(const type *)(data[1] + i * stride[1]) != 0;                     \
  }
DEFINE_TEST(uint8_t)
DEFINE_TEST(int64_t)
DEFINE_TEST(float)
DEFINE_TEST(double)
static ol_row_fn *const tests[OL_DTYPES] = {
  [OL_U8] = test_uint8_t, [OL_I64] = test_int64_t, [OL_F32] = test_float, [OL_F64] = test_double
};

/* A contiguous mask, of 0 and 1, of what is not 0. */
static ol_status mask_of(ol_error *error, ol_tensor *x, ol_tensor **out) {
  OL_TRY(ol_tensor_new(error, OL_U8, &x->shape, out));
  ol_loop loop;
  ol_tensor *operands[] = { *out, x };
  ol_loop_init(&loop, &x->shape, 2, operands);
  ol_loop_run(&loop, OL_GRAIN, tests[x->dtype], NULL);
  return OL_OK;
}

enum { BLOCK = 4096 }; /* elements that are counted, and written, at once */

/* Coordinates of what a mask picks. */
typedef struct listing {
  const ol_shape *shape; /* of the mask */
  int64_t numel, blocks;
  const char *picked;
  int64_t *start; /* for each block: how many it picks; then how many those before it do */
  int64_t *row;   /* (picked, ndim): the result */
} listing;

static int64_t block_end(const listing *l, int64_t block) {
  return (block + 1) * BLOCK < l->numel ? (block + 1) * BLOCK : l->numel;
}

OL_KERNEL static void count_blocks(int64_t begin, int64_t end, void *context) {
  const listing *l = context;
  for (int64_t b = begin; b < end; b++) {
    int64_t total = 0;
    for (int64_t i = b * BLOCK; i < block_end(l, b); i++) total += l->picked[i];
    l->start[b] = total;
  }
}

/* Turns counts into starts; returns the total. */
static int64_t add_up(const listing *l) {
  int64_t total = 0;
  for (int64_t b = 0; b < l->blocks; b++) {
    const int64_t own = l->start[b];
    l->start[b] = total;
    total += own;
  }
  return total;
}

/* The coordinates of row `number` of a tensor, all but the last. */
static void locate(const ol_shape *shape, int64_t number, int64_t *coordinate) {
  for (int d = shape->ndim - 2; d >= 0; number /= shape->size[d--])
    coordinate[d] = number % shape->size[d];
}

/* Writes the rows of those picked of `count` neighbours, at most BLOCK, of which the first is at
 * coordinate. Finds the places first: without branches. Returns where the next row goes. */
static int64_t *write_rows(const char *picked, int64_t count, const int64_t *coordinate, int ndim,
                           int64_t *row) {
  int32_t place[BLOCK];
  int64_t found = 0;
  for (int32_t i = 0; i < count; i++) {
    place[found] = i;
    found += picked[i];
  }
  for (int64_t k = 0; k < found; k++, row += ndim) {
    for (int d = 0; d < ndim - 1; d++) row[d] = coordinate[d];
    row[ndim - 1] = coordinate[ndim - 1] + place[k];
  }
  return row;
}

static void write_blocks(int64_t begin, int64_t end, void *context) {
  const listing *l = context;
  const int ndim = l->shape->ndim;
  const int64_t width = l->shape->size[ndim - 1];
  int64_t coordinate[OL_MAX_DIMS], count;
  for (int64_t b = begin; b < end; b++) {
    int64_t *row = l->row + l->start[b] * ndim;
    for (int64_t at = b * BLOCK, stop = block_end(l, b); at < stop; at += count) {
      locate(l->shape, at / width, coordinate);
      coordinate[ndim - 1] = at % width;
      count = width - at % width < stop - at ? width - at % width : stop - at;
      row = write_rows(l->picked + at, count, coordinate, ndim, row);
    }
  }
}

/* The coordinates of what a contiguous mask of 0 and 1 picks, one row each. */
static ol_status list(ol_error *error, const ol_tensor *mask, ol_tensor **out) {
  listing l = { .shape = &mask->shape, .numel = mask->numel, .picked = ol_tensor_data(mask) };
  l.blocks = (l.numel + BLOCK - 1) / BLOCK;
  OL_TRY(
      ol_alloc_for(error, (size_t)(l.blocks + 1) * sizeof *l.start, "counts", (void **)&l.start));
  ol_parallel_for(l.blocks, ol_grain(BLOCK), count_blocks, &l);
  const ol_shape shape = { .ndim = 2, .size = { add_up(&l), mask->shape.ndim } };
  ol_status status = ol_tensor_new(error, OL_I64, &shape, out);
  if (status == OL_OK && mask->shape.ndim > 0) {
    l.row = ol_tensor_data(*out);
    ol_parallel_for(l.blocks, ol_grain(BLOCK), write_blocks, &l);
  }
  ol_free(l.start);
  return status;
}

static ol_status nonzero_forward(ol_error *error, ol_call *call) {
  ol_tensor *x = call->arg[0].tensor, *mask, *y = NULL;
  if (!tests[x->dtype])
    return ol_fail(error, OL_DTYPE, "nonzero: bfloat16 stores; convert with :to(\"float32\")");
  OL_TRY(mask_of(error, x, &mask));
  ol_status status = list(error, mask, &y);
  if (status == OL_OK) call->out[0] = y;
  ol_release(mask);
  return status;
}

const ol_family ol_mask_ops = {
  .name = "mask",
  .doc = "Picked elements",
  .ops =
      (const ol_op[]){
          { .name = "masked_select",
            .doc = "The elements where mask, broadcast, is not 0, as a one-dimensional tensor.",
            .example = "local x = optlua.tensor({ 1, -2, 3 })\n"
                       "print(x:masked_select(x:gt(0))) --> tensor([1., 3.])",
            .samples = "{ { t(3, 4), m(3, 4) }, { t(3, 4), m(4) }, { t(4), m(3, 1) }, "
                       "{ t(4, 3):t(), m(3, 4) }, { t(), m() }, { t(0, 3), m(3) }, "
                       "{ t(1, 4):expand(3, 4), m(3, 4) } }",
            .param = { { "self", OL_TENSOR }, { "mask", OL_TENSOR, .doc = "uint8" } },
            .saves = OL_SAVE_ARG(1),
            .forward = masked_forward,
            .backward = masked_back },
          { .name = "nonzero",
            .doc = "The coordinates, from 0, of the elements that are not 0: (count, dimensions), "
                   "int64, in row-major order.",
            .example = "print(optlua.tensor({ 5, 0, 7 }):nonzero():flatten()) --> tensor([0, 2])",
            .samples = "{ { m(3, 4) }, { t(2, 3) }, { i({ 4, 2 }, 2):t() }, { c() }, { c(0, 3) } }",
            .param = { { "self", OL_TENSOR } },
            .forward = nonzero_forward },
          { 0 } },
};
