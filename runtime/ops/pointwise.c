/* pointwise: common dtypes, broadcasting, tiles. */
#include "ops/pointwise.h"

#include "base/memory.h"
#include "tensor/copy.h"

enum { OPERANDS = OL_MAP_MAX + 1 }; /* the result, then the arguments */

/* A map that is decided: what runs over which operands. */
typedef struct plan {
  ol_map_fn *kernel;
  const double *scalars;
  int operands;
  ol_tensor *tensor[OPERANDS];
  ol_dtype dtype[OPERANDS]; /* that the kernel wants */
  ol_shape shape;
} plan;

/* What a row needs: strides that are dense to the kernel, and how the others are copied. */
typedef struct row_job {
  ol_map_fn *kernel;
  const double *scalars;
  int operands;
  int64_t size[OPERANDS];    /* bytes of an element, as the kernel wants it */
  ol_row_fn *copy[OPERANDS]; /* into the buffer, of the result out of it */
  bool converts[OPERANDS];   /* the tensor's dtype is another */
} row_job;

ol_dtype ol_result_dtype(int count, ol_tensor *const *x) {
  bool dims = false, any = false;
  ol_dtype of_dims = OL_U8, of_all = OL_U8;
  for (int k = 0; k < count; k++) {
    if (x[k]->dtype == OL_BF16) return OL_BF16;
    of_all = any ? ol_dtype_promote(of_all, x[k]->dtype) : x[k]->dtype;
    any = true;
    if (x[k]->shape.ndim == 0) continue;
    of_dims = dims ? ol_dtype_promote(of_dims, x[k]->dtype) : x[k]->dtype;
    dims = true;
  }
  return dims && ol_dtype_is_float(of_dims) == ol_dtype_is_float(of_all) ? of_dims : of_all;
}

static ol_status undefined(ol_error *error, const char *op, ol_dtype dtype) {
  if (dtype == OL_BF16)
    return ol_fail(error, OL_DTYPE, "%s: bfloat16 stores; convert with :to(\"float32\")", op);
  return ol_fail(error, OL_DTYPE, "%s: is not defined for %s", op, ol_dtype_name(dtype));
}

static ol_dtype widest_integer(const plan *p) {
  ol_dtype dtype = OL_U8;
  for (int k = 1; k < p->operands; k++) dtype = ol_dtype_promote(dtype, p->tensor[k]->dtype);
  return dtype;
}

static ol_status choose_kernel(ol_error *error, const char *op, const ol_rows *rows, plan *p) {
  int skip = rows->choice ? 1 : 0;
  ol_dtype dtype = ol_result_dtype(p->operands - 1 - skip, p->tensor + 1 + skip);
  if (rows->widen && !ol_dtype_is_float(dtype)) dtype = OL_F32;
  if (rows->mask && dtype == OL_U8) dtype = widest_integer(p); /* 300 is not 44 */
  if (!rows->of[dtype]) return undefined(error, op, dtype);
  p->dtype[0] = rows->mask ? OL_U8 : dtype;
  for (int k = 1; k < p->operands; k++) p->dtype[k] = dtype;
  if (rows->choice) p->dtype[1] = OL_U8;
  if (rows->choice && p->tensor[1]->dtype != OL_U8)
    return ol_fail(error, OL_DTYPE, "%s: the mask is %s; a mask is uint8", op,
                   ol_dtype_name(p->tensor[1]->dtype));
  p->kernel = rows->of[dtype];
  return OL_OK;
}

static ol_status make_plan(ol_error *error, const char *op, const ol_rows *rows, int count,
                           ol_tensor *const *x, const double *scalars, plan *p) {
  static const double zeros[OL_SCALARS];
  p->operands = count + 1;
  p->tensor[0] = p->tensor[1] = NULL; /* the result is made later */
  p->scalars = scalars ? scalars : zeros;
  p->shape = x[0]->shape;
  for (int k = 0; k < count; k++) p->tensor[k + 1] = x[k];
  OL_TRY(choose_kernel(error, op, rows, p));
  for (int k = 1; k < count; k++)
    if (x[k]->shape.ndim > 0 && !ol_shape_equal(&p->shape, &x[k]->shape))
      OL_TRY(ol_shape_broadcast(error, op, &p->shape, &x[k]->shape, &p->shape));
  return OL_OK;
}

