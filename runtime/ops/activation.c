/* activation: elementwise nonlinearities of networks. */
#include "base/parallel.h"
#include "ops/families.h"
#include "ops/pointwise.h"

/* relu: max(x, 0); NaN stays NaN. */
#define RELU(x) ((x) < 0 ? 0 : (x))
OL_DEFINE_UNARY(relu, RELU)

/* Its gradient passes where the output is positive. */
#define RELU_BACKWARD(g, y) ((y) > 0 ? (g) : 0)
OL_DEFINE_BINARY(relu_backward, RELU_BACKWARD)

static ol_status relu_forward(ol_error *error, ol_call *call) {
  return ol_unary(error, "relu", &relu, call->arg[0].tensor, &call->out[0]);
}

static ol_status relu_grad(ol_error *error, ol_back *back) {
  return ol_binary(error, "relu", &relu_backward, back->grad_out[0], back->out[0], &back->grad[0]);
}

const ol_family ol_activation_ops = {
  .name = "activation",
  .doc = "Activations",
  .ops =
      (const ol_op[]){
          { .name = "relu",
            .doc = "Elementwise max(x, 0).",
            .example = "print(optlua.tensor({ -1, 0, 2 }):relu()) --> tensor([0., 0., 2.])",
            .samples = "{ { t(3, 4) }, { t() }, { t(0, 3) }, { t(4, 3):t() } }",
            .param = { { "self", OL_TENSOR } },
            .saves = OL_SAVE_OUT(0),
            .forward = relu_forward,
            .backward = relu_grad },
          { 0 } },
};
