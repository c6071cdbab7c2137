--- functional: the layers' arithmetic as functions of tensors. They are the ops of the runtime,
--- gathered under the names that PyTorch gives them in torch.nn.functional.
local optlua = require "optlua"
local options = require "optlua.options"

local functional = {}

for _, name in ipairs {
  "linear", "relu", "gelu", "tanh", "sigmoid", "silu", "softplus", "leaky_relu", "elu", "softmax",
  "log_softmax", "dropout", "layer_norm", "embedding", "one_hot", "cross_entropy", "nll_loss", "mse_loss",
} do
  functional[name] = optlua[name]
end

return options.strict("nn.functional", functional)
