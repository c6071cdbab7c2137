-- checks: what holds of every op and every layer: its numbers are the expected ones, its gradients those of
-- differences, and a failing allocation is an error that changes nothing.
local assert = require "luassert"
local core = require "optlua.core"
local optlua = require "optlua"
local samples = require "samples"

core.hidden.poison_memory(true) -- what is read before it is written is NaN

local checks = {}

--- The elements of a tensor as a list of numbers.
---@return number[]
function checks.flat(tensor)
  return tensor:detach():to "float64":contiguous():reshape(-1):totable()
end

local flat = checks.flat

local function same(a, b) return a == b or (a ~= a and b ~= b) end

local tolerance = { float64 = 1e-12, float32 = 1e-6, int64 = 0, uint8 = 0 }

--- Raises unless a tensor has the expected shape and numbers, to 1e-12 (float64) or 1e-6 (float32) of the
--- largest of them.
---@param what string
---@param tensor optlua.Tensor
---@param shape integer[]
---@param expected number[]
function checks.numbers(what, tensor, shape, expected)
  assert.same(shape, { table.unpack(tensor.shape) }, what)
  local largest = 0
  for _, x in ipairs(expected) do
    if math.abs(x) < math.huge then largest = math.max(largest, math.abs(x)) end
  end
  for k, x in ipairs(flat(tensor)) do
    local close = math.abs(x - expected[k]) <= tolerance[tensor.dtype] * largest
    if not (close or same(x, expected[k])) then
      error(("%s: element %d is %.17g, PyTorch has %.17g"):format(what, k, x, expected[k]), 0)
    end
  end
end

--- Those of some tensors that want a gradient.
---@param tensors optlua.Tensor[]
---@return optlua.Tensor[]
function checks.leaves(tensors)
  local found = {}
  for _, tensor in ipairs(tensors) do
    if tensor.requires_grad then found[#found + 1] = tensor end
  end
  return found
end

--- The gradient of a leaf; zeros where none came.
---@return optlua.Tensor
function checks.gradient_of(leaf)
  return leaf.grad or optlua.zeros(leaf.shape, { dtype = leaf.dtype })
end

--- The weighted sum of all outputs, as a number.
local function weighted(outputs)
  local total = 0
  for _, output in ipairs(outputs) do
    if output:is_floating_point() then
      total = total + (output * samples.weights(output.shape, output.dtype)):sum():item()
    end
  end
  return total
end

--- Elements of a leaf, one by one, as functions that shift them.
local function shifts(leaf)
  local list = {}
  local function visit(view)
    if view.ndim == 0 then
      list[#list + 1] = function(by) view:add_(by) end
    else
      for k = 1, #view do visit(view[k]) end
    end
  end
  visit(leaf:detach())
  return list
end

--- Whether elements of a tensor share memory: differences cannot shift them one by one.
function checks.shares(tensor)
  for d, size in ipairs(tensor.shape) do
    if size > 1 and tensor:stride(d) == 0 then return true end
  end
  return false
end

--- Raises unless the gradients that a backward pass left in the leaves are those of central differences
--- of the weighted outputs that call() returns.
---@param what string
---@param leaves optlua.Tensor[] of float64
---@param call fun(): optlua.Tensor[]
function checks.differences(what, leaves, call)
  local step = 1e-6
  for l, leaf in ipairs(leaves) do
    local analytic = flat(checks.gradient_of(leaf))
    optlua.no_grad(function()
      for k, shift in ipairs(shifts(leaf)) do
        shift(step)
        local above = weighted(call())
        shift(-2 * step)
        local below = weighted(call())
        shift(step)
        local numeric = (above - below) / (2 * step)
        if math.abs(numeric - analytic[k]) > 1e-6 * math.max(1, math.abs(numeric)) then
          error(("%s: gradient %d, element %d is %.10g, by differences %.10g"):format(what, l, k, analytic[k],
            numeric), 0)
        end
      end
    end)
  end
end

--- Fails every allocation of a call and its backward in turn: an error each time, tensors untouched, no
--- gradient left, nothing leaked.
---@param what string
---@param tensors optlua.Tensor[] all that the call sees
---@param call fun(): optlua.Tensor[]
function checks.allocations(what, tensors, call)
  local leaves, before = checks.leaves(tensors), {}
  for k, tensor in ipairs(tensors) do before[k] = flat(tensor) end
  local function clear()
    for _, leaf in ipairs(leaves) do leaf.grad = nil end
    collectgarbage()
  end
  local function run() return samples.backward(call()) end
  run()
  clear()
  local blocks = core.hidden.memory().live_blocks
  local at, done = 0, false
  while not done do
    core.hidden.fail_allocations(at)
    local ok, message = pcall(run)
    done = core.hidden.fail_allocations(-1) >= 0 -- the count outlasted the call
    if done then
      assert.is_true(ok, message)
    else
      assert.is_false(ok, what .. " went on after a failed allocation")
      assert.matches("out of memory", tostring(message))
      for _, leaf in ipairs(leaves) do assert.is_nil(leaf.grad) end
    end
    at = at + 1
  end
  clear()
  assert.equal(blocks, core.hidden.memory().live_blocks, what .. " leaks")
  for k, tensor in ipairs(tensors) do
    for e, x in ipairs(flat(tensor)) do assert.is_true(same(x, before[k][e]), what .. " changed an argument") end
  end
end

return checks
