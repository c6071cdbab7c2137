-- Making tensors: constants, ranges, random numbers.
local optlua = require "optlua"

local fails = require("fails").matching

local function range(...) return optlua.arange(...):totable() end

describe("constants", function()
  it("take sizes written out or as a list, and a dtype", function()
    assert.same({ { 0, 0 } }, optlua.zeros(1, 2):totable())
    assert.same({ { 1, 1 } }, optlua.ones({ 1, 2 }):totable())
    assert.equal(0, optlua.zeros({}):item())
    assert.equal("float32", optlua.zeros(2).dtype)
    assert.equal("bfloat16", optlua.ones(2, { dtype = "bfloat16" }).dtype)
    assert.is_true(optlua.ones(2, { requires_grad = true }).requires_grad)
    assert.same({ 0, 0 }, optlua.empty(2):totable())
  end)

  it("fill with one number that the dtype holds", function()
    assert.same({ 1.5, 1.5 }, optlua.full({ 2 }, 1.5):totable())
    assert.equal("float32", optlua.full({ 2 }, 3).dtype)
    assert.equal(math.maxinteger, optlua.full({}, math.maxinteger, "int64"):item())
    fails("full: int64 does not hold 1.5", optlua.full, { 2 }, 1.5, "int64")
    fails("full_like: uint8 does not hold %-1", optlua.full_like, optlua.zeros({ 2 }, "uint8"), -1)
    local x = optlua.full_like(optlua.zeros(2, 3):t(), 7)
    assert.same({ 3, 2 }, { table.unpack(x.shape) })
    assert.equal("int64", optlua.ones_like(optlua.arange(2)).dtype)
    assert.equal("float64", optlua.zeros_like(optlua.arange(2), "float64").dtype)
  end)

  it("refuse impossible sizes, instead of allocating nothing", function()
    fails("zeros: shape %(%-1%) has a negative size", optlua.zeros, -1)
    fails("zeros: shape %(2, 2, 1, 2305843009213693952%) is too large", optlua.zeros, 2, 2, 1, 1 << 61)
    fails("rand: shape %(2, 2, 1, 2305843009213693952%) is too large", optlua.rand, 2, 2, 1, 1 << 61)
    fails("too large", optlua.zeros, 0, 1 << 61, 1 << 61)
  end)
end)

