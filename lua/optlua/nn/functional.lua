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

--- A function of the tensors of a measure and its options, which checks them.
local function checked(name, entry)
  local list = {}
  for k, input in ipairs(entry.inputs) do
    local also = entry.also and entry.also[input]
    list[k] = { input, { required = true, type = also and "tensor|" .. also or "tensor" } }
  end
  table.move(entry.options, 1, #entry.options, #list + 1, list)
  local read = signature.reader(name, list)
  return function(...) return entry.run(read(...)) end
end

for name, entry in pairs(measure) do functional[name] = checked(name, entry) end

local read_interpolate = signature.reader("interpolate", {
  { "input", { required = true, type = "tensor" } }, { "size", window.sizes(1) },
  { "scale_factor", { required = false, type = "number|list" } }, { "mode", "nearest" },
  { "align_corners", { required = false, type = "boolean" } },
})

--- As optlua.interpolate; scale_factor may be a list of one number for rows and one for columns.
---@param ... any input, size, scale_factor, mode, align_corners; or by name in a last table
---@return optlua.Tensor
function functional.interpolate(...)
  local input, size, factor, mode, align_corners = read_interpolate(...)
  local columns
  if type(factor) == "table" then
    if #factor == 0 or #factor > 2 then
      blame("interpolate: scale_factor: expected 1 or 2 numbers, got " .. #factor)
    end
    factor, columns = factor[1], factor[2]
  end
  return optlua.interpolate(input, size, factor, mode, align_corners, columns)
end

return options.strict("nn.functional", functional)
