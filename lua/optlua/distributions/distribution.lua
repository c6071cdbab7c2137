--- distribution: what every distribution is: parameters that broadcast to a batch shape, samples, densities.
local optlua = require "optlua"
local options = require "optlua.options"

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
---@param sample_shape? integer|integer[] in front of the batch shape; default: none
---@return optlua.Tensor # (sample_shape…, batch_shape…)
function Distribution:sample(sample_shape)
  local shape = self:_shape(sample_shape)
  return optlua.no_grad(function() return self:_draw(shape) end)
end

--- Draws samples through which gradients flow to the parameters.
---@param sample_shape? integer|integer[]
---@return optlua.Tensor
function Distribution:rsample(sample_shape)
  if not self._differentiable then
    error(("%s: has no rsample: samples do not move with the parameters"):format(self.name), 2)
  end
  return self:_draw(self:_shape(sample_shape))
end

--- The full shape of samples, as a list.
function Distribution:_shape(sample_shape)
  if type(sample_shape) == "number" then sample_shape = { sample_shape } end
  local shape = options.argument(self.name .. ":sample", "sample_shape", sample_shape or {},
    { required = true, type = "list", integer = true, min = 0 }, 4)
  return table.move(self.batch_shape, 1, #self.batch_shape, #shape + 1, shape)
end

--- A value as a tensor that fits the distribution.
function Distribution:_value(value, dtype)
  if type(value) == "number" then return optlua.tensor(value, { dtype = dtype or self._dtype }) end
  if not optlua.is_tensor(value) then
    error(("%s: value: expected a tensor or a number, got %s"):format(self.name, type(value)), 3)
  end
  return value
end

local function to_string(self)
  return ("%s(batch_shape=(%s))"):format(self.name, table.concat(self.batch_shape, ", "))
end

--- Makes a class of distributions. `fields` are computed when first read. The class defines
--- `init(self, …)`, which sets batch_shape and _dtype, `_draw(self, shape)`, `log_prob(self, value)` and
--- `entropy(self)`.
---@param name string
---@param fields table<string, fun(self: table): any>
---@return table
function distribution.class(name, fields)
  local class = setmetatable({ name = name }, { __index = Distribution })
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
function distribution.demand(name, parameter, mask, wanted)
  if mask:all():item() == 0 then error(("%s: %s: every element must be %s"):format(name, parameter, wanted), 4) end
end

--- The shape that some shapes broadcast to; errors blame `level`.
---@param name string
---@param shapes integer[][]
---@param level integer
---@return integer[]
function distribution.broadcast(name, shapes, level)
  local result, ndim = {}, 0
  for _, shape in ipairs(shapes) do ndim = math.max(ndim, #shape) end
  for d = 1, ndim do
    result[d] = 1
    for _, shape in ipairs(shapes) do
      local size = shape[d - ndim + #shape] or 1
      if size ~= 1 and result[d] ~= 1 and size ~= result[d] then
        error(("%s: shapes (%s) and (%s) do not broadcast"):format(name, table.concat(shapes[1], ", "),
          table.concat(shapes[2], ", ")), level)
      end
      if size ~= 1 then result[d] = size end
    end
  end
  return result
end

local function to_tensor(name, parameter, value, dtype)
  if type(value) == "number" then return optlua.tensor(value, { dtype = dtype }) end
  if not optlua.is_tensor(value) then
    error(("%s: %s: expected a tensor or a number, got %s"):format(name, parameter,
      value == nil and "nothing" or type(value)), 5)
  end
  if not value:is_floating_point() then
    error(("%s: %s: is %s; wants float32 or float64"):format(name, parameter, value.dtype), 5)
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

--- Reads parameters, in order, into the fields `names` of self: tensors of one shape, the batch shape.
--- Numbers become tensors of the others' dtype.
---@param self table
---@param name string the class, for messages
---@param names string[]
---@param ... optlua.Tensor|number
function distribution.parameters(self, name, names, ...)
  local values, shapes = table.pack(...), {}
  self._dtype = dtype_of(values)
  for k, parameter in ipairs(names) do
    local value = to_tensor(name, parameter, values[k], self._dtype)
    values[k], shapes[k] = value, value.shape
  end
  self.batch_shape = distribution.broadcast(name, shapes, 5)
  for k, parameter in ipairs(names) do self[parameter] = values[k]:expand(self.batch_shape) end
end

--- Reads the parameter `probs`, given as it is or by its name, or `logits`, given by its name. A number
--- becomes a tensor.
---@return "probs"|"logits" which
---@return optlua.Tensor value
function distribution.probs_or_logits(name, given)
  if optlua.is_tensor(given) or type(given) ~= "table" then given = { probs = given } end
  local opts = options.check(name, given, {
    probs = { required = false, type = "tensor|number" }, logits = { required = false, type = "tensor|number" },
  }, 5)
  if (opts.probs == nil) == (opts.logits == nil) then
    error(("%s: either probs or logits must be given, and not both"):format(name), 4)
  end
  local which = opts.probs ~= nil and "probs" or "logits"
  return which, to_tensor(name, which, opts[which], "float32")
end

--- The smallest difference of 1 and the next number of a dtype.
---@return number
function distribution.epsilon(dtype) return dtype == "float64" and 2.0 ^ -52 or 2.0 ^ -23 end

return distribution
