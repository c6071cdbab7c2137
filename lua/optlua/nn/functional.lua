--- functional: the layers' arithmetic as functions of tensors. They are the ops of the runtime,
--- gathered under the names that PyTorch gives them in torch.nn.functional, and a few made of them.
local optlua = require "optlua"
local blame = require "optlua.blame"
local measure = require "optlua.nn.measure"
local window = require "optlua.nn.window"
local options = require "optlua.options"
local signature = require "optlua.signature"

local functional = {}

for _, name in ipairs {
  "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "elu", "elu_", "celu", "celu_", "selu", "selu_", "prelu",
  "tanh", "sigmoid", "logsigmoid", "silu", "mish", "gelu", "glu", "softplus", "softsign", "softmax", "log_softmax",
  "hardtanh", "hardtanh_", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "threshold",
  "threshold_", "linear", "dropout", "layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm",
  "embedding", "one_hot", "cross_entropy", "nll_loss", "mse_loss",
  "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
  "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d",
  "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
  "scaled_dot_product_attention",
  "pad",
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

--- As optlua.interpolate; scale_factor may be a list of one number for rows and one for columns.
---@param input optlua.Tensor
---@param ... any size, scale_factor, mode, align_corners; or by name in a last table
---@return optlua.Tensor
function functional.interpolate(input, ...)
  local args, named = table.pack(...), {}
  if window.is_named(args[args.n]) then
    for key, value in pairs(args[args.n]) do named[key] = value end
    args[args.n] = nil
  end
  local factor = args[2] or named.scale_factor
  if type(factor) == "table" then
    if #factor == 0 or #factor > 2 then blame("interpolate: scale_factor: expected 1 or 2 numbers, got " .. #factor) end
    args[2] = nil
    named.scale_factor, named.scale_columns = factor[1], factor[2]
  end
  return optlua.interpolate(input, args[1], args[2], args[3], args[4], named)
end

return options.strict("nn.functional", functional)
