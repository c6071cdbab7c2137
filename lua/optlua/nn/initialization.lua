--- initialization: fills parameters in place: nn.init.kaiming_normal_(layer.weight). Nothing is recorded,
--- random numbers come from optlua's generator, and each function returns its tensor. Options are given
--- by position or in a last table.
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"
local signature = require "optlua.signature"

local init = {}

--- Adds init.NAME(tensor, options…): `fill(tensor, options…)` runs without recording.
local function define(name, list, fill)
  local read = signature.reader(name, list)
  init[name] = function(tensor, ...)
    if not optlua.is_tensor(tensor) then
      blame(("%s: tensor: tensor expected, got %s"):format(name, type(tensor)))
    end
    optlua.no_grad(fill, tensor, read(...))
    return tensor
  end
end

--- Refuses tensors of fewer (or more) dimensions.
local function demand_dims(name, tensor, least, most)
  if tensor.ndim < least or tensor.ndim > (most or math.huge) then
    blame(("%s: a tensor of %s dimensions expected, got shape (%s)"):format(name,
      most == nil and "at least " .. least or most == least and least or least .. " to " .. most,
      table.concat(tensor.shape, ", ")))
  end
end

-- Constants -------------------------------------------------------------------------------------------

--- Every element is val.
define("constant_", { { "val", { required = true, type = "number" } } },
  function(tensor, val) tensor:fill_(val) end)

define("ones_", {}, function(tensor) tensor:fill_(1) end)

define("zeros_", {}, function(tensor) tensor:zero_() end)

--- The identity: a matrix with ones on its diagonal.
define("eye_", {}, function(tensor)
  demand_dims("eye_", tensor, 2, 2)
  tensor:copy_(optlua.eye(tensor.shape[1], tensor.shape[2], { dtype = tensor.dtype }))
end)

--- A convolution's weight (out, in, …) that hands on its first channels: in each of `groups`, ones at the
--- centre of the kernel of channel k to channel k.
define("dirac_", { { "groups", { default = 1, integer = true, min = 1 } } }, function(tensor, groups)
  demand_dims("dirac_", tensor, 3, 5)
  local shape = tensor.shape
  if shape[1] % groups ~= 0 then
    blame(("dirac_: %d channels cannot be divided into %d groups"):format(shape[1], groups))
  end
  local outputs = shape[1] // groups
  tensor:zero_()
  for first = 0, shape[1] - 1, outputs do
    for k = 1, math.min(outputs, shape[2]) do
      local element = tensor:select(1, first + k):select(1, k)
      for d = 3, #shape do element = element:select(1, shape[d] // 2 + 1) end
      element:fill_(1)
    end
  end
end)

-- Random numbers --------------------------------------------------------------------------------------

--- Uniform from a to below b.
define("uniform_", { { "a", 0 }, { "b", 1 } }, function(tensor, a, b) tensor:uniform_(a, b) end)

--- Normal.
define("normal_", { { "mean", 0 }, { "std", { default = 1, min = 0 } } },
  function(tensor, mean, std) tensor:normal_(mean, std) end)

--- The share of a standard normal distribution that lies below x, as a number of erf: -1 … 1.
local function erf_of(x) return optlua.tensor(x / math.sqrt(2), { dtype = "float64" }):erf():item() end

--- Normal of mean and std, between a and b.
define("trunc_normal_", {
  { "mean", 0 }, { "std", { default = 1, above = 0 } }, { "a", -2 }, { "b", 2 },
}, function(tensor, mean, std, a, b)
  if a >= b then blame(("trunc_normal_: a is %g, b %g; a must be below b"):format(a, b)) end
  tensor:uniform_(erf_of((a - mean) / std), erf_of((b - mean) / std))
  tensor:erfinv_():mul_(std * math.sqrt(2)):add_(mean):clamp_(a, b)
end)

--- A matrix whose columns hold zeros in a share `sparsity` of their rows, rounded up, and normal numbers in
--- the others (Martens, 2010).
define("sparse_", {
  { "sparsity", { required = true, type = "number", min = 0, max = 1 } }, { "std", { default = 0.01, min = 0 } },
}, function(tensor, sparsity, std)
  demand_dims("sparse_", tensor, 2, 2)
  local zeros = math.ceil(sparsity * tensor.shape[1])
  local rank = optlua.rand(tensor.shape):argsort(1):argsort(1) -- 0, 1, … in random order, in each column
  tensor:normal_(0, std):masked_fill_(rank:lt(zeros), 0)
end)

-- Scaled by the number of inputs and outputs ------------------------------------------------------------

