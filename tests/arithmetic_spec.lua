-- Elementwise arithmetic: dtypes of results, broadcasting, integers, writing in place.
local optlua = require "optlua"
local tensor = optlua.tensor

local function int(list) return tensor(list, { dtype = "int64" }) end
local function byte(list) return tensor(list, { dtype = "uint8" }) end
local function double(list) return tensor(list, { dtype = "float64" }) end

local fails = require("fails").matching

local function check(want, got, dtype)
  assert.same(want, got:totable())
  if dtype then assert.equal(dtype, got.dtype) end
end

describe("the dtype of a result", function()
  it("is the highest of the operands", function()
    check({ 3, 5 }, byte { 1, 2 } + int { 2, 3 }, "int64")
    check({ 1.5, 2.5 }, int { 1, 2 } + tensor { 0.5, 0.5 }, "float32")
    check({ 1.5, 2.5 }, tensor { 1, 2 } + double { 0.5, 0.5 }, "float64")
  end)

  it("follows a tensor without dimensions only to floats", function()
    check({ 3, 4 }, tensor { 1, 2 } + tensor(2, { dtype = "float64" }), "float32")
    check({ 3, 4 }, byte { 1, 2 } + tensor(2, { dtype = "int64" }), "uint8")
    check({ 3, 4 }, int { 1, 2 } + tensor(2, { dtype = "float64" }), "float64")
    assert.equal("float64", (tensor(1) + tensor(2, { dtype = "float64" })).dtype)
  end)

  it("of numbers is that of the tensor where it can be", function()
    check({ 3, 4 }, int { 1, 2 } + 2, "int64")
    check({ 1.5, 2.5 }, int { 1, 2 } + 0.5, "float32")
    check({ 3, 4 }, double { 1, 2 } + 2, "float64")
    check({ 9, 8 }, 10 - int { 1, 2 }, "int64")
  end)

  it("of a quotient is a float", function()
    check({ 0.5, 1 }, int { 1, 2 } / 2, "float32")
    check({ 2, 4 }, int { 4, 9 }:div(2, { rounding_mode = "floor" }), "int64")
  end)

  it("is not bfloat16, which only stores", function()
    local x = tensor { 1, 2 }:to "bfloat16"
    fails('add: bfloat16 stores; convert with :to%("float32"%)', function() return x + 1 end)
    fails("bfloat16 stores", function() return tensor { 1, 2 } * x end)
    fails("bfloat16 stores", function() return x:exp() end)
  end)
end)

describe("broadcasting", function()
  it("stretches sizes of 1 and missing dimensions", function()
    local x, y = optlua.arange(3):reshape(3, 1), optlua.arange(2)
    check({ { 0, 1 }, { 1, 2 }, { 2, 3 } }, x + y)
    check({}, optlua.zeros(0, 3) * optlua.ones(3))
    assert.same({ 0, 3 }, { table.unpack((optlua.zeros(0, 1) + optlua.ones(3)).shape) })
  end)

  it("names both shapes when they do not fit", function()
    fails("add: shapes %(2, 3%) and %(4%) do not broadcast", function() return optlua.ones(2, 3) + optlua.ones(4) end)
    fails("lerp: shapes", function() return optlua.ones(2):lerp(optlua.ones(3), 0.5) end)
  end)

  it("takes strided operands of any size as their copies", function()
    for _, n in ipairs { 1, 7, 511, 512, 513, 1500 } do
      local x, y = optlua.rand(n, 3), optlua.rand(3, n)
      assert.is_true((x:t() * y):equal(x:t():contiguous() * y))
      assert.is_true((x * y:t()):equal(x * y:t():contiguous()))
      assert.is_true((x:narrow(2, 2, 1) - y:t()):equal(x:narrow(2, 2, 1):contiguous():expand(n, 3) - y:t():contiguous()))
      assert.is_true((x + x:select(2, 1):unsqueeze(2):to "float64"):equal(x:to "float64" + x:select(2, 1):unsqueeze(2)))
    end
  end)
end)

