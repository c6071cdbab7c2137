-- Reductions: dtypes, dimensions, nothing to reduce, NaN, ties, zeros; the same bits on any number of
-- threads.
local optlua = require "optlua"
local tensor, zeros = optlua.tensor, optlua.zeros
local inf, nan = math.huge, 0 / 0

local function int(list) return tensor(list, { dtype = "int64" }) end
local function byte(list) return tensor(list, { dtype = "uint8" }) end
local function double(list) return tensor(list, { dtype = "float64" }) end

local fails = require("fails").containing

--- The gradient of the sum of fn(x).
local function gradient(list, fn)
  local x = double(list)
  x.requires_grad = true
  fn(x):sum():backward()
  return x.grad:totable()
end

describe("a reduction", function()
  it("over two groups of dimensions is that over one group of a permuted copy", function()
    local calls = {
      function(x, dims) return x:sum(dims) end,
      function(x, dims) return x:prod(dims) end,
      function(x, dims) return x:var(dims) end,
      function(x, dims) return x:amax(dims) end,
      function(x, dims) return x:norm(3, dims) end,
      function(x, dims) return x:count_nonzero(dims) end,
    }
    local cases = { -- sizes; dimensions; a permutation that brings them to the end, and their number
      { { 3, 4, 9 }, { 1, 3 }, { 2, 1, 3 }, 2 },
      { { 2, 3, 40000 }, { 1, 3 }, { 2, 1, 3 }, 2 },
      { { 70, 3, 20, 5 }, { 1, 3 }, { 2, 4, 1, 3 }, 2 },
      { { 1, 2, 1, 3, 8, 1, 2 }, { 2, 5 }, { 1, 3, 4, 6, 7, 2, 5 }, 2 },
      { { 2, 3, 4, 5, 3 }, { 1, 2, 4 }, { 3, 5, 1, 2, 4 }, 3 },
      { { 2, 3, 4, 9 }, { 2, 4 }, { 1, 3, 2, 4 }, 2 },
      { { 2, 3, 4 }, { 1, 3 }, { 2, 1, 3 }, 2 },
      { { 2, 3, 9, 2, 9 }, { 1, 3, 5 }, { 2, 4, 1, 3, 5 }, 3 },
    }
    for k, case in ipairs(cases) do
      local x = optlua.rand(case[1], { dtype = "float64" }):add(0.5)
      local moved, last = x:permute(table.unpack(case[3])):contiguous(), {}
      for d = 1, case[4] do last[d] = -d end
      for n, call in ipairs(calls) do
        local got, wanted = call(x, case[2]), call(moved, last)
        assert.same(wanted.shape, got.shape)
        local off = got:sub(wanted):abs():div(wanted:abs():add(1e-30)):max():item()
        assert.is_true(off < 1e-11, ("case %d of call %d is off by %g"):format(k, n, off))
      end
    end
  end)

  it("takes no, one or several dimensions, from either end", function()
    local x = optlua.arange(24):reshape(2, 3, 4)
    assert.equal(276, x:sum():item())
    assert.same({ 60, 92, 124 }, x:sum({ 1, 3 }):totable())
    assert.same({ 2, 4 }, { table.unpack(x:sum(2).shape) })
    assert.same({ 2, 1, 1 }, { table.unpack(x:sum({ 2, -1 }, true).shape) })
    assert.same(x:transpose(1, 3):contiguous():sum({ 2, 3 }):totable(), x:sum({ 1, 2 }):totable())
  end)

  it("gives int64 of integers, and refuses means of them", function()
    assert.equal("int64", byte({ 200, 100 }):sum().dtype)
    assert.equal(300, byte({ 200, 100 }):sum():item())
    assert.equal(20000, byte({ 200, 100 }):prod():item())
    assert.equal("uint8", byte({ 200, 100 }):amax().dtype)
    assert.equal((1 << 53) + 1, int({ 1 << 53, 1 }):sum():item())
    fails('mean: wants float32 or float64, got int64; convert with :to("float32")',
      function() return int({ 1 }):mean() end)
    fails("bfloat16 stores", function() return tensor({ 1 }):to("bfloat16"):sum() end)
  end)

  it("of nothing has a value where there is one", function()
    local none = zeros(0)
    assert.equal(0, none:sum():item())
    assert.equal(1, none:prod():item())
    assert.equal(0, none:norm():item())
    assert.equal(0, none:norm(inf):item())
    assert.equal(-inf, none:logsumexp(1):item())
    assert.same({ 0, 1 }, { none:any():item(), none:all():item() })
    assert.is_true(none:mean():item() ~= none:mean():item())
    assert.same({ 0, 0, 0 }, zeros(0, 3):sum(1):totable())
    assert.same({}, zeros(0, 3):amax(2):totable())
    for _, name in ipairs { "amax", "amin", "max", "min", "argmax", "argmin" } do
      fails(name .. ": of no elements has no value", function() return none[name](none) end)
      fails("no elements", function() return zeros(3, 0)[name](zeros(3, 0), 2) end)
    end
    fails("no elements", function() return none:norm(-1) end)
  end)

  it("refuses dimensions that are not there, or twice", function()
    fails("sum: dimension 3 is out of range for a tensor of 2 dimensions",
      function() return zeros(2, 2):sum(3) end)
    fails("sum: dimension 2 is given twice", function() return zeros(2, 2):sum({ 2, -1 }) end)
  end)
end)