--- The numbers of inputs and outputs of each unit of a weight (out, in, …).
local function fans(name, tensor)
  demand_dims(name, tensor, 2)
  local shape, field = tensor.shape, 1
  for d = 3, #shape do field = field * shape[d] end
  return shape[2] * field, shape[1] * field
end

local gains = { tanh = 5 / 3, relu = math.sqrt(2), selu = 3 / 4 }
for _, name in ipairs {
  "linear", "sigmoid", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
} do
  gains[name] = 1
end

--- The factor that keeps the variance of what goes through a nonlinearity. `param` is the slope of
--- leaky_relu, 0.01 by default.
---@param nonlinearity string "linear", "conv2d" …, "sigmoid", "tanh", "relu", "leaky_relu", "selu"
---@param param? number
---@return number
function init.calculate_gain(nonlinearity, param)
  if nonlinearity == "leaky_relu" then
    if param ~= nil and type(param) ~= "number" then
      blame(("calculate_gain: param: number expected, got %s"):format(type(param)))
    end
    return math.sqrt(2 / (1 + (param or 0.01) ^ 2))
  end
  local gain = gains[nonlinearity]
  if not gain then
    local names = options.names(gains)
    names[#names + 1] = "leaky_relu"
    blame("calculate_gain: " .. options.unknown("nonlinearity", nonlinearity, names))
  end
  return gain
end

local function fill_uniform(tensor, std) tensor:uniform_(-math.sqrt(3) * std, math.sqrt(3) * std) end
local function fill_normal(tensor, std) tensor:normal_(0, std) end

--- x_uniform_ and x_normal_, of a standard deviation that `deviation(tensor, options…)` gives.
local function define_pair(prefix, list, deviation)
  for suffix, fill in pairs { uniform_ = fill_uniform, normal_ = fill_normal } do
    local name = prefix .. suffix
    define(name, list, function(tensor, ...)
      local std = deviation(name, tensor, ...)
      if tensor:numel() > 0 then fill(tensor, std) end
    end)
  end
end

--- Variance 2 / (inputs + outputs), times gain² (Glorot & Bengio, 2010).
define_pair("xavier_", { { "gain", 1 } }, function(name, tensor, gain)
  local inputs, outputs = fans(name, tensor)
  return gain * math.sqrt(2 / (inputs + outputs))
end)

--- Variance gain² / inputs (or outputs, with mode "fan_out"), with the gain of a nonlinearity and, of
--- leaky_relu, its slope a (He et al., 2015).
define_pair("kaiming_", {
  { "a", 0 }, { "mode", { default = "fan_in", choices = { "fan_in", "fan_out" } } }, { "nonlinearity", "leaky_relu" },
}, function(name, tensor, a, mode, nonlinearity)
  local inputs, outputs = fans(name, tensor)
  return init.calculate_gain(nonlinearity, a) / math.sqrt(mode == "fan_in" and inputs or outputs)
end)

local block = 32 -- rows that are taken off the earlier ones in one product

--- Makes the rows of a matrix (rows, columns), rows <= columns, orthonormal: Gram-Schmidt, each step
--- twice, which is enough (Giraud et al., 2005).
local function orthonormalize(matrix)
  local function take_off(rows, earlier)
    for _ = 1, 2 do rows:sub_(rows:matmul(earlier:t()):matmul(earlier)) end
  end
  for first = 1, matrix.shape[1], block do
    local rows = matrix:narrow(1, first, math.min(block, matrix.shape[1] - first + 1))
    if first > 1 then take_off(rows, matrix:narrow(1, 1, first - 1)) end
    for k = 1, rows.shape[1] do
      local row = rows:narrow(1, k, 1)
      if k > 1 then take_off(row, rows:narrow(1, 1, k - 1)) end
      row:div_(row:norm())
    end
  end
end

--- Orthonormal rows or, where there are more rows than columns, columns, times gain; dimensions beyond the
--- second count as columns (Saxe et al., 2013).
define("orthogonal_", { { "gain", 1 } }, function(tensor, gain)
  demand_dims("orthogonal_", tensor, 2)
  if tensor:numel() == 0 then return end
  local rows = tensor.shape[1]
  local columns = tensor:numel() // rows
  local matrix = optlua.randn({ math.min(rows, columns), math.max(rows, columns) }, { dtype = "float64" })
  orthonormalize(matrix)
  if rows > columns then matrix = matrix:t() end
  tensor:copy_(matrix:reshape(tensor.shape) * gain)
end)

return options.strict("nn.init", init)