/* One tile of a row that is not dense in every operand, through the buffers. Constants are copied
 * once a row. */
static void run_tile(const row_job *job, int64_t begin, int64_t count, char *const *data,
                     const int64_t *stride, char (*buffer)[OL_TILE * sizeof(double)]) {
  char *at[OPERANDS];
  bool direct[OPERANDS];
  for (int k = 0; k < job->operands; k++) {
    direct[k] = stride[k] == job->size[k] && !job->converts[k];
    at[k] = direct[k] ? data[k] + begin * stride[k] : buffer[k];
    if (k == 0 || direct[k] || (stride[k] == 0 && begin > 0)) continue;
    job->copy[k](count, (char *[]){ at[k], data[k] + begin * stride[k] },
                 (int64_t[]){ job->size[k], stride[k] }, NULL);
  }
  job->kernel(count, at, job->scalars);
  if (!direct[0])
    job->copy[0](count, (char *[]){ data[0] + begin * stride[0], at[0] },
                 (int64_t[]){ stride[0], job->size[0] }, NULL);
}

static void run_row(int64_t count, char *const *data, const int64_t *stride, const void *context) {
  const row_job *job = context;
  _Alignas(OL_ALIGNMENT) char buffer[OPERANDS][OL_TILE * sizeof(double)];
  for (int64_t begin = 0; begin < count; begin += OL_TILE)
    run_tile(job, begin, count - begin < OL_TILE ? count - begin : OL_TILE, data, stride, buffer);
}

/* Runs a plan of few elements as one tile, where its operands are dense or one element: there is no
 * time for a loop. */
static bool run_small(const plan *p) {
  _Alignas(OL_ALIGNMENT) char buffer[OPERANDS][OL_TILE * sizeof(double)];
  char *data[OPERANDS];
  const int64_t numel = p->tensor[0]->numel;
  if (numel > OL_TILE) return false;
  for (int k = 0; k < p->operands; k++) {
    const ol_tensor *t = p->tensor[k];
    const bool spread = t->numel != numel, converts = t->dtype != p->dtype[k];
    if (spread ? t->numel != 1 : !ol_tensor_is_contiguous(t)) return false;
    data[k] = ol_tensor_data(t);
    if (!spread && !converts) continue;
    if (k == 0) return false;
    int64_t stride[] = { (int64_t)ol_dtype_size(p->dtype[k]),
                         spread ? 0 : (int64_t)ol_dtype_size(t->dtype) };
    ol_copy_row(p->dtype[k], t->dtype)(numel, (char *[]){ buffer[k], data[k] }, stride, NULL);
    data[k] = buffer[k];
  }
  if (numel > 0) p->kernel(numel, data, p->scalars);
  return true;
}

static void run_plan(const plan *p) {
  if (run_small(p)) return;
  row_job job = { .kernel = p->kernel, .scalars = p->scalars, .operands = p->operands };
  for (int k = 0; k < p->operands; k++) {
    ol_dtype own = p->tensor[k]->dtype, wanted = p->dtype[k];
    job.size[k] = (int64_t)ol_dtype_size(wanted);
    job.converts[k] = own != wanted;
    job.copy[k] = k == 0 ? ol_copy_row(own, wanted) : ol_copy_row(wanted, own);
  }
  ol_loop loop;
  ol_loop_init(&loop, &p->shape, p->operands, p->tensor);
  ol_loop_run(&loop, OL_GRAIN, run_row, &job);
}

