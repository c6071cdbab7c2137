-- Elementwise functions, comparisons, masks: special values, integers, edges. Values and gradients of
-- ordinary numbers are tested from the registry.
local optlua = require "optlua"
local tensor = optlua.tensor
local inf, nan = 1 / 0, 0 / 0

local function int(list) return tensor(list, { dtype = "int64" }) end
local function byte(list) return tensor(list, { dtype = "uint8" }) end

local fails = require("fails").matching

-- Elements, with NaN as "nan" and -0 as "-0".
local function read(t)
  local list = t:totable()
  for i, x in ipairs(list) do
    if x ~= x then list[i] = "nan" elseif x == 0 and 1 / x < 0 then list[i] = "-0" end
  end
  return list
end

describe("functions of one tensor", function()
  it("of special values are PyTorch's", function()
    local x = tensor { inf, -inf, nan, 0, -0.0 }
    assert.same({ inf, 0, "nan", 1, 1 }, read(x:exp()))
    assert.same({ inf, "nan", "nan", -inf, -inf }, read(x:log()))
    assert.same({ inf, "nan", "nan", 0, "-0" }, read(x:sqrt()))
    assert.same({ 1, -1, "nan", 0, "-0" }, read(x:tanh()))
    assert.same({ 1, -1, "nan", 0, "-0" }, read(x:erf()))
    assert.same({ 1, 0, "nan", 0.5, 0.5 }, read(x:sigmoid()))
    assert.same({ inf, 0, "nan", 0, "-0" }, read(x:relu()))
    assert.same({ inf, 0, "nan" }, read(x:narrow(1, 1, 3):softplus()))
    assert.same({ 1, -1, 0, 0, 0 }, x:sign():totable())
    assert.same({ inf, inf, "nan", 0, 0 }, read(x:abs()))
  end)

  it("gelu keeps its digits far below 0, has limits, and keeps NaN", function()
    for x, y in pairs { [-1] = -0.15865525393145705, [-3] = -0.004049694095298929, [-5] = -1.4332578584e-6, [-10] = -7.6198530242e-23 } do
      local float = optlua.tensor({ x }, { dtype = "float32" }):gelu():item()
      assert.is_true(math.abs(float / y - 1) < 6e-7, ("gelu(%g) is %.9g"):format(x, float))
    end
    local x = optlua.tensor({ -math.huge, -20, 0, 20, math.huge, 0 / 0 }, { requires_grad = true })
    local y = x:gelu()
    assert.same({ 0, 0, 0, 20, math.huge }, y:narrow(1, 1, 5):totable())
    y:sum():backward()
    assert.same({ 0, 0, 0.5, 1, 1 }, x.grad:narrow(1, 1, 5):totable())
    assert.is_true(y[6]:isnan():item() == 1 and x.grad[6]:isnan():item() == 1)
  end)

  it("do not overflow where the result does not", function()
    local x = tensor { -200, -90, 90, 200 }
    assert.same({ 0, 0, 1, 1 }, x:sigmoid():totable())
    assert.same({ 90, 200 }, x:silu():narrow(1, 3, 2):totable())
    assert.same({ 90, 200 }, x:softplus():narrow(1, 3, 2):totable())
    assert.same({ -1, -1, 90, 200 }, x:elu():totable())
    assert.same({ 90, 200 }, x:gelu():narrow(1, 3, 2):totable())
    assert.same({ 0, 0 }, optlua.tensor({ -1e6, -1e30 }):gelu():totable())
    x = tensor({ -200, 200 }, { requires_grad = true })
    for _, name in ipairs { "sigmoid", "silu", "softplus", "elu", "gelu", "tanh", "leaky_relu" } do
      x.grad = nil
      x[name](x):sum():backward()
      assert.equal(2, x.grad:isfinite():sum():item(), name)
    end
  end)

  it("round halves to even numbers", function()
    assert.same({ "-0", 0, 2, 2, -2, 1e10 }, read(tensor { -0.5, 0.5, 1.5, 2.5, -2.5, 1e10 }:round()))
    assert.same({ 1, -2, 2, -1, 1, -1 }, (optlua.cat { tensor { 1.5, -1.5 }:floor(), tensor { 1.5, -1.5 }:ceil(),
      tensor { 1.5, -1.5 }:trunc() }):totable())
  end)

  it("of integers stay integers where they are whole, else become float32", function()
    for _, name in ipairs { "abs", "sign", "square", "floor", "ceil", "round", "trunc", "neg", "relu" } do
      assert.equal("int64", optlua[name](int { -2, 3 }).dtype, name)
    end
    for _, name in ipairs { "exp", "sqrt", "sin", "log", "reciprocal", "sigmoid", "tanh", "erf" } do
      assert.equal("float32", optlua[name](byte { 1, 3 }).dtype, name)
    end
    fails("gelu: is not defined for int64", optlua.gelu, int { 1 })
    fails("frac: is not defined for uint8", optlua.frac, byte { 1 })
    fails("sqrt_: the result is float32, which a tensor of int64 cannot hold", optlua.sqrt_, int { 1 })
  end)

  it("have gradients of 0 where they are flat", function()
    local x = tensor({ 0, 1.2, -1.2 }, { requires_grad = true })
    for _, name in ipairs { "sign", "floor", "ceil", "round", "trunc" } do
      x.grad = nil
      x[name](x):sum():backward()
      assert.same({ 0, 0, 0 }, x.grad:totable(), name)
    end
    x.grad = nil
    x:abs():sum():backward()
    assert.same({ 0, 1, -1 }, x.grad:totable())
    x.grad = nil
    x:relu():sum():backward()
    assert.same({ 0, 1, 0 }, x.grad:totable())
  end)
end)

