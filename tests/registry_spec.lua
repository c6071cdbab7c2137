-- Every op of the registry on its samples: gradients, golden numbers, examples, failing allocations. What
-- an entry lacks fails here by itself.
local optlua = require "optlua"
local core = require "optlua.core"
local examples = require "examples"
local samples = require "samples"

-- Samples whose gradient is not that of their differences, with the reason.
local without_differences = {
  ["embedding/2"] = "the row of padding_idx gets no gradient",
  ["embedding/3"] = "the row of padding_idx gets no gradient",
}

-- Samples for which PyTorch has no number, with the reason.
local without_golden = {
  ["clamp/9"] = "PyTorch does not broadcast the tensor to its bounds",
  ["cross_entropy/13"] = "no target counts: 0 here, NaN in PyTorch",
  ["nll_loss/7"] = "as cross_entropy/13",
  ["scatter/3"] = "PyTorch cannot differentiate a source larger than the index",
  ["scatter_/3"] = "as scatter/3",
  ["scatter_add/3"] = "as scatter/3",
  ["scatter_add_/3"] = "as scatter/3",
}

--- The golden numbers of a family: entries by sample, and the doubles that they point into. A family
--- whose numbers were never made has none.
local function golden_of(family)
  local file = io.open(("tests/golden/ops/%s.bin"):format(family.name), "rb")
  if not file then return { entries = {} } end
  local values = file:read "a"
  file:close()
  return { entries = require("golden.ops." .. family.name), values = values }
end

local function flat(tensor)
  return tensor:detach():to "float64":contiguous():reshape(-1):totable()
end

local function same(a, b) return a == b or (a ~= a and b ~= b) end

local tolerance = { float64 = 1e-12, float32 = 1e-6, int64 = 0, uint8 = 0 }

--- Compares with golden doubles, relative to the largest of them.
local function matches_golden(what, tensor, entry, values)
  local place, shape, list = entry[1], entry[2], flat(tensor)
  assert.same(shape, { table.unpack(tensor.shape) }, what)
  local expected, largest = {}, 0
  for k = 1, #list do
    expected[k] = string.unpack("<d", values, 8 * (place + k - 1) + 1)
    if math.abs(expected[k]) < math.huge then largest = math.max(largest, math.abs(expected[k])) end
  end
  for k, x in ipairs(list) do
    local close = math.abs(x - expected[k]) <= tolerance[tensor.dtype] * largest
    if not (close or same(x, expected[k])) then
      error(("%s: element %d is %.17g, PyTorch has %.17g"):format(what, k, x, expected[k]), 0)
    end
  end
end

local function leaves(arguments)
  local found = {}
  for _, tensor in ipairs(samples.tensors(arguments)) do
    if tensor.requires_grad then found[#found + 1] = tensor end
  end
  return found
end

local function gradient(leaf)
  return leaf.grad or optlua.zeros(leaf.shape, { dtype = leaf.dtype })
end

local function check_golden(op, dtype, golden)
  for n, arguments in ipairs(samples.of(op, dtype)) do
    local key = ("%s/%d"):format(op.name, n)
    local entry = golden.entries[key]
    if not without_golden[key] then
      assert(entry, "no golden numbers for " .. key .. ": run tests/golden/dump_ops.lua and make_ops.py")
      local outputs = samples.call(op, arguments)
      assert.equal(#entry.outputs, #outputs, key)
      for k, output in ipairs(outputs) do
        matches_golden(key .. " output " .. k, output, entry.outputs[k], golden.values)
      end
      samples.backward(outputs)
      for k, leaf in ipairs(leaves(arguments)) do
        matches_golden(key .. " gradient " .. k, gradient(leaf), entry.grads[k], golden.values)
      end
    end
  end
end

--- The weighted sum of all outputs, as a number.
local function weighted(op, arguments)
  local total = 0
  for _, output in ipairs(samples.call(op, arguments)) do
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

--- Whether elements of an argument share memory: differences cannot shift them one by one.
local function shares(arguments)
  for _, tensor in ipairs(samples.tensors(arguments)) do
    for d, size in ipairs(tensor.shape) do
      if size > 1 and tensor:stride(d) == 0 then return true end
    end
  end
  return false
end

local function check_gradient(op)
  local step = 1e-6
  for n, arguments in ipairs(samples.of(op, "float64")) do
    if not samples.backward(samples.call(op, arguments)) then
      assert.equal(0, #leaves(arguments), ("%s/%d: no gradient flows"):format(op.name, n))
    end
    local skip = shares(arguments) or without_differences[("%s/%d"):format(op.name, n)]
    for l, leaf in ipairs(skip and {} or leaves(arguments)) do
      local analytic = flat(gradient(leaf))
      optlua.no_grad(function()
        for k, shift in ipairs(shifts(leaf)) do
          shift(step)
          local above = weighted(op, arguments)
          shift(-2 * step)
          local below = weighted(op, arguments)
          shift(step)
          local numeric = (above - below) / (2 * step)
          local close = math.abs(numeric - analytic[k]) <= 1e-6 * math.max(1, math.abs(numeric))
          if not close then
            error(("%s/%d: gradient %d, element %d is %.10g, by differences %.10g"):format(op.name, n, l, k,
              analytic[k], numeric), 0)
          end
        end
      end)
    end
  end
end

--- Fails every allocation of a call and its backward in turn: an error each time, arguments untouched,
--- nothing leaked.
local function check_allocations(op)
  for n, arguments in ipairs(samples.of(op, "float32")) do
    local before = {}
    for k, tensor in ipairs(samples.tensors(arguments)) do before[k] = flat(tensor) end
    local function run() return samples.backward(samples.call(op, arguments)) end
    run()
    for _, leaf in ipairs(leaves(arguments)) do leaf.grad = nil end
    collectgarbage()
    local blocks = core.hidden.memory().live_blocks
    local at, done = 0, false
    while not done do
      core.hidden.fail_allocations(at)
      local ok, message = pcall(run)
      core.hidden.fail_allocations(-1)
      done = ok
      if not ok then
        assert.matches("out of memory", tostring(message))
        for _, leaf in ipairs(leaves(arguments)) do assert.is_nil(leaf.grad) end
      end
      at = at + 1
    end
    for _, leaf in ipairs(leaves(arguments)) do leaf.grad = nil end
    collectgarbage()
    assert.equal(blocks, core.hidden.memory().live_blocks, ("%s/%d leaks"):format(op.name, n))
    for k, tensor in ipairs(samples.tensors(arguments)) do
      for e, x in ipairs(flat(tensor)) do assert.is_true(same(x, before[k][e]), op.name .. " changed an argument") end
    end
  end
end

for _, family in ipairs(core.registry()) do
  describe("family " .. family.name .. ":", function()
    local golden = golden_of(family)
    for _, op in ipairs(family.ops) do
      if not op.hidden then
        it(op.name .. " is described, and its example prints what it says", function()
          assert.is_string(op.doc)
          if op.example or not op.inplace then examples.check(op.example) end
        end)
      end
      if not op.native then
        it(op.name .. " has samples", function()
          assert.is_string(op.samples)
          assert.is_true(#samples.of(op, "float32") > 0)
        end)
        it(op.name .. " survives every failing allocation", function() check_allocations(op) end)
        if not op.random then
          it(op.name .. " agrees with PyTorch in float64", function() check_golden(op, "float64", golden) end)
          it(op.name .. " agrees with PyTorch in float32", function() check_golden(op, "float32", golden) end)
        end
        if op.differentiable and not op.random then
          it(op.name .. " has the gradient of its differences", function() check_gradient(op) end)
        end
      end
    end
  end)
end