describe("ranges", function()
  it("leave out the end", function()
    assert.same({ 0, 1, 2 }, range(3))
    assert.same({ 2, 3, 4 }, range(2, 5))
    assert.same({ 5, 3 }, range(5, 1, -2))
    assert.same({}, range(3, 3))
    assert.equal("int64", optlua.arange(3).dtype)
    assert.equal("float32", optlua.arange(0, 1, 0.5).dtype)
    assert.equal("float64", optlua.arange(3, { dtype = "float64" }).dtype)
    assert.equal(4, #range(0, 1, 0.3))
    assert.equal(10, #range(0, 1, 0.1))
  end)

  it("refuse steps that lead nowhere", function()
    fails("arange: step must not be 0", optlua.arange, 0, 5, 0)
    fails("arange: a step of 1 does not lead from 5 to 0", optlua.arange, 5, 0)
    fails("arange: start, end and step must be finite", optlua.arange, 0 / 0)
    fails("arange: start, end and step must be finite", optlua.arange, 1 / 0)
    fails("arange: uint8 does not hold 256", optlua.arange, 0, 257, 1, "uint8")
    fails("too many", optlua.arange, 1e300)
  end)

  it("meet both ends when they count steps", function()
    local x = optlua.linspace(-1, 0.7, 1001)
    assert.equal(-1, x:totable()[1])
    assert.equal(optlua.tensor(0.7):item(), x:totable()[1001])
    assert.same({ 3 }, optlua.linspace(3, 4, 1):totable())
    assert.same({}, optlua.linspace(3, 4, 0):totable())
    fails("linspace: steps must not be negative", optlua.linspace, 0, 1, -1)
  end)

  it("go on for more than one thread's share", function()
    local n = 100000
    local x = optlua.arange(n)
    assert.equal(n * (n - 1) // 2, x:sum():item())
    assert.equal(n - 1, x:totable()[n])
  end)

  it("make identity matrices", function()
    assert.same({ { 1, 0, 0 }, { 0, 1, 0 } }, optlua.eye(2, 3):totable())
    assert.same({ { 1, 0 }, { 0, 1 }, { 0, 0 } }, optlua.eye(3, 2):totable())
    assert.equal(0, optlua.eye(0):numel())
    fails("eye: shape", optlua.eye, -1)
  end)
end)

describe("random numbers", function()
  -- Mean and standard deviation of a tensor's elements, in float64.
  local function moments(x)
    x = x:to "float64"
    local mean = x:mean()
    return mean:item(), ((x - mean) ^ 2):mean():item() ^ 0.5
  end

  local function near(want, got, tolerance) assert.is_true(math.abs(want - got) <= tolerance, want .. " ~ " .. got) end

  it("follow from the seed alone", function()
    local function draw()
      optlua.manual_seed(7)
      local list = { optlua.rand(3, 5), optlua.randn({ 7 }, "float64"), optlua.randint(0, 9, { 6 }), optlua.randperm(9),
        optlua.ones(9):dropout(0.5), optlua.full({ 9 }, 0.5):bernoulli(), optlua.zeros(4):normal_(),
        optlua.ones(5):multinomial(3) }
      return list
    end
    local first, second = draw(), draw()
    for i, x in ipairs(first) do assert.is_true(x:equal(second[i])) end
    optlua.manual_seed(8)
    assert.is_false(optlua.rand(3, 5):equal(first[1]))
    assert.equal(8, optlua.initial_seed())
  end)

  it("keep their bits", function()
    optlua.manual_seed(7)
    local function same(list, x) assert.is_true(optlua.tensor(list, { dtype = x.dtype }):equal(x), tostring(x)) end
    same({ 0.0285013914, 0.038901329, 0.0251386166 }, optlua.rand(3))
    same({ 0.393219411, 0.427422285, -1.63130903 }, optlua.randn(3))
    same({ 0, 34, 51, 8, 77 }, optlua.randint(0, 100, { 5 }))
    same({ 2, 0, 1, 4, 5, 3 }, optlua.randperm(6))
    same({ 0, 2, 0, 2, 2, 2, 0, 2 }, optlua.ones(8):dropout(0.5))
  end)

  it("go on from a state", function()
    local state = optlua.get_rng_state()
    local x = optlua.randn(5)
    optlua.set_rng_state(state)
    assert.is_true(optlua.randn(5):equal(x))
    assert.is_false(optlua.randn(5):equal(x))
    fails("set_rng_state: position: integer expected", optlua.set_rng_state, { seed = 1 })
    fails("table expected", optlua.set_rng_state, 1)
  end)

  it("have the moments of their distributions", function()
    optlua.manual_seed(1)
    local n = 200000
    for _, dtype in ipairs { "float32", "float64" } do
      local mean, deviation = moments(optlua.rand({ n }, dtype))
      near(0.5, mean, 0.003)
      near(12 ^ -0.5, deviation, 0.002)
      mean, deviation = moments(optlua.randn({ n }, dtype))
      near(0, mean, 0.008)
      near(1, deviation, 0.006)
    end
    local mean, deviation = moments(optlua.zeros(n):normal_(3, 0.5))
    near(3, mean, 0.005)
    near(0.5, deviation, 0.003)
    mean = moments(optlua.zeros(n):uniform_(-1, 3))
    near(1, mean, 0.01)
    near(0.3, moments(optlua.zeros(n):bernoulli_(0.3)), 0.004)
    near(0.3, moments(optlua.full({ n }, 0.3):bernoulli()), 0.004)
    near(4.5, moments(optlua.randint(0, 10, { n })), 0.03)
  end)

  it("stay inside their bounds", function()
    local x = optlua.zeros(100000):uniform_(2, 2.0000005)
    assert.equal(100000, x:ge(2):logical_and(x:lt(2.0000005)):sum():item())
    local k = optlua.randint(-3, 3, { 1000 }):totable()
    table.sort(k)
    assert.same({ -3, 2 }, { k[1], k[1000] })
    assert.same({ 5, 5 }, optlua.zeros(2):normal_(5, 0):totable())
    local sorted = optlua.randperm(1000):totable()
    table.sort(sorted)
    for i = 1, 1000 do assert.equal(i - 1, sorted[i]) end
  end)

  it("fill views in row-major order", function()
    optlua.manual_seed(3)
    local x = optlua.zeros(4, 3):uniform_()
    optlua.manual_seed(3)
    assert.is_true(optlua.zeros(3, 4):t():uniform_():equal(x))
  end)

  it("refuse what is no distribution", function()
    fails("rand: draws float32 or float64, not int64", optlua.rand, 2, { dtype = "int64" })
    fails("rand_like: draws float32 or float64, not int64", optlua.rand_like, optlua.arange(2))
    fails("randint: there is no integer from 5 to below 5", optlua.randint, 5, 5, { 2 })
    fails("randint: uint8 holds 0 to 255", optlua.randint, 0, 257, { 2 }, "uint8")
    fails("uniform_: from 3 to 1 is not a finite range", optlua.uniform_, optlua.zeros(2), 3, 1)
    fails("normal_: std is %-1", optlua.normal_, optlua.zeros(2), 0, -1)
    fails("bernoulli: an element is not a probability", optlua.bernoulli, optlua.tensor { 0.5, 1.5 })
    fails("bernoulli: an element is not a probability", optlua.bernoulli, optlua.tensor { 0 / 0 })
    fails("bernoulli_: p is 2", optlua.bernoulli_, optlua.zeros(2), 2)
  end)
end)

describe("multinomial", function()
  local function frequencies(samples, classes)
    local list = {}
    for k = 0, classes - 1 do list[k + 1] = samples:eq(k):to("float64"):mean():item() end
    return list
  end

  local function near(want, got)
    for k, p in ipairs(want) do assert.is_true(math.abs(p - got[k]) < 0.01, ("%d: %g ~ %g"):format(k, p, got[k])) end
  end

  it("draws classes with their weights", function()
    optlua.manual_seed(4)
    local weights = optlua.tensor { 1, 0, 3, 4 }
    near({ 0.125, 0, 0.375, 0.5 }, frequencies(weights:multinomial(20000, true), 4))
    local pairs_ = weights:expand(20000, 4):multinomial(2)
    near({ 0.125, 0, 0.375, 0.5 }, frequencies(pairs_:select(2, 1), 4))
    -- the second one: sum over the first, j, of p(j) p(k) / (1 - p(j))
    near({ 0.375 * 0.125 / 0.625 + 0.5 * 0.125 / 0.5, 0, 0.125 * 0.375 / 0.875 + 0.5 * 0.375 / 0.5,
      0.125 * 0.5 / 0.875 + 0.375 * 0.5 / 0.625 }, frequencies(pairs_:select(2, 2), 4))
    assert.equal(0, pairs_:select(2, 1):eq(pairs_:select(2, 2)):sum():item())
  end)

  it("never draws a class of weight 0", function()
    local samples = optlua.tensor { 0, 1, 0, 1e-30, 0 }:multinomial(1000, true)
    assert.equal(0, samples:eq(0):sum():item() + samples:eq(2):sum():item() + samples:eq(4):sum():item())
    assert.same({ 1, 3 }, (optlua.tensor { 0, 1e30, 0, 1e-30, 0 }:multinomial(2)):totable())
  end)

  it("refuses weights that are none", function()
    local function draw(list, ...) return optlua.tensor(list):multinomial(...) end
    fails("multinomial: all weights of row 1 are 0", draw, { 0, 0 }, 1)
    fails("multinomial: all weights of row 2 are 0", draw, { { 1, 0 }, { 0, 0 } }, 1, true)
    fails("multinomial: weight 2 of row 1 is %-1", draw, { 1, -1 }, 1)
    fails("multinomial: weight 1 of row 1 is %-?nan", draw, { 0 / 0, 1 }, 1)
    fails("multinomial: weight 1 of row 1 is inf", draw, { 1 / 0, 1 }, 1)
    fails("2 samples without replacement, but row 1 has 1 classes", draw, { 1, 0 }, 2)
    fails("num_samples must be at least 1", draw, { 1 }, 0)
    fails("weights have shape", draw, 1, 1)
    fails("not int64", function() return optlua.arange(1, 3):multinomial(1) end)
    assert.same({ 0, 2 }, { table.unpack(optlua.zeros(0, 3):multinomial(2).shape) })
  end)
end)

describe("dropout", function()
  it("drops a share p and keeps the mean", function()
    optlua.manual_seed(5)
    local x = optlua.ones(100000, { requires_grad = true })
    local y = x:dropout(0.25)
    local kept = y:gt(0):to("float32"):mean():item()
    assert.is_true(math.abs(kept - 0.75) < 0.005)
    assert.is_true(y:detach():masked_fill(y:eq(0), 4 / 3):allclose(optlua.full({ 100000 }, 4 / 3)))
    y:sum():backward()
    assert.is_true(x.grad:equal(y:detach()))
  end)

  it("of p = 1 is zero both ways, of p = 0 or outside training the tensor itself", function()
    local x = optlua.tensor({ 1, 1 / 0, 0 / 0 }, { requires_grad = true })
    local y = x:dropout(1)
    assert.same({ 0, 0, 0 }, y:totable())
    y:sum():backward()
    assert.same({ 0, 0, 0 }, x.grad:totable())
    assert.equal(x, x:dropout(0))
    assert.equal(x, x:dropout(0.5, false))
    assert.equal(x, x:dropout({ training = false }))
  end)

  it("makes dropped infinities 0, not NaN", function()
    local y = optlua.full({ 1000 }, 1 / 0):dropout(0.5)
    assert.equal(0, y:isnan():sum():item())
    assert.is_true(y:eq(0):sum():item() > 0)
  end)

  it("refuses what is no probability", function()
    for _, p in ipairs { -0.1, 1.1, 0 / 0 } do fails("dropout: p is", optlua.dropout, optlua.ones(2), p) end
    fails("dropout: is not defined for int64", optlua.dropout, optlua.arange(2))
  end)
end)
