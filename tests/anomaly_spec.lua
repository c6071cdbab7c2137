-- detect_anomaly: finds the operation and the line of the script whose result, or gradient, is not finite.
local optlua = require "optlua"
local nn = optlua.nn
local fails = require("fails").matching

local function line() return debug.getinfo(2, "l").currentline end

local function watched(fn, ...) return optlua.detect_anomaly(fn, ...) end

describe("detect_anomaly", function()
  it("finds a forward operation and its line", function()
    local x = optlua.tensor({ -1, 1 }, { requires_grad = true })
    local at
    local message = fails("detect_anomaly: the result of log has a NaN; its arguments are finite", watched, function()
      local y = x * 2
      at = line() + 1
      return y:log():sum()
    end)
    assert.matches("anomaly_spec.lua:" .. at .. ": ", message)
    fails("the result of exp has an infinity; its arguments are finite", watched, function() return (x * 1000):exp() end)
    fails("the result of mul has a NaN: its argument %w+ is not finite", watched, function() return optlua.tensor { 0 / 0 } * x end)
    fails("the result of sub has a NaN: its argument %w+ is not finite", watched, function()
      local mask = x + math.huge
      return mask - mask
    end)
    fails("of linear has a NaN: its argument input", watched, nn.Linear(1, 1), optlua.tensor { { 0 / 0 } })
  end)

  it("finds the operation whose gradient is not finite, and the line that called it", function()
    local x = optlua.zeros(2, { requires_grad = true })
    local at
    local message = fails("the gradient that backward computes for input 1 of sqrt has an infinity; it was called at", watched, function()
      local scaled = x * 1
      at = line() + 1
      local root = scaled:sqrt()
      root:sum():backward()
    end)
    assert.matches("anomaly_spec.lua:" .. at .. "$", message)
    assert.is_nil(x.grad)
    fails("the gradient that reaches sum has an infinity", watched, function()
      (x * 1):sum():backward(optlua.tensor(math.huge))
    end)
    local twist = optlua.func { name = "twist", forward = function(_, a) return a * 1 end,
      backward = function() return optlua.tensor { 0 / 0, 1 } end }
    local sum = optlua.ones(2, { requires_grad = true })
    fails("for input 1 of twist has a NaN", watched, function() twist(sum):sum():backward() end)
  end)

  it("leaves what is finite alone, infinities of masks too, and hands results on", function()
    local a, b = watched(function(one, two) return one, two end, 1, nil)
    assert.same({ 1, nil }, { a, b })
    local scores = optlua.ones({ 2, 2 }, { requires_grad = true })
    watched(function()
      local masked = scores:masked_fill(optlua.tensor({ { 0, 1 }, { 0, 0 } }, { dtype = "uint8" }), -math.huge)
      masked:softmax(2):sum():backward()
    end)
    assert.is_true(scores.grad:isfinite():all():item() == 1)
  end)

  it("holds while the function runs, in coroutines too, and not longer", function()
    local x = optlua.tensor { -1 }
    pcall(watched, error, "x")
    assert.equal(1, x:log():isnan():item())
    local inner = coroutine.wrap(function()
      watched(function()
        coroutine.yield(1)
        x:log()
      end)
    end)
    inner()
    assert.equal(1, x:log():isnan():item())
    fails("the result of log has a NaN", inner)
    assert.equal(1, x:log():isnan():item())
    fails("function expected", optlua.detect_anomaly, 5)
    optlua.no_grad(function() fails("the result of log", watched, function() assert.is_false(optlua.is_grad_enabled()); x:log() end) end)
  end)
end)
