-- Matrix products: shapes, strides, nothing to add up, dtypes, numbers in front.
local optlua = require "optlua"
local tensor, zeros, ones = optlua.tensor, optlua.zeros, optlua.ones
local nan = 0 / 0

local function shape(x) return { table.unpack(x.shape) } end

local fails = require("fails").containing

--- The product of two matrices, element by element.
local function plain(x, y)
  local a, b, c = x:totable(), y:totable(), {}
  for i = 1, #a do
    c[i] = {}
    for k = 1, #b[1] do
      c[i][k] = 0
      for j = 1, #b do c[i][k] = c[i][k] + a[i][j] * b[j][k] end
    end
  end
  return c
end

--- Small whole numbers, whose products are exact.
local function whole(...) return optlua.randint(-4, 5, { ... }):to "float32" end

describe("matmul", function()
  it("takes vectors, matrices and stacks", function()
    local cases = {
      { { 4 }, { 4 }, {} }, { { 4 }, { 4, 2 }, { 2 } }, { { 3, 4 }, { 4 }, { 3 } },
      { { 3, 4 }, { 4, 2 }, { 3, 2 } }, { { 5, 3, 4 }, { 4, 2 }, { 5, 3, 2 } },
      { { 5, 3, 4 }, { 4 }, { 5, 3 } }, { { 4 }, { 5, 4, 2 }, { 5, 2 } },
      { { 5, 1, 3, 4 }, { 2, 4, 2 }, { 5, 2, 3, 2 } }, { { 0, 4 }, { 4, 2 }, { 0, 2 } },
    }
    for _, case in ipairs(cases) do
      assert.same(case[3], shape(ones(case[1]):matmul(ones(case[2]))))
    end
  end)

  it("reads any strides", function()
    optlua.manual_seed(1)
    local x, y = whole(6, 8), whole(8, 6)
    local views = {
      { x, y }, { y:t(), x:t() }, { x:narrow(2, 3, 4), y:narrow(1, 2, 4) }, { x[{ 2 }]:expand(3, 8), y },
      { whole(6, 1):expand(6, 4), whole(4, 6, 2):select(3, 1) }, { whole(3, 4, 2):select(3, 2), whole(4, 1) },
    }
    for k, pair in ipairs(views) do
      assert.same(plain(pair[1], pair[2]), pair[1]:matmul(pair[2]):totable(), "pair " .. k)
    end
    local a, b = whole(4, 3, 5), whole(4, 5, 2)
    for k = 1, 4 do assert.same(plain(a[k], b[k]), a:bmm(b)[k]:totable()) end
    for k = 1, 4 do assert.same(plain(a[k], b[2]), a:matmul(b[2])[k]:totable()) end
  end)

  it("of many small and of few large matrices agrees with each alone", function()
    optlua.manual_seed(2)
    for _, sizes in ipairs { { 300, 8, 9, 7 }, { 3, 140, 150, 130 } } do
      local n, m, k, p = table.unpack(sizes)
      local a, b = whole(n, m, k), whole(n, k, p)
      local c = a:bmm(b)
      for i = 1, n, n // 3 do assert.same(a[i]:mm(b[i]):totable(), c[i]:totable()) end
    end
  end)

  it("over nothing is zeros", function()
    assert.same({ { 0, 0 }, { 0, 0 } }, zeros(2, 0):mm(zeros(0, 2)):totable())
    assert.equal(0, zeros(0):dot(zeros(0)):item())
    assert.same({ { 1, 1 } }, ones(2):addmm(zeros(1, 0), zeros(0, 2)):totable())
  end)

  it("wants floats of one dtype and shapes that fit", function()
    local int = tensor({ 1, 2 }, { dtype = "int64" })
    fails('matmul: wants float32 or float64, got int64; convert with :to("float32")',
      function() return int:matmul(int) end)
    fails("matmul: dtypes float32 and float64 differ", function() return ones(2):matmul(ones(2):to "float64") end)
    fails("matmul: shapes (3, 4) and (3, 4) do not fit", function() return ones(3, 4):matmul(ones(3, 4)) end)
    fails("matmul: shapes () and (4) do not fit", function() return ones({}):matmul(ones(4)) end)
    fails("matmul: shapes (2, 3, 4) and (3, 4, 5) do not fit",
      function() return ones(2, 3, 4):matmul(ones(3, 4, 5)) end)
    fails("mm: self has shape (2, 3, 4), wants 2 dimensions", function() return ones(2, 3, 4):mm(ones(4, 5)) end)
    fails("bmm: shapes (2, 3, 4) and (3, 4, 5) do not fit", function() return ones(2, 3, 4):bmm(ones(3, 4, 5)) end)
  end)
end)

