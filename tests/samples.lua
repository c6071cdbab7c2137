-- The samples of an op: lists of arguments, made of a few words.
--
--   t(2, 3)  float leaf that requires grad, ±0.1 … ±2       p(2, 3)  the same, 0.3 … 2
--   u(2, 3)  the same, within ±0.9                          c(2, 3)  as t, without grad
--   i({ 2, 3 }, n)  int64, 0 … n-1                          m(2, 3)  uint8 mask
--
-- Values are multiples of 1/1024, distinct within a tensor as far as the range allows, and the same on
-- every machine; they are exact in float32.
local optlua = require "optlua"

local samples = {}

--- A sequence of uniform numbers in [0, 1) (a linear congruential generator with the constants of POSIX
--- drand48).
local function sequence(seed)
  local state = seed * 65536 + 0x330E
  return function()
    state = (state * 25214903917 + 11) & 0xFFFFFFFFFFFF
    return state / 0x1000000000000
  end
end

local function count_of(shape)
  local count = 1
  for _, size in ipairs(shape) do count = count * size end
  return count
end

--- A tensor of values drawn one by one.
local function make(shape, dtype, draw)
  local values = {}
  for k = 1, count_of(shape) do values[k] = draw() end
  return optlua.tensor(values, { dtype = dtype }):reshape(shape)
end

local function round(x) return math.floor(x * 1024 + 0.5) / 1024 end

--- Draws from `range` values until one comes that was not there before in this tensor.
local function distinct(draw)
  local seen, tries = {}, 0
  return function()
    local value = draw()
    while seen[value] and tries < 10000 do value, tries = draw(), tries + 1 end
    seen[value] = true
    return value
  end
end

--- The words, for tensors of dtype.
local function words(dtype)
  local random = sequence(7)
  local function signed()
    local value = round(0.1 + 1.9 * random())
    return random() < 0.5 and -value or value
  end
  local function leaf(draw, requires_grad)
    return function(...)
      local tensor = make({ ... }, dtype, distinct(draw))
      tensor.requires_grad = requires_grad
      return tensor
    end
  end
  return {
    t = leaf(signed, true),
    c = leaf(signed, false),
    p = leaf(function() return round(0.3 + 1.7 * random()) end, true),
    u = leaf(function() return round(1.8 * random() - 0.9) end, true),
    i = function(shape, n) return make(shape, "int64", function() return math.floor(random() * n) end) end,
    m = function(...) return make({ ... }, "uint8", function() return random() < 0.5 and 1 or 0 end) end,
    optlua = optlua, math = math, inf = math.huge,
  }
end

--- Arguments whose tensors are leaves, strided as they were, so that gradients are those of the arguments
--- themselves.
function samples.leaves(value)
  if type(value) == "table" then
    local copy = {}
    for key, item in pairs(value) do copy[key] = samples.leaves(item) end
    return copy
  end
  if not optlua.is_tensor(value) then return value end
  local leaf = value:detach()
  leaf.requires_grad = value.requires_grad
  return leaf
end

--- The argument lists of an op, with fresh tensors of dtype, which are leaves.
---@param op table a descriptor of the registry
---@param dtype "float32"|"float64"
---@return any[][]
function samples.of(op, dtype)
  local chunk = assert(load("return " .. op.samples, "=samples of " .. op.name, "t", words(dtype)))
  return samples.leaves(chunk())
end

--- All tensors among some arguments, in order, lists and named options (sorted) included.
---@return optlua.Tensor[]
function samples.tensors(arguments)
  local found = {}
  local function visit(value)
    if optlua.is_tensor(value) then found[#found + 1] = value end
    if type(value) ~= "table" then return end
    for _, item in ipairs(value) do visit(item) end
    local names = {}
    for name in pairs(value) do
      if type(name) == "string" then names[#names + 1] = name end
    end
    table.sort(names)
    for _, name in ipairs(names) do visit(value[name]) end
  end
  visit(arguments)
  return found
end

--- The function of an op.
function samples.fn(op)
  return op.hidden and require("optlua.core").hidden[op.name] or optlua[op.name]
    or function(self, ...) return self[op.name](self, ...) end
end

--- Calls an op; one that writes in place gets a copy of its first argument.
---@return optlua.Tensor[] outputs
function samples.call(op, arguments)
  local own = table.move(arguments, 1, #arguments, 1, {})
  if op.inplace then own[1] = own[1]:clone() end
  return { samples.fn(op)(table.unpack(own)) }
end

--- Fixed weights, to make one number of an output.
function samples.weights(shape, dtype)
  local random = sequence(11)
  return make(shape, dtype, function() return round(0.5 + random()) end)
end

--- Runs backward from the sum of all outputs through which gradients flow, each times fixed weights;
--- returns false where there is none.
function samples.backward(outputs)
  local total
  for _, output in ipairs(outputs) do
    if optlua.is_tensor(output) and output.requires_grad then
      local term = (output * samples.weights(output.shape, output.dtype)):sum():to "float64"
      total = total and total + term or term
    end
  end
  if total then total:backward() end
  return total ~= nil
end

return samples
