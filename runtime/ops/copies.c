/* copies: the same elements in other memory, in another dtype, or written into a tensor. */
#include "ops/families.h"
#include "ops/view.h"

static ol_status clone_forward(ol_error *error, ol_call *call) {
  return ol_tensor_clone(error, call->arg[0].tensor, &call->out[0]);
}

static ol_status contiguous_forward(ol_error *error, ol_call *call) {
  return ol_tensor_contiguous(error, call->arg[0].tensor, &call->out[0]);
}

static ol_status convert(ol_error *error, ol_tensor *x, ol_dtype dtype, ol_tensor **out) {
  if (x->dtype != dtype) return ol_tensor_convert(error, x, dtype, out);
  *out = ol_retain(x);
  return OL_OK;
}

static ol_status to_forward(ol_error *error, ol_call *call) {
  return convert(error, call->arg[0].tensor, call->arg[1].dtype, &call->out[0]);
}

static ol_status type_as_forward(ol_error *error, ol_call *call) {
  return convert(error, call->arg[0].tensor, call->arg[1].tensor->dtype, &call->out[0]);
}

/* The tape converts it to the input's dtype. */
static ol_status same_back(ol_error *error, ol_back *back) {
  (void)error;
  back->grad[0] = ol_retain(back->grad_out[0]);
  return OL_OK;
}

static ol_status copy_in_forward(ol_error *error, ol_call *call) {
  ol_tensor *self = call->arg[0].tensor;
  OL_TRY(ol_tensor_copy(error, self, call->arg[1].tensor));
  call->out[0] = ol_retain(self);
  return OL_OK;
}

/* Nothing of what stood in self is left. */
static ol_status copy_in_back(ol_error *error, ol_back *back) {
  (void)error;
  if (back->needs[1]) back->grad[1] = ol_retain(back->grad_out[0]);
  return OL_OK;
}

/* The part of x that the arguments of assign_ name. */
static ol_status region(ol_error *error, const ol_value *arg, const ol_tensor *x, ol_tensor **out) {
  return ol_part(error, "assign", x, &arg[2].list, &arg[3].list, &arg[4].list, out);
}

static ol_status assign_forward(ol_error *error, ol_call *call) {
  ol_tensor *self = call->arg[0].tensor, *part;
  OL_TRY(region(error, call->arg, self, &part));
  ol_status status = ol_tensor_copy(error, part, call->arg[1].tensor);
  ol_release(part);
  if (status == OL_OK) call->out[0] = ol_retain(self);
  return status;
}

/* The gradient with zeros where other values were written. */
static ol_status without_region(ol_error *error, ol_back *back, ol_tensor **out) {
  ol_tensor *grad, *part = NULL;
  OL_TRY(ol_tensor_clone(error, back->grad_out[0], &grad));
  ol_status status = region(error, back->arg, grad, &part);
  if (status == OL_OK) status = ol_tensor_fill(error, part, 0);
  ol_release(part);
  if (status != OL_OK)
    ol_release(grad);
  else
    *out = grad;
  return status;
}

static ol_status assign_back(ol_error *error, ol_back *back) {
  if (back->needs[0]) OL_TRY(without_region(error, back, &back->grad[0]));
  if (back->needs[1]) OL_TRY(region(error, back->arg, back->grad_out[0], &back->grad[1]));
  return OL_OK;
}

const ol_family ol_copies_ops = {
  .name = "copies",
  .doc = "Copies and conversions",
  .ops =
      (const ol_op[]){
          { .name = "clone",
            .doc = "A contiguous copy.",
            .example = "print(optlua.tensor({ 1, 2 }):clone()) --> tensor([1., 2.])",
            .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() }, "
                       "{ t(1, 3):expand(4, 3) } }",
            .param = { { "self", OL_TENSOR } },
            .forward = clone_forward,
            .backward = same_back },
          { .name = "contiguous",
            .doc = "The tensor itself if its elements lie in row-major order without gaps, else a "
                   "copy in which they do.",
            .example = "print(optlua.zeros(2, 3):t():contiguous():is_contiguous()) --> true",
            .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() }, "
                       "{ t(1, 3):expand(4, 3) } }",
            .param = { { "self", OL_TENSOR } },
            .forward = contiguous_forward,
            .backward = same_back },
          { .name = "to",
            .doc = "The tensor itself if it has the dtype, else a copy converted to it: fractions "
                   "lose what follows the point when they become integers, and are rounded to "
                   "nearest when they become narrower.",
            .example = "print(optlua.tensor({ 1.5, -2.5 }):to(\"int64\")) --> tensor([ 1, -2])",
            .samples =
                "{ { t(3, 4), \"float64\" }, { t(), \"float64\" }, { t(0, 3), \"float64\" }, "
                "{ t(4, 3):t(), \"float64\" }, { i({ 3 }, 9), \"float64\" } }",
            .param = { { "self", OL_TENSOR }, { "dtype", OL_TYPE, .doc = "the new dtype" } },
            .forward = to_forward,
            .backward = same_back },
          { .name = "type_as",
            .doc = "As to, with the dtype of another tensor.",
            .example = "print(optlua.tensor({ 1.5 }):type_as(optlua.arange(2))) --> tensor([1])",
            .samples =
                "{ { t(3, 4), c(1) }, { t(4, 3):t(), c(0) }, { t(), c() }, { i({ 3 }, 9), c() } }",
            .param = { { "self", OL_TENSOR }, { "other", OL_TENSOR } },
            .forward = type_as_forward,
            .backward = same_back },
          { .name = "copy_",
            .doc = "Writes the elements of src, converted and broadcast, into the tensor.",
            .example = "print(optlua.zeros(3):copy_(7)) --> tensor([7., 7., 7.])",
            .samples = "{ { t(3, 4), t(4) }, { t(), t() }, { t(0, 3), t(3) }, "
                       "{ t(3, 4), t(4, 3):t() } }",
            .param = { { "self", OL_TENSOR },
                       { "src", OL_OPERAND, .doc = "broadcasts to the shape of self" } },
            .flags = OL_OP_INPLACE,
            .forward = copy_in_forward,
            .backward = copy_in_back },
          { .name = "assign_",
            .doc = "Writes value, converted and broadcast, into a part of the tensor: what "
                   "t[{ … }] = v does.",
            .samples =
                "{ { t(3, 4), t(2), { 0, 1 }, { -1, 2 } }, { t(3, 4), t(), { 1 }, { 2 } }, "
                "{ t(3, 4), t(3), { 0, 3 }, { 3, -1 } }, { t(), t(), {}, {} }, "
                "{ t(0, 3), t(), { 0, 1 }, { 0, 1 } }, { t(3, 4), t(4, 2):t(), { 1 }, { 2 } }, "
                "{ t(5, 4), t(3), { 0, 3 }, { 3, -1 }, { 2, 1 } } }",
            .param = { { "self", OL_TENSOR },
                       { "value", OL_OPERAND, .doc = "broadcasts to the part" },
                       { "starts", OL_SIZES, .doc = "from 0, one a dimension" },
                       { "lengths", OL_SIZES, .doc = "-1: one position; its dimension is dropped" },
                       { "steps", OL_SIZES, true, .doc = "1 where left out" } },
            .flags = OL_OP_INPLACE | OL_OP_HIDDEN,
            .forward = assign_forward,
            .backward = assign_back },
          { 0 } },
};