describe("comparisons", function()
  it("give masks of uint8", function()
    local mask = tensor { 1, 2, nan }:le(tensor { 1, 1, nan })
    assert.equal("uint8", mask.dtype)
    assert.same({ 1, 0, 0 }, mask:totable())
    assert.same({ 0, 0, 1 }, tensor { 1, 2, nan }:ne(tensor { 1, 2, nan }):totable())
  end)

  it("of integers and numbers lose nothing", function()
    local x = byte { 44, 200 }
    assert.same({ 1, 1 }, x:lt(300):totable())
    assert.same({ 0, 0 }, x:eq(300):totable())
    assert.same({ 1, 1 }, x:gt(-1):totable())
    assert.same({ 0, 1 }, int { 1 << 53, (1 << 53) + 1 }:eq((1 << 53) + 1):totable())
    assert.same({ 1, 0 }, int { 1, 2 }:lt(1.5):totable())
  end)

  it("record nothing", function()
    local x = tensor({ 1, 2 }, { requires_grad = true })
    assert.is_false(x:gt(1).requires_grad)
  end)

  it("know kinds of numbers", function()
    local x = tensor { 1, inf, -inf, nan }
    assert.same({ 1, 0, 0, 0 }, x:isfinite():totable())
    assert.same({ 0, 1, 1, 0 }, x:isinf():totable())
    assert.same({ 0, 0, 0, 1 }, x:isnan():totable())
    assert.same({ 1, 1 }, int { 1, 2 }:isfinite():totable())
    assert.same({ 0, 1, 1 }, tensor { 0, nan, 2 }:logical_and(1):totable())
    assert.same({ 1, 0, 0 }, tensor { 0, nan, 2 }:logical_not():totable())
  end)

  it("know what is close and what is equal", function()
    local x = tensor { 1, inf, nan }
    assert.same({ 1, 1, 0 }, x:isclose(x):totable())
    assert.is_false(x:allclose(x))
    assert.is_true(x:allclose(x, { equal_nan = true }))
    assert.is_false(tensor { inf }:allclose(tensor { 1e30 }, { rtol = 1e9 }))
    assert.is_false(tensor { inf }:allclose(tensor { -inf }, { rtol = 1e9 }))
    assert.is_true(tensor { 1 }:allclose(tensor { 1.1 }, { atol = 0.2 }))
    assert.is_true(int { 1 }:equal(tensor { 1 }))
    assert.is_false(x:equal(x))
    assert.is_false(optlua.zeros(0, 2):equal(optlua.zeros(2, 0)))
    assert.is_true(tensor { 1.5 }:to "bfloat16":equal(tensor { 1.5 }))
  end)
end)