describe("sums in float32", function()
  it("keep small terms beside large ones", function()
    local x = optlua.full({ 100001 }, 1e-4)
    x[1] = 1e4
    assert.is_true(math.abs(x:sum():item() - 10010) < 1e-3)
    assert.is_true(math.abs(tensor({ 40000, 40001, 40002, 40003 }):var():item() - 5 / 3) < 1e-6)
    assert.is_true(math.abs(optlua.full({ 100 }, 1e20):norm():item() / 1e21 - 1) < 1e-6)
  end)
end)

describe("every reduction", function()
  local calls = {
    function(x) return x:sum(), x:sum(1), x:sum(2) end,
    function(x) return x:mean(), x:std(1), x:var(2), x:prod(2), x:norm(3), x:norm(1, 1) end,
    function(x) return x:max(1) end,
    function(x) return x:logsumexp(1), x:softmax(1), x:log_softmax(2), x:cumsum(1) end,
    function(x) return x:softmax(2), x:log_softmax(1) end,
    function(x)
      x = optlua.stack({ x, x * 2 }, 1)
      return x:sum({ 1, 3 }), x:var({ 1, 3 }), x:amax({ 1, 3 }), x:norm(3, { 1, 3 })
    end,
    function(x) return optlua.layer_norm(x, { x.shape[2] }), x:argmax(2), x:amin() end,
  }

  it("gives the same bits on any number of threads", function()
    local threads = optlua.get_num_threads()
    local sizes, results = { { 2, 150001 }, { 3001, 100 }, { 70, 3000 }, { 40000, 3 } }, {}
    for n = 1, 3 do
      optlua.set_num_threads(n)
      results[n] = {}
      for _, size in ipairs(sizes) do
        optlua.manual_seed(4)
        local x = optlua.randn(size):add(1)
        for _, call in ipairs(calls) do
          for _, y in ipairs { call(x) } do table.insert(results[n], y) end
        end
      end
    end
    optlua.set_num_threads(threads)
    for n = 2, 3 do
      for k, y in ipairs(results[n]) do
        assert.is_true(y:eq(results[1][k]):all():item() == 1, ("result %d on %d threads"):format(k, n))
      end
    end
  end)
end)

describe("a product", function()
  it("of floats that vanishes is 0, unless NaN is in it; of doubles it is as small as they go", function()
    local small = optlua.full({ 3000 }, 0.5)
    assert.equal(0, small:prod():item())
    small[2999] = nan
    assert.equal(1, small:prod():isnan():item())
    local both = optlua.cat({ optlua.full({ 300 }, 0.5), optlua.full({ 300 }, 2) }, 1)
    assert.equal(1, both:prod():item())
    assert.equal(2 ^ -1074, double({ 2 ^ -600, 2 ^ -474 }):prod():item())
  end)
end)

describe("extremes", function()
  it("are values alone, or values and positions from 0", function()
    local x = tensor { { 1, 4, 4 }, { 3, 2, 2 } }
    assert.equal(1, select("#", x:max()))
    assert.equal(4, x:max():item())
    local values, positions = x:max(2)
    assert.same({ 4, 3 }, values:totable())
    assert.same({ 1, 0 }, positions:totable())
    values, positions = x:min(1, true)
    assert.same({ { 1, 2, 2 } }, values:totable())
    assert.same({ { 0, 1, 1 } }, positions:totable())
    assert.equal(1, x:argmax():item())
    assert.same({ 0, 0, 0 }, x:argmin(1):sub(x:argmin(1)):totable())
    fails("max: keepdim wants a dim", function() return x:max({ keepdim = true }) end)
  end)

  it("give in to NaN", function()
    local x = tensor { 1, nan, 3 }
    assert.is_true(x:amax():item() ~= x:amax():item())
    assert.is_true(x:min():item() ~= x:min():item())
    assert.equal(1, x:argmax():item())
    assert.equal(1, x:argmin():item())
    assert.same({ 1, 1 }, optlua.stack({ x, x }):argmax(2):totable())
    assert.same({ 0, 0 }, tensor({ { nan, 1 }, { 2, nan } }):argmax(1):sub(tensor({ 0, 1 }):to "int64"):totable())
  end)

  it("share the gradient among equals, and send it to the position that was chosen", function()
    assert.same({ 0, 0.5, 0.5 }, gradient({ 1, 2, 2 }, function(x) return x:amax() end))
    assert.same({ 0, 0.5, 0.5 }, gradient({ 1, 2, 2 }, function(x) return x:max() end))
    assert.same({ 0, 1, 0 }, gradient({ 1, 2, 2 }, function(x) return (x:max(1)) end))
    assert.same({ { 1, 1 }, { 0, 0 } }, gradient({ { 1, 1 }, { 1, 2 } }, function(x) return (x:min(1)) end))
  end)
end)

