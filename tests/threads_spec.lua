-- Every differentiable op of the registry gives the same bits on 1, 2 and 3 threads, forward and backward, on
-- tensors that are large enough for several. They are its samples with all sizes multiplied, or those named here.
local core = require "optlua.core"
local optlua = require "optlua"
local samples = require "samples"

local LEAST, MOST = 1 << 16, 1 << 19 -- elements of the largest tensor of a call

-- Calls of ops whose samples cannot be multiplied, as samples.
local large = {
  bmm = "{ { t(40, 50, 60), t(40, 60, 30) } }",
  baddbmm = "{ { t(40, 50, 30), t(40, 50, 60), t(40, 60, 30) } }",
  dot = "{ { t(100000), t(100000) } }",
  outer = "{ { t(70000), t(3) }, { t(3), t(70000) } }",
  layer_norm = "{ { t(400, 300), 300, t(300), t(300) }, { t(9, 20000), 20000, t(20000), t(20000) } }",
  rms_norm = "{ { t(400, 300), 300, t(300) }, { t(9, 20000), 20000, t(20000) } }",
  conv1d = "{ { t(8, 16, 600), t(32, 8, 5), t(32), { groups = 2 } }, { t(8, 16, 600), t(16, 1, 5), { groups = 16 } } }",
  conv2d = "{ { t(8, 16, 30, 30), t(16, 16, 3, 3), t(16), { padding = 1 } }, "
    .. "{ t(8, 16, 30, 30), t(16, 1, 3, 3), { groups = 16 } }, { t(2, 64, 50, 51), t(70, 64, 1, 1) } }",
  conv_transpose1d = "{ { t(8, 16, 600), t(16, 8, 5), t(16), { groups = 2 } } }",
  conv_transpose2d = "{ { t(8, 16, 30, 30), t(16, 16, 3, 3), t(16), { stride = 2 } } }",
  expand = "{ { t(1, 300), { 300, 300 } }, { t(300, 1), { 300, 300 } } }",
}

-- Ops whose large products BLAS divides among threads of its own: its bits are its affair, and differ from version to version.
local by_blas = { addmm = true, linear = true, matmul = true, mm = true, scaled_dot_product_attention = true }

--- The words of samples, with all sizes times `factor`.
local function words_of(factor)
  local own = {}
  local function scaled(sizes)
    local list, count = {}, 1
    for k, size in ipairs(sizes) do
      list[k] = size == 1 and 1 or size * factor
      count = count * list[k]
    end
    if count > MOST then error("too large", 0) end
    return list
  end
  local function leaf(draw, requires_grad)
    return function(...)
      local tensor = draw(scaled { ... })
      tensor.requires_grad = requires_grad
      return tensor
    end
  end
  own.optlua, own.math, own.inf = optlua, math, math.huge
  own.t = leaf(function(sizes) return optlua.randn(sizes) end, true)
  own.c = leaf(function(sizes) return optlua.randn(sizes) end, false)
  own.p = leaf(function(sizes) return optlua.rand(sizes) + 0.3 end, true)
  own.u = leaf(function(sizes) return optlua.rand(sizes) * 1.8 - 0.9 end, true)
  own.i = function(sizes, n) return optlua.randint(0, n * factor, scaled(sizes)) end
  own.m = function(...) return optlua.randint(0, 2, scaled { ... }):to "uint8" end
  return own
end

--- Outputs and gradients of a call on fresh leaves.
local function results(op, arguments, threads)
  optlua.set_num_threads(threads)
  local found = {}
  for _, tensor in ipairs(samples.tensors(arguments)) do tensor.grad = nil end
  local outputs = samples.call(op, arguments)
  local flows = false
  for _, output in ipairs(outputs) do
    if optlua.is_tensor(output) then
      found[#found + 1] = output:detach():clone()
      if output.requires_grad then
        output:backward(optlua.ones(output.shape, { dtype = output.dtype }) * 0.75, { retain_graph = true })
        flows = true
      end
    end
  end
  for _, tensor in ipairs(samples.tensors(arguments)) do
    if tensor.grad then found[#found + 1] = tensor.grad:clone() end
  end
  return flows and found
end

--- The argument lists of an op for one factor; those that cannot be made are left out.
local function calls_of(op, factor)
  local source = large[op.name] or op.samples
  local own = words_of(factor)
  local lists = {}
  for text in source:gmatch "%b{}" do
    for item in text:sub(2, -2):gmatch "%b{}" do
      local chunk = load("return " .. item, "=samples", "t", own)
      local ok, list = pcall(chunk or error)
      if ok then lists[#lists + 1] = list end
    end
  end
  return lists
end

local function same(a, b)
  if optlua.equal(a, b) then return true end
  local holes = a:isnan() -- NaN is not equal to itself
  return optlua.equal(holes, b:isnan()) and optlua.equal(a:masked_fill(holes, 0), b:masked_fill(holes, 0))
end

--- Compares one call; false where it cannot be made or nothing flows.
local function compare(op, arguments, key)
  arguments = samples.leaves(arguments)
  local size = 0
  for _, tensor in ipairs(samples.tensors(arguments)) do size = math.max(size, tensor:numel()) end
  if size < LEAST and not large[op.name] then return false end
  local ok, one = pcall(results, op, arguments, 1)
  if not ok or not one then return false end
  for threads = 2, 3 do
    for k, tensor in ipairs(results(op, arguments, threads)) do
      assert.is_true(same(one[k], tensor), ("%s: result %d differs on %d threads"):format(key, k, threads))
    end
  end
  return true
end

local function check(op)
  local compared = 0
  for _, factor in ipairs(large[op.name] and { 1 } or { 120, 24, 9, 5 }) do
    for n, arguments in ipairs(compared < 2 and calls_of(op, factor) or {}) do
      if compared < 2 and compare(op, arguments, ("%s/%d"):format(op.name, n)) then compared = compared + 1 end
    end
  end
  return compared
end

describe("on any number of threads", function()
  local before = optlua.get_num_threads()
  before_each(function() optlua.manual_seed(3) end)
  after_each(function() optlua.set_num_threads(before) end)
  for _, family in ipairs(core.registry()) do
    for _, op in ipairs(family.ops) do
      if op.differentiable and not op.random and not op.native and not by_blas[op.name] then
        it(op.name .. " gives the same bits", function()
          assert.is_true(check(op) > 0, "no sample can be multiplied; name a large one or a reason")
        end)
      end
    end
  end
end)
