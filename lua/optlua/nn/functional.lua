--- functional: the layers' arithmetic as functions of tensors. They are the ops of the runtime,
--- gathered under the names that PyTorch gives them in torch.nn.functional, and a few made of them.
local optlua = require "optlua"
local blame = require "optlua.blame"
local measure = require "optlua.nn.measure"
local options = require "optlua.options"
local signature = require "optlua.signature"

local functional = {}

for _, name in ipairs {
  "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "elu", "elu_", "celu", "celu_", "selu", "selu_", "prelu",
  "tanh", "sigmoid", "logsigmoid", "silu", "mish", "gelu", "glu", "softplus", "softsign", "softmax", "log_softmax",
  "hardtanh", "hardtanh_", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "threshold",
  "threshold_", "linear", "dropout", "layer_norm", "batch_norm", "embedding", "one_hot",
  "cross_entropy", "nll_loss", "mse_loss",
  "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
  "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d",
  "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
  "scaled_dot_product_attention",
} do
  functional[name] = optlua[name]
end

--- softmax of -x along a dimension.
---@param x optlua.Tensor
---@param dim integer
---@return optlua.Tensor
function functional.softmin(x, dim) return optlua.softmax(-x, dim) end

--- A function of the tensors of a measure and its options.
local function checked(name, entry)
  local inputs, read = #entry.inputs, signature.reader(name, entry.options)
  return function(...)
    local tensors = { ... }
    for k, input in ipairs(entry.inputs) do
      local also = entry.also and entry.also[input] or ""
      if not optlua.is_tensor(tensors[k]) and not also:find(type(tensors[k]), 1, true) then
        blame(("%s: %s: tensor expected, got %s"):format(name, input, type(tensors[k])))
      end
    end
    local arguments = table.pack(read(select(inputs + 1, ...)))
    table.move(arguments, 1, arguments.n, inputs + 1, tensors)
    return entry.run(table.unpack(tensors, 1, inputs + arguments.n))
  end
end

for name, entry in pairs(measure) do functional[name] = checked(name, entry) end

return options.strict("nn.functional", functional)