describe("addmm", function()
  it("with beta 0 ignores even NaN", function()
    local x = optlua.full({ 2, 2 }, nan)
    assert.same({ { 2, 2 }, { 2, 2 } }, x:addmm(ones(2, 2), ones(2, 2), { beta = 0 }):totable())
  end)

  it("refuses what does not broadcast to the product", function()
    fails("addmm: self of shape (3, 2, 2) does not fit into the product's (2, 2)",
      function() return ones(3, 2, 2):addmm(ones(2, 2), ones(2, 2)) end)
    fails("do not broadcast", function() return ones(3):addmm(ones(2, 2), ones(2, 2)) end)
  end)
end)

describe("linear", function()
  it("maps the last dimension of any number of rows", function()
    optlua.manual_seed(3)
    local x, weight, bias = whole(2, 3, 4), whole(5, 4), whole(5)
    local y = optlua.linear(x, weight, bias)
    assert.same({ 2, 3, 5 }, shape(y))
    assert.same(x:matmul(weight:t()):add(bias):totable(), y:totable())
    assert.same(y[1][2]:totable(), optlua.linear(x[1][2], weight, bias):totable())
    assert.same({ 0, 5 }, shape(optlua.linear(zeros(0, 4), weight, bias)))
  end)

  it("names what does not fit", function()
    fails("linear: input of shape (3, 4) does not end in the 5 features that weight wants",
      function() return optlua.linear(ones(3, 4), ones(2, 5)) end)
    fails("linear: bias has shape (3), wants (2)", function() return optlua.linear(ones(3, 4), ones(2, 4), ones(3)) end)
    fails("linear: weight has shape (4), wants 2 dimensions", function() return optlua.linear(ones(3, 4), ones(4)) end)
  end)
end)

describe("a large matrix times a vector", function()
  local function near(got, want)
    assert.same({ table.unpack(want.shape) }, { table.unpack(got.shape) })
    local gap = (got - want):abs():max():item() / want:abs():max():item()
    assert.is_true(gap <= 1e-12, gap)
  end

  for name, lay in pairs {
    ["by rows"] = function(a) return a end,
    ["by columns"] = function(a) return a:t():contiguous():t() end,
  } do
    it("is the sum of products, from either side, for strided vectors too; " .. name, function()
      local function random(...) return optlua.randn({ ... }, { dtype = "float64" }) end
      local a, x, y = lay(random(600, 700)), random(700), random(600)
      near(a:matmul(x), (a * x):sum(2))
      near(y:matmul(a), (a * y:unsqueeze(2)):sum(1))
      local strided = random(700, 3):select(2, 2)
      near(a:matmul(strided), (a * strided):sum(2))
      near(a:matmul(x:unsqueeze(2)), (a * x):sum(2):unsqueeze(2))
      near(optlua.addmm(optlua.ones({ 600, 1 }, { dtype = "float64" }), a, x:unsqueeze(2)), ((a * x):sum(2) + 1):unsqueeze(2))
    end)
  end

  it("does not read what lay in the memory of the result", function()
    local hidden = require("optlua.core").hidden
    hidden.poison_memory(true)
    local product = optlua.ones(600, 600):matmul(optlua.ones(600))
    hidden.poison_memory(false)
    assert.is_true(product:eq(600):all():item() == 1)
  end)
end)
