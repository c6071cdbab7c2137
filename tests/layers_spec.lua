-- Every layer and loss of nn on its samples: PyTorch's numbers from PyTorch's state, gradients, failing
-- allocations. What a layer lacks fails here by itself.
local checks = require "checks"
local layers = require "layers"
local optlua = require "optlua"
local samples = require "samples"

-- Layers without samples, with the reason.
local without_samples = {
  Dropout = "random; tested in nn_spec",
}

local function key_of(class, n) return ("%s/%d"):format(class.name, n) end

local function call_of(layer, sample)
  return function() return layers.call(layer, sample) end
end

--- Calls visit(key, layer, sample) with each sample of a class in a dtype.
local function each(class, dtype, visit)
  for n, sample in ipairs(layers.samples(class, dtype)) do
    visit(key_of(class, n), layers.build(class, sample, dtype), sample, n)
  end
end

--- The golden tensors of a class: by sample, by name.
local function golden_of(class)
  local path = ("tests/golden/layers/%s.safetensors"):format(class.name)
  local file = io.open(path, "rb")
  if not file then
    error(("no golden numbers for %s: run tests/golden/dump_layers.lua and make_layers.py"):format(class.name), 0)
  end
  file:close()
  local found = {}
  for name, tensor in pairs((optlua.load(path))) do
    local n, kind, rest = name:match "^(%d+)%.(%l+)%.(.*)$"
    n = math.tointeger(n)
    found[n] = found[n] or { state = {}, output = {}, input = {}, grad = {}, buffer = {} }
    found[n][kind][math.tointeger(rest) or rest] = tensor
  end
  return found
end

local function equal(what, tensor, expected)
  assert(expected, what .. ": PyTorch has no such number")
  checks.numbers(what, tensor, { table.unpack(expected.shape) }, checks.flat(expected))
end

local function check_golden(class, dtype)
  local golden = golden_of(class)
  each(class, dtype, function(key, layer, sample, n)
    if sample.without then return end
    local expected = assert(golden[n], "no golden numbers for " .. key)
    layer:load_state_dict(expected.state)
    local outputs = layers.call(layer, sample)
    assert.equal(#expected.output, #outputs, key)
    for k, output in ipairs(outputs) do equal(("%s output %d"):format(key, k), output, expected.output[k]) end
    samples.backward(outputs)
    for k, leaf in ipairs(checks.leaves(samples.tensors(sample.inputs))) do
      equal(("%s gradient of input %d"):format(key, k), checks.gradient_of(leaf), expected.input[k])
    end
    for name, parameter in layer:named_parameters() do
      equal(("%s gradient of %s"):format(key, name), checks.gradient_of(parameter), expected.grad[name])
    end
    for name, buffer in layer:named_buffers() do equal(key .. " " .. name, buffer, expected.buffer[name]) end
  end)
end

--- What a call sees and must not change: inputs, parameters, buffers.
local function tensors_of(layer, sample)
  local list = samples.tensors(sample.inputs)
  for _, tensor in layer:named_parameters() do list[#list + 1] = tensor end
  for _, tensor in layer:named_buffers() do list[#list + 1] = tensor end
  return list
end

local function check_gradient(class)
  each(class, "float64", function(key, layer, sample)
    local leaves = checks.leaves(tensors_of(layer, sample))
    for _, leaf in ipairs(leaves) do
      if checks.shares(leaf) then return end
    end
    if not samples.backward(layers.call(layer, sample)) then
      assert.equal(0, #leaves, key .. ": no gradient flows")
    end
    if not sample.without_differences then checks.differences(key, leaves, call_of(layer, sample)) end
  end)
end

--- A layer that keeps statistics changes them; all others change nothing.
local function check_allocations(class)
  each(class, "float32", function(key, layer, sample)
    local list = checks.leaves(tensors_of(layer, sample))
    checks.allocations(key, list, call_of(layer, sample))
  end)
end

for _, class in ipairs(layers.all()) do
  describe("nn." .. class.name .. ":", function()
    if without_samples[class.name] then return end
    it("has samples", function()
      assert.is_string(class.samples)
      assert.is_true(#layers.samples(class, "float32") > 0)
    end)
    if not class.samples then return end
    it("agrees with PyTorch in float64", function() check_golden(class, "float64") end)
    it("agrees with PyTorch in float32", function() check_golden(class, "float32") end)
    it("has the gradient of its differences", function() check_gradient(class) end)
    it("survives every failing allocation", function() check_allocations(class) end)
    it("names its parts as what it prints", function()
      each(class, "float32", function(key, layer)
        assert.matches("^" .. class.name .. "%(", tostring(layer), key)
      end)
    end)
  end)
end