describe("integers", function()
  it("wrap", function()
    check({ math.mininteger, math.maxinteger }, int { math.maxinteger, math.mininteger } + int { 1, -1 })
    check({ -2 }, int { math.maxinteger } * 2)
    check({ 255, 254 }, -byte { 1, 2 })
    check({ 44 }, byte { 200 } + byte { 100 })
    check({ math.mininteger }, -int { math.mininteger })
    check({ math.mininteger }, int { math.mininteger }:abs())
  end)

  it("divide to whole numbers", function()
    local x, y = int { 7, -7, 7, -7 }, int { 2, 2, -2, -2 }
    check({ 3, -4, -4, 3 }, x:floor_divide(y))
    check({ 3, -3, -3, 3 }, x:div(y, { rounding_mode = "trunc" }))
    check({ 1, 1, -1, -1 }, x:remainder(y))
    check({ 1, -1, 1, -1 }, x:fmod(y))
    check({ 3, 1 }, byte { 7, 7 }:floor_divide(byte { 2, 4 }))
  end)

  it("divide the least by -1", function()
    local x = int { math.mininteger }
    check({ math.mininteger }, x:floor_divide(-1))
    check({ math.mininteger }, x:div(-1, { rounding_mode = "trunc" }))
    check({ 0 }, x:remainder(-1))
    check({ 0 }, x:fmod(-1))
  end)

  it("raise when divided by zero, before anything is written", function()
    for _, name in ipairs { "floor_divide", "remainder", "fmod" } do
      fails(name .. ": integer division by zero", optlua[name], int { 1, 2 }, int { 1, 0 })
      fails(name .. ": integer division by zero", optlua[name], byte { 1, 2 }, byte { 0, 1 })
    end
    local x = int { 4, 6 }
    fails("div_: integer division by zero", x.div_, x, int { 2, 0 }, "floor")
    check({ 4, 6 }, x)
    check({}, int {}:remainder(int { 0 }))
    assert.equal(1 / 0, (int { 1 } / 0):item())
  end)

  it("take whole factors only", function()
    check({ 7, 10 }, int { 1, 2 }:add(int { 3, 4 }, { alpha = 2 }))
    fails("add: alpha is 0.5; tensors of integers take a whole number", optlua.add, int { 1 }, int { 2 }, 0.5)
    fails("addcmul: value is 0.5", optlua.addcmul, int { 1 }, int { 2 }, int { 3 }, 0.5)
    check({ 13 }, int { 1 }:addcmul(int { 2 }, int { 3 }, 2))
  end)

  it("have whole powers", function()
    check({ 1, 8, -27 }, int { 1, 2, -3 } ^ int { 5, 3, 3 }, "int64")
    check({ 4, 9 }, int { -2, 3 } ^ int(2), "int64")
    check({ 0, 1, -1, 1 }, int { 2, 1, -1, -1 }:pow(int { -1, -5, -3, -2 }))
    fails("pow: a negative power of integers is a fraction", optlua.pow, int { 2 }, -1)
    check({ 0 }, byte { 2 }:pow(byte { 9 }))
  end)
end)

describe("floats", function()
  it("divide as Python does", function()
    local x, y = tensor { 7, -7, 7, -7, 0.5 }, tensor { 2, 2, -2, -2, 0.1 }
    check({ 3, -4, -4, 3, 4 }, x:floor_divide(y))
    check({ 1, 1, -1, -1 }, x:remainder(y):narrow(1, 1, 4))
    local inf, zero = 1 / 0, tensor { 0, 0, 0 }
    local by_zero = tensor { 1, -1, 0 }:floor_divide(zero):totable()
    assert.equal(inf, by_zero[1])
    assert.equal(-inf, by_zero[2])
    assert.not_equal(by_zero[3], by_zero[3])
    check({ 1, inf }, tensor { 1, -1 }:remainder(tensor { inf, inf }))
  end)

  it("leave what C's fmod leaves, exactly, however large the quotient", function()
    for _, size in ipairs { 1, 1e4, 1e12, 1e30 } do
      local x = optlua.cat({ optlua.randn { 700 } * size, tensor { 6, -6, 0.3, 2 ^ 31 + 256, 1e-40 } }, 1)
      local y = optlua.cat({ optlua.randn { 700 }, tensor { 3, 3, 0.1, 0.75, 7 } }, 1)
      local left, xs, ys = x:fmod(y):totable(), x:totable(), y:totable()
      for i = 1, #xs do assert.equal(math.fmod(xs[i], ys[i]), left[i]) end
    end
  end)

  it("have exact short cuts for the usual powers", function()
    local x = double { 1.5, -2, 0.25, 3 }
    check((x * x):totable(), x ^ 2)
    check((x * x * x):totable(), x ^ 3)
    check((1 / x):totable(), x ^ -1)
    check({ 1, 1 }, tensor { 0, 0 / 0 } ^ 0)
    check({ 1.5, 0.5 }, double { 2.25, 0.25 } ^ 0.5)
    assert.is_true((2 ^ double { 3, -1 }):allclose(double { 8, 0.5 }))
  end)

  it("meet both ends of lerp exactly", function()
    local x, y = tensor { 0.1, -3 }, tensor { 0.7, 1e6 }
    assert.is_true(x:lerp(y, 0):equal(x))
    assert.is_true(x:lerp(y, 1):equal(y))
  end)
end)

