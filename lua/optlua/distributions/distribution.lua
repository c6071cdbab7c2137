--- distribution: what every distribution is: parameters that broadcast to a batch shape, samples, densities.
local optlua = require "optlua"
local blame = require "optlua.blame"
local signature = require "optlua.signature"
local shape_text = require("optlua.shape").text

local distribution = {}

--- A batch of distributions. Its fields, beside the parameters, are for reading.
---@class optlua.Distribution
---@field batch_shape integer[] how many distributions it is
---@field mean optlua.Tensor
---@field variance optlua.Tensor
---@field stddev optlua.Tensor
local Distribution = {}
distribution.Distribution = Distribution

-- Fields that are computed when they are first read, by name: functions of the distribution.
local lazy = {}

function lazy.stddev(self) return self.variance:sqrt() end

--- Draws samples without history.
---@param ... integer|integer[] sample_shape, in front of the batch shape; default: none
---@return optlua.Tensor # (sample_shape…, batch_shape…)
function Distribution:sample(...)
  local shape = self:_shape(...)
  return optlua.no_grad(function() return self:_draw(shape) end)
end

--- Draws samples through which gradients flow to the parameters.
---@param ... integer|integer[] sample_shape, in front of the batch shape; default: none
---@return optlua.Tensor # (sample_shape…, batch_shape…)
function Distribution:rsample(...)
  if not self._differentiable then
    blame(("%s: has no rsample: samples do not move with the parameters"):format(self.name))
  end
  return self:_draw(self:_shape(...))
end

local read_shape = signature.reader("sample",
  { { "sample_shape", { default = {}, type = "integer|list", integer = true, min = 0 } } })

--- The full shape of samples, as a list.
function Distribution:_shape(...)
  local shape = read_shape(...)
  if type(shape) == "number" then shape = { shape } end
  return table.move(self.batch_shape, 1, #self.batch_shape, #shape + 1, shape)
end

--- A value as a tensor that fits the distribution.
function Distribution:_value(value, dtype)
  if type(value) == "number" then return optlua.tensor(value, { dtype = dtype or self._dtype }) end
  if not optlua.is_tensor(value) then
    blame(("%s: value: expected a tensor or a number, got %s"):format(self.name, type(value)))
  end
  return value
end

local function to_string(self)
  return ("%s(batch_shape=%s)"):format(self.name, shape_text(self.batch_shape))
end

local parameter = { required = true, type = "tensor|number" }

--- Makes a class of distributions. `arguments` are the parameters, as a signature lists them, or names alone. `fields` are computed when first read. The class defines
--- `init(self, …)`, which sets batch_shape and _dtype, `_draw(self, shape)`, `log_prob(self, value)` and
--- `entropy(self)`.
---@param name string
---@param arguments (string|{ [1]: string, [2]: any })[]
---@param fields table<string, fun(self: table): any>
---@return table
function distribution.class(name, arguments, fields)
  local class = setmetatable({ name = name }, { __index = Distribution })
  local list = {}
  for k, argument in ipairs(arguments) do
    list[k] = type(argument) == "table" and argument or { argument, parameter }
  end
  class.signature = signature.new(name, list)
  setmetatable(fields, { __index = lazy })
  class.meta = {
    __name = name,
    __tostring = to_string,
    __index = function(self, key)
      local method = class[key]
      if method ~= nil or not fields[key] then return method end
      local value = fields[key](self)
      rawset(self, key, value)
      return value
    end,
  }
  getmetatable(class).__call = function(_, ...)
    local self = {}
    class.init(self, ...)
    return setmetatable(self, class.meta)
  end
  return class
end

--- Whether a value is a distribution of a class.
---@return boolean
function distribution.is(value, class) return getmetatable(value) == class.meta end

-- Parameters ------------------------------------------------------------------------------------------

--- Raises, at the line that makes the distribution, unless every element of a mask is 1.
function distribution.demand(name, of, mask, wanted)
  if mask:all():item() == 0 then blame(("%s: %s: every element must be %s"):format(name, of, wanted)) end
end

--- The shape that some shapes broadcast to.
---@param name string
---@param shapes integer[][]
---@return integer[]
function distribution.broadcast(name, shapes)
  local result, ndim = {}, 0
  for _, shape in ipairs(shapes) do ndim = math.max(ndim, #shape) end
  for d = 1, ndim do
    result[d] = 1
    for _, shape in ipairs(shapes) do
      local size = shape[d - ndim + #shape] or 1
      if size ~= 1 and result[d] ~= 1 and size ~= result[d] then
        blame(("%s: shapes %s and %s do not broadcast"):format(name, shape_text(shapes[1]),
          shape_text(shapes[2])))
      end
      if size ~= 1 then result[d] = size end
    end
  end
  return result
end

local function to_tensor(name, of, value, dtype)
  if type(value) == "number" then return optlua.tensor(value, { dtype = dtype }) end
  if not value:is_floating_point() then
    blame(("%s: %s: is %s; wants float32 or float64"):format(name, of, value.dtype))
  end
  return value
end

local function dtype_of(values)
  local dtype = "float32"
  for _, value in ipairs(values) do
    if optlua.is_tensor(value) and value.dtype == "float64" then dtype = "float64" end
  end
  return dtype
end

--- Reads the parameters of a class into fields of self: tensors of one shape, the batch shape. Numbers
--- become tensors of the others' dtype.
---@param self table
---@param class table
---@param ... any
function distribution.parameters(self, class, ...)
  local values, shapes, list = { class.signature:values(...) }, {}, class.signature.list
  self._dtype = dtype_of(values)
  for k, argument in ipairs(list) do
    values[k] = to_tensor(class.name, argument[1], values[k], self._dtype)
    shapes[k] = values[k].shape
  end
  self.batch_shape = distribution.broadcast(class.name, shapes)
  for k, argument in ipairs(list) do self[argument[1]] = values[k]:expand(self.batch_shape) end
end

--- The arguments of classes that take either probabilities or their logarithms.
distribution.probs_or_logits = {
  { "probs", { required = false, type = "tensor|number" } },
  { "logits", { required = false, type = "tensor|number" } },
}

--- Reads one of them; a number becomes a tensor.
---@param class table
---@return "probs"|"logits" which
---@return optlua.Tensor value
function distribution.either(class, ...)
  local given = class.signature:read(...)
  if (given.probs == nil) == (given.logits == nil) then
    blame(("%s: either probs or logits must be given, and not both"):format(class.name))
  end
  local which = given.probs ~= nil and "probs" or "logits"
  return which, to_tensor(class.name, which, given[which], "float32")
end

--- The smallest difference of 1 and the next number of a dtype.
---@return number
function distribution.epsilon(dtype) return dtype == "float64" and 2.0 ^ -52 or 2.0 ^ -23 end

return distribution
