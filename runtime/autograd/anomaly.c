/* anomaly: finds NaNs and infinities. */
#include "autograd/anomaly.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/local.h"
#include "base/memory.h"

OL_THREAD_LOCAL bool watching;
OL_THREAD_LOCAL char where[OL_PLACE_TEXT];

bool ol_watching(void) { return watching; }

void ol_set_watching(bool on) { watching = on; }

void ol_set_place(const char *place) { snprintf(where, sizeof where, "%s", place); }

ol_status ol_keep_place(ol_error *error, char **out) {
  void *copy;
  *out = NULL;
  if (!watching) return OL_OK;
  size_t size = strlen(where) + 1;
  OL_TRY(ol_alloc_for(error, size, "detect_anomaly", &copy));
  *out = memcpy(copy, where, size);
  return OL_OK;
}

/* The worst that a tensor has. */
typedef enum flaw { NONE, INFINITY_, NAN_ } flaw;

static const char *flaw_text(flaw f) { return f == NAN_ ? "a NaN" : "an infinity"; }

static flaw flaw_of(double x) { return isnan(x) ? NAN_ : isinf(x) ? INFINITY_ : NONE; }

static double element(const ol_tensor *dense, int64_t i) {
  const char *data = ol_tensor_data(dense);
  if (dense->dtype == OL_F32) return ((const float *)data)[i];
  if (dense->dtype == OL_F64) return ((const double *)data)[i];
  return ol_bf16_to_f32(((const ol_bf16 *)data)[i]);
}

static ol_status look(ol_error *error, ol_tensor *tensor, flaw *worst) {
  ol_tensor *dense;
  if (!tensor || !ol_dtype_is_float(tensor->dtype)) return OL_OK;
  OL_TRY(ol_tensor_contiguous(error, tensor, &dense));
  for (int64_t i = 0; i < dense->numel && *worst != NAN_; i++) {
    flaw f = flaw_of(element(dense, i));
    if (f > *worst) *worst = f;
  }
  ol_release(dense);
  return OL_OK;
}

/* The worst of one argument. In place, the first has been overwritten. */
static ol_status look_at_argument(ol_error *error, const ol_call *call, int p, flaw *worst) {
  const ol_value *value = &call->arg[p];
  switch (call->op->param[p].kind) {
  case OL_TENSOR:
  case OL_OPERAND:
    if (value->tensor == call->out[0]) return OL_OK;
    return look(error, value->tensor, worst);
  case OL_TENSORS:
    for (int i = 0; i < value->tensors.count; i++)
      OL_TRY(look(error, value->tensors.item[i], worst));
    return OL_OK;
  case OL_NUMBER:
    if (value->given && flaw_of(value->number) > *worst) *worst = flaw_of(value->number);
    return OL_OK;
  default: return OL_OK;
  }
}

/* Which argument is not finite, by its name; NULL: none. */
static ol_status find_cause(ol_error *error, const ol_call *call, const char **name) {
  *name = NULL;
  for (int p = 0; call->op->param[p].name && !*name; p++) {
    flaw f = NONE;
    OL_TRY(look_at_argument(error, call, p, &f));
    if (f != NONE) *name = call->op->param[p].name;
  }
  return OL_OK;
}

static bool has_tensors(const ol_call *call) {
  for (const ol_param *param = call->op->param; param->name; param++)
    if (param->kind == OL_TENSOR || param->kind == OL_OPERAND || param->kind == OL_TENSORS)
      return true;
  return false;
}

ol_status ol_watch_forward(ol_error *error, const ol_call *call) {
  flaw f = NONE;
  const char *cause;
  if (call->op->flags & OL_OP_VIEW || !has_tensors(call)) return OL_OK; /* they compute nothing */
  for (int i = 0; i < OL_MAX_OUTPUTS; i++) OL_TRY(look(error, call->out[i], &f));
  if (f == NONE) return OL_OK;
  OL_TRY(find_cause(error, call, &cause));
  if (!cause)
    return ol_fail(error, OL_NONFINITE,
                   "detect_anomaly: the result of %s has %s; its arguments "
                   "are finite",
                   call->op->name, flaw_text(f));
  if (f == INFINITY_) return OL_OK;
  return ol_fail(error, OL_NONFINITE,
                 "detect_anomaly: the result of %s has a NaN: its argument %s is not finite",
                 call->op->name, cause);
}

ol_status ol_watch_gradient(ol_error *error, ol_tensor *gradient, const char *op, const char *place,
                            int input) {
  flaw f = NONE;
  char which[64] = "reaches";
  OL_TRY(look(error, gradient, &f));
  if (f == NONE) return OL_OK;
  if (input >= 0) snprintf(which, sizeof which, "backward computes for input %d of", input + 1);
  return ol_fail(error, OL_NONFINITE,
                 "detect_anomaly: the gradient that %s %s has %s; it was "
                 "called at %s",
                 which, op, flaw_text(f), place ? place : "a line before the watch");
}