describe("extremes and bounds", function()
  it("let NaN prevail", function()
    local x, y = tensor { nan, 1, 1 }, tensor { 1, nan, 2 }
    assert.same({ "nan", "nan", 2 }, read(x:maximum(y)))
    assert.same({ "nan", "nan", 1 }, read(x:minimum(y)))
    assert.same({ "nan", 2 }, read(tensor { nan, 1 }:clamp(2, 3)))
    assert.same({ "nan", "nan" }, read(tensor { 5, 1 }:clamp(nan)))
  end)

  it("share the gradient of equal elements", function()
    local x = tensor({ 1.5, 2 }, { requires_grad = true })
    local y = tensor({ 1.5, 1 }, { requires_grad = true })
    x:maximum(y):sum():backward()
    assert.same({ 0.5, 1 }, x.grad:totable())
    assert.same({ 0.5, 0 }, y.grad:totable())
  end)

  it("take numbers and tensors, either alone", function()
    local x = tensor { -5, 1, 5 }
    assert.same({ 0, 1, 2 }, x:clamp(0, 2):totable())
    assert.same({ 0, 1, 5 }, x:clamp(0):totable())
    assert.same({ -5, 1, 2 }, x:clamp({ max = 2 }):totable())
    assert.same({ 2, 2, 2 }, x:clamp(3, 2):totable())
    assert.same({ -1, 1, 4 }, x:clamp(tensor { -1, 0, 0 }, tensor { 4, 4, 4 }):totable())
    assert.same({ 1.5, 2 }, int { 1, 2 }:clamp(1.5):totable())
    fails("clamp: min, max or both are needed", x.clamp, x)
    fails("clamp: uint8 does not hold %-1", optlua.clamp, byte { 1 }, -1)
  end)

  it("send gradients to what moves the result", function()
    local function leaf(list) return tensor(list, { requires_grad = true }) end
    local x, lo, hi = leaf { 1, 2, 3 }, leaf { 1, 3, 0 }, leaf { 1, 4, 2 }
    x:clamp(lo, hi):sum():backward()
    assert.same({ { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } }, { x.grad:totable(), lo.grad:totable(), hi.grad:totable() })
    x, lo, hi = leaf { 1, 2, 3 }, leaf { 2, 2, 2 }, leaf { 1, 1, 1 }
    x:clamp(lo, hi):sum():backward()
    assert.same({ { 0, 0, 0 }, { 0, 0, 0 }, { 1, 1, 1 } }, { x.grad:totable(), lo.grad:totable(), hi.grad:totable() })
    x = leaf { 1, 2, 3 }
    x:clamp(1, 3):sum():backward()
    assert.same({ 1, 1, 1 }, x.grad:totable())
  end)
end)

describe("choosing by masks", function()
  it("broadcasts all three, and lets nothing of the other through", function()
    local mask = byte { { 1 }, { 0 } }
    assert.same({ { 1, 2 }, { 9, 9 } }, optlua.where(mask, tensor { 1, 2 }, 9):totable())
    local x = tensor({ 1, 0 }, { requires_grad = true })
    optlua.where(x:gt(0), x:log(), 0):sum():backward()
    assert.equal(1, x.grad:totable()[1])
    assert.same({ 5 }, optlua.where(byte { 0 }, tensor { nan }, tensor { 5 }):totable())
    assert.same({ 3 }, optlua.where(byte { 2 }, 3, 4):totable())
    assert.equal("float64", optlua.where(byte { 1 }, int { 1 }, tensor({ 1 }, { dtype = "float64" })).dtype)
  end)

  it("wants masks of uint8", function()
    fails("where: the mask is float32; a mask is uint8", optlua.where, tensor { 1 }, tensor { 1 }, tensor { 2 })
    fails("masked_fill: the mask is int64", optlua.masked_fill, tensor { 1 }, int { 1 }, 0)
  end)

  it("fills, keeping the dtype", function()
    local x = int { 1, 2, 3 }
    assert.same({ 1, 9, 9 }, x:masked_fill(x:gt(1), 9):totable())
    assert.same({ 1, 9, 9 }, x:masked_fill(x:gt(1), 9.0):totable())
    fails("masked_fill: int64 does not hold 1.5", x.masked_fill, x, x:gt(1), 1.5)
    fails("masked_fill: one number was expected, got a tensor of shape %(2%)", x.masked_fill, x, x:gt(1), int { 1, 2 })
    fails("masked_fill_: the result has shape", x.masked_fill_, x, optlua.ones({ 2, 3 }, "uint8"), 1)
    assert.same({ { 7, 2 }, { 1, 7 } },
      int { 1, 2 }:masked_fill(byte { { 1, 0 }, { 0, 1 } }, 7):totable())
    assert.equal(-inf, tensor { 1 }:masked_fill(byte { 1 }, -inf):item())
  end)

  it("sets whole tensors and views", function()
    local x = optlua.zeros(2, 2)
    x:select(2, 1):fill_(7)
    assert.same({ { 7, 0 }, { 7, 0 } }, x:totable())
    assert.same({ { 0, 0 }, { 0, 0 } }, x:zero_():totable())
    fails("fill_: int64 does not hold 0.5", optlua.fill_, int { 1 }, 0.5)
    fails("fill_: uint8 does not hold 256", optlua.fill_, byte { 1 }, 256)
    assert.same({ 1.5 }, tensor { 0 }:to "bfloat16":fill_(1.5):to "float32":totable())
    local y, v = tensor({ 1, 2 }, { requires_grad = true }), tensor(3, { requires_grad = true })
    local z = y * 1
    z:fill_(v)
    z:sum():backward()
    assert.same({ 0, 0 }, y.grad:totable())
    assert.equal(2, v.grad:item())
  end)
end)