describe("gradients at the edge", function()
  it("of norms and deviations at 0 are 0", function()
    for _, p in ipairs { 1, 2, 3.5, 0.5, inf, -inf } do
      assert.same({ 0, 0 }, gradient({ 0, 0 }, function(x) return x:norm(p) end), "p = " .. p)
    end
    assert.same({ 0, 0 }, gradient({ 2, 2 }, function(x) return x:std() end))
    assert.same({ 0.5, -0.5 }, gradient({ 3, -3 }, function(x) return x:norm(inf) end))
  end)

  it("of products with zeros are products of the others", function()
    local function prod(x) return x:prod() end
    local function cumprod(x) return x:cumprod(1) end
    assert.same({ 6, 3, 2 }, gradient({ 1, 2, 3 }, prod))
    assert.same({ 0, 3, 0 }, gradient({ 1, 0, 3 }, prod))
    assert.same({ 0, 0, 0 }, gradient({ 0, 2, 0 }, prod))
    assert.same({ 9, 4, 2 }, gradient({ 1, 2, 3 }, cumprod))
    assert.same({ 1, 10, 0, 0 }, gradient({ 2, 0, 4, 0 }, cumprod))
  end)
end)

describe("softmax", function()
  it("is finite for large values", function()
    local y = double({ 1e4, 1e4 + 1 }):softmax(1):totable()
    assert.is_true(math.abs(y[1] - 0.2689414213699951) < 1e-12)
    assert.is_true(math.abs(double({ 1e4, 1e4 + 1 }):log_softmax(1)[1]:item() + 1.3132616875182228) < 1e-12)
  end)

  it("of a row that is all -inf is NaN; its logsumexp is -inf", function()
    local x = tensor { { -inf, -inf }, { -inf, 0 } }
    for _, name in ipairs { "softmax", "log_softmax" } do
      local y = x[name](x, 2)
      assert.same({ { 1, 1 }, { 0, 0 } }, y:isnan():totable())
    end
    assert.same({ -inf, 0 }, x:logsumexp(2):totable())
    assert.equal(inf, tensor({ inf, 1 }):logsumexp(1):item())
    assert.equal(1, tensor({ inf, nan }):logsumexp(1):isnan():item())
  end)

  --- softmax, or log_softmax, of x along dim, and its gradient, which g begins.
  local function both(name, x, dim, g)
    x = x:detach():clone()
    x.requires_grad = true
    local y = x[name](x, dim)
    y:backward(g)
    return y:detach(), x.grad
  end

  local function near(a, b, bound)
    assert.same(a.shape, b.shape)
    assert.is_true(a:sub(b):abs():max():item() <= bound)
  end

  it("down columns is that of rows, whatever their number and length", function()
    for _, name in ipairs { "softmax", "log_softmax" } do
      for _, dtype in ipairs { "float32", "float64" } do
        for _, size in ipairs { { 3, 2, 2 }, { 2, 700, 3 }, { 1, 5, 63 }, { 2, 2500, 65 }, { 1, 40, 1100 } } do
          local x, g = optlua.randn(size, { dtype = dtype }), optlua.randn(size, { dtype = dtype })
          local y, dx = both(name, x, 2, g)
          local rows, slope = both(name, x:transpose(2, 3), 3, g:transpose(2, 3))
          local bound = dtype == "float32" and 2e-6 or 1e-13
          near(y, rows:transpose(2, 3), bound)
          near(dx, slope:transpose(2, 3), bound * math.max(1, g:sum(2):abs():max():item()))
        end
      end
    end
  end)

  it("of a column that is all -inf or holds NaN or inf is NaN, and of no other", function()
    local x = tensor { { -inf, 1, inf, 0, -inf }, { -inf, nan, 1, 0, 0 } }
    for _, name in ipairs { "softmax", "log_softmax" } do
      local y = x[name](x, 1)
      assert.same({ { 1, 1, 1, 0, 0 }, { 1, 1, 1, 0, 0 } }, y:isnan():totable())
    end
  end)

  it("wants floats", function()
    fails("softmax: wants float32 or float64, got int64", function() return int({ 1 }):softmax(1) end)
  end)
end)
