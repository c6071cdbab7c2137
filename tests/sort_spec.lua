-- Order along a dimension, and parts of matrices.
local optlua = require "optlua"
local tensor, arange, zeros = optlua.tensor, optlua.arange, optlua.zeros
local inf, nan = math.huge, 0 / 0

local fails = require("fails").containing

--- A permutation of 0 … n-1 that looks random.
local function shuffled(n)
  local list = {}
  for k = 1, n do list[k] = (k * 7919) % n end
  return list
end

describe("sort", function()
  it("orders along any dimension", function()
    local x = tensor { { 3, 1, 2 }, { 0, 5, 4 } }
    local values, positions = x:sort()
    assert.same({ { 1, 2, 3 }, { 0, 4, 5 } }, values:totable())
    assert.same({ { 1, 2, 0 }, { 0, 2, 1 } }, positions:totable())
    assert.same({ { 0, 1, 2 }, { 3, 5, 4 } }, (x:sort(1)):totable())
    assert.same({ { 3, 2, 1 }, { 5, 4, 0 } }, (x:sort({ descending = true })):totable())
    assert.same({ { 3, 0 }, { 5, 1 }, { 4, 2 } }, (x:t():sort(2, true)):totable())
    assert.equal("int64", positions.dtype)
  end)

  it("is stable in both directions, for few and for many", function()
    for _, n in ipairs { 12, 1200 } do
      local keys, up, down = {}, {}, {}
      for k = 1, n do keys[k] = k % 3 end
      for key = 0, 2 do
        for k = 1, n do
          if keys[k] == key then up[#up + 1] = k - 1 end
          if keys[k] == 2 - key then down[#down + 1] = k - 1 end
        end
      end
      for _, dtype in ipairs { "uint8", "int64", "float32", "float64" } do
        local x = tensor(keys, dtype)
        assert.same(up, x:argsort():totable(), dtype)
        assert.same(down, x:argsort(1, true):totable(), dtype)
      end
    end
  end)

  it("puts NaN behind every number, and -0 beside 0", function()
    for _, dtype in ipairs { "float32", "float64" } do
      local x = tensor({ nan, inf, 0, -inf, -0.0, -nan, -1e-40 }, dtype)
      assert.same({ 3, 6, 2, 4, 1, 0, 5 }, x:argsort():totable())
      assert.same({ 0, 5, 1, 2, 4, 6, 3 }, x:argsort({ descending = true }):totable())
      assert.same({ 0, 5, 1 }, select(2, x:topk(3)):totable())
      assert.same({ 3, 6 }, select(2, x:topk(2, 1, false)):totable())
    end
  end)

  it("keeps all digits of integers", function()
    local x = tensor({ 2 ^ 53 | 0, (2 ^ 53 | 0) + 1, math.mininteger, -1, math.maxinteger }, "int64")
    assert.same({ 2, 3, 0, 1, 4 }, x:argsort():totable())
  end)

  it("sorts many lines and long ones", function()
    for _, n in ipairs { 64, 65, 5000 } do
      local values = arange(n):totable()
      assert.same(values, (tensor(shuffled(n), "float32"):sort()):to("int64"):totable())
      assert.same({ values, values }, (tensor({ shuffled(n), shuffled(n) }, "int64"):t():sort(1)):t():totable())
    end
  end)

  it("takes empty and 0-dimensional tensors", function()
    local values, positions = tensor(5):sort()
    assert.equal(5, values:item())
    assert.equal(0, positions:item())
    assert.same({ 0, 3 }, (zeros(0, 3):sort(1)).shape)
    assert.same({ 3, 0 }, (zeros(3, 0):sort()).shape)
  end)

  it("refuses what it cannot order", function()
    fails("sort: bfloat16 stores", function() zeros(2):to("bfloat16"):sort() end)
    fails("sort: dimension 2 is out of range for a tensor of 1 dimensions", function() zeros(2):sort(2) end)
  end)
end)

describe("topk", function()
  it("takes the greatest or least in order", function()
    local x = tensor(shuffled(1000), "float32")
    for _, k in ipairs { 0, 1, 5, 64, 65, 700, 1000 } do
      local most, least = {}, {}
      for j = 1, k do most[j], least[j] = 1000 - j, j - 1 end
      assert.same(most, (x:topk(k)):totable())
      assert.same(least, (x:topk(k, { largest = false })):totable())
    end
    assert.equal(3, (tensor(3):topk(1)):item())
  end)

  it("refuses more than there are", function()
    fails("topk: k is 4 for dimension 1 of size 3", function() zeros(3):topk(4) end)
    fails("topk: k is -1", function() zeros(3):topk(-1) end)
    fails("topk: k is 0 for dimension 1 of size 1", function() tensor(1):topk(0) end)
  end)

  it("sends gradients to where values came from", function()
    local x = tensor({ 1, 5, 3 }, { requires_grad = true })
    local y = x:topk(2) * tensor { 10, 20 }
    y:sum():backward()
    assert.same({ 0, 10, 20 }, x.grad:totable())
  end)
end)

describe("triangles and diagonals", function()
  it("are those of the last two dimensions", function()
    local x = arange(9):reshape(3, 3)
    assert.same({ { 0, 0, 0 }, { 3, 4, 0 }, { 6, 7, 8 } }, x:tril():totable())
    assert.same({ { 0, 1, 2 }, { 0, 4, 5 }, { 0, 0, 8 } }, x:triu():totable())
    assert.same({ { 0, 1, 0 }, { 3, 4, 5 }, { 6, 7, 8 } }, x:tril(1):totable())
    assert.same({ { 0, 0, 0 }, { 0, 0, 0 }, { 6, 0, 0 } }, x:t():t():tril(-2):totable())
    assert.same(x:totable(), x:tril(2 ^ 62):totable())
    assert.same(zeros(3, 3, { dtype = "int64" }):totable(), x:triu(2 ^ 62):totable())
    assert.same({ 2, 0, 3 }, zeros(2, 0, 3):tril().shape)
    fails("tril: a tensor of at least 2 dimensions was expected", function() arange(3):tril() end)
  end)

  it("are made and taken by diag", function()
    assert.same({ { 0, 1, 0 }, { 0, 0, 2 }, { 0, 0, 0 } }, tensor({ 1, 2 }, "int64"):diag(1):totable())
    assert.same({ 1, 5 }, arange(9):reshape(3, 3):diag(1):totable())
    fails("diag: a tensor of 1 or 2 dimensions was expected, not 3", function() zeros(1, 1, 1):diag() end)
    fails("diag: diagonal -9223372036854775808 is too far out", function() zeros(1):diag(math.mininteger) end)
    fails("too large", function() zeros(1):diag(2 ^ 62) end)
  end)
end)
