-- Every op of the registry on its samples: gradients, golden numbers, examples, failing allocations. What
-- an entry lacks fails here by itself.
local checks = require "checks"
local core = require "optlua.core"
local examples = require "examples"
local samples = require "samples"

-- Samples whose gradient is not that of their differences, with the reason.
local without_differences = {
  ["embedding/2"] = "the row of padding_idx gets no gradient",
  ["embedding/3"] = "the row of padding_idx gets no gradient",
}

for n = 1, 6 do
  without_differences["ctc_loss/" .. n] = "as in PyTorch, the gradient is that behind log_softmax; see ctc_spec"
end

-- Samples for which PyTorch has no number, with the reason.
local without_golden = {
  ["clamp/9"] = "PyTorch does not broadcast the tensor to its bounds",
  ["cross_entropy/13"] = "no target counts: 0 here, NaN in PyTorch",
  ["nll_loss/7"] = "as cross_entropy/13",
  ["instance_norm/6"] = "PyTorch refuses an input of no items",
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

--- Compares with golden doubles.
local function matches_golden(what, tensor, entry, values)
  local place, expected = entry[1], {}
  for k = 1, tensor:numel() do expected[k] = string.unpack("<d", values, 8 * (place + k - 1) + 1) end
  checks.numbers(what, tensor, entry[2], expected)
end

local function leaves(arguments) return checks.leaves(samples.tensors(arguments)) end

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
        matches_golden(key .. " gradient " .. k, checks.gradient_of(leaf), entry.grads[k], golden.values)
      end
    end
  end
end

local function shares(arguments)
  for _, tensor in ipairs(samples.tensors(arguments)) do
    if checks.shares(tensor) then return true end
  end
  return false
end

local function check_gradient(op)
  for n, arguments in ipairs(samples.of(op, "float64")) do
    local key = ("%s/%d"):format(op.name, n)
    local function call() return samples.call(op, arguments) end
    if not samples.backward(call()) then assert.equal(0, #leaves(arguments), key .. ": no gradient flows") end
    if not (shares(arguments) or without_differences[key]) then
      checks.differences(key, leaves(arguments), call)
    end
  end
end

local function check_allocations(op)
  for n, arguments in ipairs(samples.of(op, "float32")) do
    checks.allocations(("%s/%d"):format(op.name, n), samples.tensors(arguments),
      function() return samples.call(op, arguments) end)
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
