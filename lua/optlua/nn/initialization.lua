--- initialization: fills parameters in place: nn.init.kaiming_normal_(layer.weight). Nothing is recorded,
--- random numbers come from optlua's generator, and each function returns its tensor. Options are given
--- by position or by name in a last table.
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"
local signature = require "optlua.signature"
local shape_text = require("optlua.shape").text

local init = {}

--- Makes a function that checks the tensor of init.NAME and reads its options.
local function reader(name, list)
  local read = signature.reader(name, list)
  return function(tensor, ...)
    if not optlua.is_tensor(tensor) then
      blame(("%s: tensor: tensor expected, got %s"):format(name, type(tensor)))
    end
    return read(...)
  end
end

--- Calls a function, or a method by its name, with a tensor and more, without recording; returns the
--- tensor.
local function fill(tensor, fn, ...)
  optlua.no_grad(type(fn) == "string" and tensor[fn] or fn, tensor, ...)
  return tensor
end

--- Refuses tensors of fewer dimensions, or of more.
local function demand_dims(name, tensor, least, most)
  if tensor.ndim >= least and tensor.ndim <= (most or math.huge) then return end
  local wanted = most == nil and "at least " .. least or most == least and least or least .. " to " .. most
  blame(("%s: a tensor of %s dimensions expected, got shape %s"):format(name, wanted,
    shape_text(tensor)))
end

-- Constants -------------------------------------------------------------------------------------------

local read_constant = reader("constant_", { { "val", { required = true, type = "number", nan = true } } })
local read_ones, read_zeros, read_eye = reader("ones_", {}), reader("zeros_", {}), reader("eye_", {})

--- Sets every element to val.
---@param tensor optlua.Tensor
---@param val number
---@return optlua.Tensor tensor
function init.constant_(tensor, val) return fill(tensor, "fill_", read_constant(tensor, val)) end

--- Sets every element to 1.
---@param tensor optlua.Tensor
---@return optlua.Tensor tensor
function init.ones_(tensor)
  read_ones(tensor)
  return fill(tensor, "fill_", 1)
end

--- Sets every element to 0.
---@param tensor optlua.Tensor
---@return optlua.Tensor tensor
function init.zeros_(tensor)
  read_zeros(tensor)
  return fill(tensor, "zero_")
end

--- The identity: a matrix with ones on its diagonal.
---@param tensor optlua.Tensor of 2 dimensions
---@return optlua.Tensor tensor
function init.eye_(tensor)
  read_eye(tensor)
  demand_dims("eye_", tensor, 2, 2)
  return fill(tensor, "copy_", optlua.eye(tensor.shape[1], tensor.shape[2], { dtype = tensor.dtype }))
end

local read_dirac = reader("dirac_", { { "groups", { default = 1, integer = true, min = 1 } } })