ol_status ol_map(ol_error *error, const char *op, const ol_rows *rows, int count,
                 ol_tensor *const *x, const double *scalars, ol_tensor **out) {
  plan p;
  OL_TRY(make_plan(error, op, rows, count, x, scalars, &p));
  OL_TRY(ol_tensor_new(error, p.dtype[0], &p.shape, &p.tensor[0]));
  run_plan(&p);
  *out = p.tensor[0];
  return OL_OK;
}

static ol_status check_target(ol_error *error, const char *op, const plan *p,
                              const ol_tensor *target) {
  char own[OL_SHAPE_TEXT], wide[OL_SHAPE_TEXT];
  if (!ol_shape_equal(&target->shape, &p->shape))
    return ol_fail(error, OL_SHAPE, "%s: the result has shape %s, which shape %s cannot hold", op,
                   ol_shape_text(&p->shape, wide), ol_shape_text(&target->shape, own));
  if (ol_dtype_is_float(p->dtype[0]) && !ol_dtype_is_float(target->dtype))
    return ol_fail(error, OL_DTYPE, "%s: the result is %s, which a tensor of %s cannot hold", op,
                   ol_dtype_name(p->dtype[0]), ol_dtype_name(target->dtype));
  if (ol_tensor_overlaps_itself(target))
    return ol_fail(error, OL_STATE, "%s: the tensor is expanded: its elements share memory", op);
  return OL_OK;
}

/* Arguments that may overlap the target at other places are replaced by copies. */
static ol_status set_apart(ol_error *error, plan *p, const ol_tensor *target, bool *copied) {
  for (int k = 1; k < p->operands; k++) {
    ol_tensor *x = p->tensor[k];
    if (x->storage != target->storage || ol_tensor_same_place(x, target)) continue;
    OL_TRY(ol_tensor_clone(error, x, &p->tensor[k]));
    copied[k] = true;
  }
  return OL_OK;
}

ol_status ol_map_into(ol_error *error, const char *op, const ol_rows *rows, int count,
                      ol_tensor *const *x, const double *scalars, ol_tensor *target) {
  plan p;
  bool copied[OPERANDS] = { false };
  OL_TRY(make_plan(error, op, rows, count, x, scalars, &p));
  OL_TRY(check_target(error, op, &p, target));
  p.tensor[0] = target;
  ol_status status = set_apart(error, &p, target, copied);
  if (status == OL_OK) {
    run_plan(&p);
    ol_tensor_touch(target);
  }
  for (int k = 1; k < p.operands; k++)
    if (copied[k]) ol_release(p.tensor[k]);
  return status;
}

ol_status ol_map_rows(ol_error *error, ol_call *call, const ol_rows *rows, int count,
                      ol_tensor *const *x, const double *scalars) {
  const char *name = call->op->name;
  if (!(call->op->flags & OL_OP_INPLACE))
    return ol_map(error, name, rows, count, x, scalars, &call->out[0]);
  OL_TRY(ol_map_into(error, name, rows, count, x, scalars, call->arg[0].tensor));
  call->out[0] = ol_retain(call->arg[0].tensor);
  return OL_OK;
}

ol_status ol_map_call(ol_error *error, ol_call *call, const ol_rows *rows, int count,
                      const double *scalars) {
  ol_tensor *x[OL_MAP_MAX];
  for (int k = 0; k < count; k++) x[k] = call->arg[k].tensor;
  return ol_map_rows(error, call, rows, count, x, scalars);
}

ol_status ol_keep_first(ol_error *error, ol_call *call, bool needed) {
  if (!needed || !call->recording || !(call->op->flags & OL_OP_INPLACE)) return OL_OK;
  return ol_tensor_clone(error, call->arg[0].tensor, &call->kept[0]);
}

ol_status ol_flat_backward(ol_error *error, ol_back *back) {
  for (int i = 0; i < back->inputs; i++)
    if (back->needs[i])
      OL_TRY(ol_tensor_zeros(error, back->dtype[i], back->shape[i], &back->grad[i]));
  return OL_OK;
}