describe("in place", function()
  it("writes into the tensor, through views and other dtypes", function()
    local x = optlua.zeros(2, 3)
    local column = x:select(2, 1)
    assert.equal(column, column:add_(double { 1, 2 }))
    check({ { 1, 0, 0 }, { 2, 0, 0 } }, x)
    x:t():mul_(2):sub_(1)
    check({ { 1, -1, -1 }, { 3, -1, -1 } }, x)
    check({ 44, 2 }, byte { 0, 1 }:add_(int { 300, 1 }), "uint8")
  end)

  it("handles operands that overlap as if copied first", function()
    local x = optlua.arange(5):to "float32"
    x:narrow(1, 2, 4):add_(x:narrow(1, 1, 4))
    check({ 0, 1, 3, 5, 7 }, x)
    local y = tensor { { 1, 2 }, { 3, 4 } }
    y:add_(y:t())
    check({ { 2, 5 }, { 5, 8 } }, y)
    check({ 2, 4 }, tensor { 1, 2 }:mul_(2))
  end)

  it("keeps shape and kind", function()
    fails("add_: the result has shape %(2, 3%), which shape %(3%) cannot hold", optlua.zeros(3).add_, optlua.zeros(3),
      optlua.zeros(2, 3))
    local x = int { 1, 2 }
    fails("mul_: the result is float32, which a tensor of int64 cannot hold", x.mul_, x, 0.5)
    fails("div_: the result is float32", x.div_, x, 2)
    check({ 1, 2 }, x)
    local wide = optlua.zeros(1, 2):expand(3, 2)
    fails("add_: the tensor is expanded", wide.add_, wide, 1)
  end)

  it("has gradients of what it overwrites", function()
    local x = double { 1, 2 }:requires_grad_(true)
    local w = double { 3, 5 }:requires_grad_(true)
    local y = x * 1
    y:mul_(w):log_()
    y:sum():backward()
    check({ 1, 0.5 }, x.grad)
    assert.is_true(w.grad:allclose(double { 1 / 3, 1 / 5 }))
  end)

  it("is free on what backward does not need", function()
    local x = tensor({ 1, 2 }, { requires_grad = true })
    local y = x * 1
    local z = y * 3 -- needs the 3, not y
    y:add_(1)
    z:sum():backward()
    check({ 3, 3 }, x.grad)
    local w = tensor({ 3, 3 }, { requires_grad = true })
    y = x * 1
    z = y * w
    y:add_(1)
    fails("a tensor that mul needs was changed in place", z.sum(z).backward, z:sum())
  end)

  it("is refused on leaves that require a gradient", function()
    local x = tensor({ 1, 2 }, { requires_grad = true })
    fails("add_: a leaf that requires a gradient", x.add_, x, 1)
    optlua.no_grad(function() x:add_(1) end)
    check({ 2, 3 }, x:detach())
  end)
end)

describe("gradients", function()
  it("of rounded quotients are zero", function()
    local x = double { 7, -7 }:requires_grad_(true)
    x:div(2, "floor"):sum():backward()
    check({ 0, 0 }, x.grad)
  end)

  it("of powers with base 0", function()
    local x = double { 0, 2, 0 }:requires_grad_(true)
    local y = double { 2, 0, 1 }:requires_grad_(true)
    x:pow(y):sum():backward()
    check({ 0, 0, 1 }, x.grad)
    assert.same({ 0, math.log(2), 0 }, y.grad:totable())
  end)

  it("go to floats only, and keep each operand's shape and dtype", function()
    local x = tensor({ 1, 2 }, { requires_grad = true })
    local y = double { { 3 }, { 4 } }:requires_grad_(true)
    x:mul(y):sum():backward()
    check({ 7, 7 }, x.grad, "float32")
    check({ { 3 }, { 3 } }, y.grad, "float64")
    local z = tensor({ 1, 2 }, { requires_grad = true })
    z:mul(int { 3, 4 }):sum():backward()
    check({ 3, 4 }, z.grad)
  end)
end)