--- Sets one element to 1: of output channel and input channel, at the centre of the kernel.
local function mark_centre(tensor, output, input)
  local element = tensor:select(1, output):select(1, input)
  for d = 3, tensor.ndim do element = element:select(1, tensor.shape[d] // 2 + 1) end
  element:fill_(1)
end

--- A convolution's weight (out, in, …) that hands its channels on: in each of `groups`, output channel k
--- is input channel k.
---@param tensor optlua.Tensor of 3 to 5 dimensions
---@param groups? integer default 1
---@return optlua.Tensor tensor
function init.dirac_(tensor, groups)
  groups = read_dirac(tensor, groups)
  demand_dims("dirac_", tensor, 3, 5)
  local channels, inputs = tensor.shape[1], tensor.shape[2]
  if channels % groups ~= 0 then
    blame(("dirac_: %d channels cannot be divided into %d groups"):format(channels, groups))
  end
  local outputs = channels // groups
  return fill(tensor, function()
    tensor:zero_()
    for k = 1, channels do
      local input = (k - 1) % outputs + 1
      if input <= inputs then mark_centre(tensor, k, input) end
    end
  end)
end

-- Random numbers --------------------------------------------------------------------------------------

local read_uniform = reader("uniform_", { { "a", 0 }, { "b", 1 } })

--- Uniform numbers from a to below b.
---@param tensor optlua.Tensor
---@param a? number|{ a?: number, b?: number } default 0; or the options
---@param b? number default 1
---@return optlua.Tensor tensor
function init.uniform_(tensor, a, b) return fill(tensor, "uniform_", read_uniform(tensor, a, b)) end

local read_normal = reader("normal_", { { "mean", 0 }, { "std", { default = 1, min = 0 } } })

--- Normal numbers.
---@param tensor optlua.Tensor
---@param mean? number|{ mean?: number, std?: number } default 0; or the options
---@param std? number default 1
---@return optlua.Tensor tensor
function init.normal_(tensor, mean, std) return fill(tensor, "normal_", read_normal(tensor, mean, std)) end

local read_trunc_normal = reader("trunc_normal_", {
  { "mean", 0 }, { "std", { default = 1, above = 0 } }, { "a", -2 }, { "b", 2 },
})

--- erf(x / √2): the share of a standard normal distribution within ±x.
local function share(x) return optlua.tensor(x / math.sqrt(2), { dtype = "float64" }):erf():item() end

--- Normal numbers that lie between a and b.
---@param tensor optlua.Tensor
---@param mean? number|{ mean?: number, std?: number, a?: number, b?: number } default 0; or the options
---@param std? number default 1
---@param a? number default -2
---@param b? number default 2
---@return optlua.Tensor tensor
function init.trunc_normal_(tensor, mean, std, a, b)
  mean, std, a, b = read_trunc_normal(tensor, mean, std, a, b)
  if a >= b then blame(("trunc_normal_: a is %g, b %g; a must be below b"):format(a, b)) end
  local low, high = share((a - mean) / std), share((b - mean) / std)
  return fill(tensor, function()
    local numbers = optlua.zeros(tensor.shape, { dtype = tensor.dtype }):uniform_(low, high)
    tensor:copy_(numbers:erfinv_():mul_(std * math.sqrt(2)):add_(mean):clamp_(a, b))
  end)
end

local read_sparse = reader("sparse_", {
  { "sparsity", { required = true, type = "number", min = 0, max = 1 } }, { "std", { default = 0.01, min = 0 } },
})

--- A matrix of normal numbers, with zeros in a share `sparsity` of the rows of each column, rounded up
--- (Martens, 2010).
---@param tensor optlua.Tensor of 2 dimensions
---@param sparsity number 0 … 1
---@param std? number default 0.01
---@return optlua.Tensor tensor
function init.sparse_(tensor, sparsity, std)
  sparsity, std = read_sparse(tensor, sparsity, std)
  demand_dims("sparse_", tensor, 2, 2)
  local zeros = math.ceil(sparsity * tensor.shape[1])
  return fill(tensor, function()
    local numbers = optlua.zeros(tensor.shape, { dtype = tensor.dtype }):normal_(0, std)
    local rank = optlua.rand(tensor.shape):argsort(1):argsort(1) -- 0, 1, … in random order, in each column
    tensor:copy_(numbers:masked_fill_(rank:lt(zeros), 0))
  end)
end

-- Scaled by the numbers of inputs and outputs ---------------------------------------------------------

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

--- The factor that keeps the variance of what goes through a nonlinearity: "linear", "conv2d" …,
--- "sigmoid", "tanh", "relu", "leaky_relu", "selu".
---@param nonlinearity string
---@param param? number the slope of leaky_relu; default 0.01
---@return number
function init.calculate_gain(nonlinearity, param)
  if nonlinearity == "leaky_relu" then
    if param ~= nil and type(param) ~= "number" then
      blame(("calculate_gain: param: number expected, got %s"):format(type(param)))
    end
    return math.sqrt(2 / (1 + (param or 0.01) ^ 2))
  end
  local gain = gains[nonlinearity]
  if gain then return gain end
  local names = options.names(gains)
  names[#names + 1] = "leaky_relu"
  blame("calculate_gain: " .. options.unknown("nonlinearity", nonlinearity, names))
end

--- Fills with uniform or normal numbers of mean 0 and a standard deviation.
local function uniform_of(tensor, std)
  local bound = math.sqrt(3) * std
  return tensor:numel() > 0 and fill(tensor, "uniform_", -bound, bound) or tensor
end
local function normal_of(tensor, std) return tensor:numel() > 0 and fill(tensor, "normal_", 0, std) or tensor end

local function glorot(name, tensor, gain)
  local inputs, outputs = fans(name, tensor)
  return gain * math.sqrt(2 / (inputs + outputs))
end

local gain_option = { { "gain", 1 } }
local read_xavier_uniform = reader("xavier_uniform_", gain_option)
local read_xavier_normal = reader("xavier_normal_", gain_option)

--- Uniform numbers of variance 2 gain² / (inputs + outputs) (Glorot & Bengio, 2010).
---@param tensor optlua.Tensor (out, in, …)
---@param gain? number default 1
---@return optlua.Tensor tensor
function init.xavier_uniform_(tensor, gain)
  gain = read_xavier_uniform(tensor, gain)
  return uniform_of(tensor, glorot("xavier_uniform_", tensor, gain))
end

--- Normal numbers of variance 2 gain² / (inputs + outputs) (Glorot & Bengio, 2010).
---@param tensor optlua.Tensor (out, in, …)
---@param gain? number default 1
---@return optlua.Tensor tensor
function init.xavier_normal_(tensor, gain)
  gain = read_xavier_normal(tensor, gain)
  return normal_of(tensor, glorot("xavier_normal_", tensor, gain))
end

local function he(name, tensor, a, mode, nonlinearity)
  local inputs, outputs = fans(name, tensor)
  return init.calculate_gain(nonlinearity, a) / math.sqrt(mode == "fan_in" and inputs or outputs)
end

local he_options = {
  { "a", 0 }, { "mode", { default = "fan_in", choices = { "fan_in", "fan_out" } } }, { "nonlinearity", "leaky_relu" },
}
local read_kaiming_uniform = reader("kaiming_uniform_", he_options)
local read_kaiming_normal = reader("kaiming_normal_", he_options)

--- Uniform numbers of variance gain² / inputs, or outputs (He et al., 2015); see calculate_gain.
---@param tensor optlua.Tensor (out, in, …)
---@param a? number|{ a?: number, mode?: string, nonlinearity?: string } the slope of leaky_relu, default 0; or the options
---@param mode? "fan_in"|"fan_out" keeps the variance of outputs, or that of gradients
---@param nonlinearity? string default "leaky_relu"
---@return optlua.Tensor tensor
function init.kaiming_uniform_(tensor, a, mode, nonlinearity)
  return uniform_of(tensor, he("kaiming_uniform_", tensor, read_kaiming_uniform(tensor, a, mode, nonlinearity)))
end

--- Normal numbers of variance gain² / inputs, or outputs (He et al., 2015); see calculate_gain.
---@param tensor optlua.Tensor (out, in, …)
---@param a? number|{ a?: number, mode?: string, nonlinearity?: string } the slope of leaky_relu, default 0; or the options
---@param mode? "fan_in"|"fan_out" keeps the variance of outputs, or that of gradients
---@param nonlinearity? string default "leaky_relu"
---@return optlua.Tensor tensor
function init.kaiming_normal_(tensor, a, mode, nonlinearity)
  return normal_of(tensor, he("kaiming_normal_", tensor, read_kaiming_normal(tensor, a, mode, nonlinearity)))
end

-- Orthogonal ------------------------------------------------------------------------------------------

local BLOCK = 32 -- rows that are made orthogonal to the earlier ones in one product

--- Takes what rows have in common with earlier rows off them: twice, which is enough (Giraud et al., 2005).
local function take_off(rows, earlier)
  for _ = 1, 2 do rows:sub_(rows:matmul(earlier:t()):matmul(earlier)) end
end

--- Makes the rows of a matrix (rows, columns), rows <= columns, orthonormal (Gram-Schmidt).
local function orthonormalize(matrix)
  for first = 1, matrix.shape[1], BLOCK do
    local rows = matrix:narrow(1, first, math.min(BLOCK, matrix.shape[1] - first + 1))
    if first > 1 then take_off(rows, matrix:narrow(1, 1, first - 1)) end
    for k = 1, rows.shape[1] do
      local row = rows:narrow(1, k, 1)
      if k > 1 then take_off(row, rows:narrow(1, 1, k - 1)) end
      row:div_(row:norm())
    end
  end
end

local read_orthogonal = reader("orthogonal_", gain_option)

--- Orthonormal rows or, where there are more rows than columns, columns, times gain (Saxe et al., 2013).
--- Dimensions beyond the second count as columns.
---@param tensor optlua.Tensor of at least 2 dimensions
---@param gain? number default 1
---@return optlua.Tensor tensor
function init.orthogonal_(tensor, gain)
  gain = read_orthogonal(tensor, gain)
  demand_dims("orthogonal_", tensor, 2)
  if tensor:numel() == 0 then return tensor end
  local rows = tensor.shape[1]
  local columns = tensor:numel() // rows
  return fill(tensor, function()
    local matrix = optlua.randn({ math.min(rows, columns), math.max(rows, columns) }, { dtype = "float64" })
    orthonormalize(matrix)
    tensor:copy_((rows > columns and matrix:t() or matrix):reshape(tensor.shape) * gain)
  end)
end

return options.strict("nn.init", init)
