-- Differentiable functions written in Lua, and their check.
local optlua = require "optlua"
local core = require "optlua.core"
local tensor, func = optlua.tensor, optlua.func

local fails = require("fails").matching

local function leaf(list) return tensor(list, { dtype = "float64", requires_grad = true }) end

local scale = func {
  name = "scale",
  forward = function(ctx, x, factor)
    ctx:save(x)
    ctx.factor = factor
    return x * factor
  end,
  backward = function(ctx, grad) return grad * ctx.factor end,
}

describe("optlua.func", function()
  it("makes a function that records one node", function()
    local w = leaf { 1, 2 }
    local y = scale(w, 3)
    assert.are.same({ 3, 6 }, y:totable())
    assert.are.equal("scale", y.grad_fn)
    assert.matches("grad_fn=<scale>", tostring(y));
    (y * y):sum():backward()
    assert.are.same({ 18, 36 }, w.grad:totable())
  end)

  it("records nothing where nothing wants a gradient", function()
    assert.is_false(scale(tensor { 1 }, 2).requires_grad)
    assert.is_false(optlua.no_grad(scale, leaf { 1 }, 2).requires_grad)
  end)

  it("keeps saved tensors and fields through collections", function()
    local w = leaf { 1, 2 }
    local z
    do
      local y = scale(w * 1, 3)
      z = (y + 0):sum()
    end
    collectgarbage()
    collectgarbage()
    z:backward()
    assert.are.same({ 3, 3 }, w.grad:totable())
  end)

  it("keeps them through every op that joins tensors", function()
    local w = leaf { 1, 2 }
    local z = optlua.cat({ scale(w, 2), scale(w, 3) }):reshape(2, 2)[2] + scale(w, 5)
    collectgarbage()
    collectgarbage()
    z:sum():backward()
    assert.are.same({ 8, 8 }, w.grad:totable())
  end)

  it("takes several tensors and gives several", function()
    local both = func {
      name = "both",
      forward = function(ctx, a, text, b)
        ctx:save(a, b)
        assert.are.equal("text", text)
        return a * b, a + b
      end,
      backward = function(ctx, product, sum)
        local a, b = ctx.saved[1], ctx.saved[2]
        assert.are.same({ true, false, true }, ctx.needs_input_grad)
        return product * b + sum, nil, product * a + sum
      end,
    }
    local a, b = leaf { 2 }, leaf { 3 }
    local product, sum = both(a, "text", b);
    (product * 2 + sum):sum():backward()
    assert.are.same({ 7 }, a.grad:totable())
    assert.are.same({ 5 }, b.grad:totable())
    a.grad, b.grad = nil, nil
    local _, only = both(a, "text", b)
    only:sum():backward()
    assert.are.same({ 1 }, a.grad:totable())
  end)

  it("lets forward return its argument", function()
    local same = func {
      name = "same",
      forward = function(_, x) return x end,
      backward = function(_, grad) return grad * 7 end,
    }
    local w = leaf { 1 }
    local y = same(w)
    assert.is_false(rawequal(y, w))
    y:sum():backward()
    assert.are.same({ 7 }, w.grad:totable())
    assert.is_true(w.is_leaf)
  end)

  it("runs both functions without recording", function()
    local mode = {}
    local f = func {
      name = "f",
      forward = function(_, x) mode[1] = optlua.is_grad_enabled() return x * 1 end,
      backward = function(_, grad) mode[2] = optlua.is_grad_enabled() return grad end,
    }
    f(leaf { 1 }):sum():backward()
    assert.are.same({ false, false }, mode)
    assert.is_true(optlua.is_grad_enabled())
  end)

  it("frees what was saved after backward, unless it is retained", function()
    local kept
    local f = func {
      name = "f",
      forward = function(ctx, x) ctx:save(x) kept = ctx return x * 2 end,
      backward = function(_, grad) return grad * 2 end,
    }
    local y = f(leaf { 1 }):sum()
    y:backward { retain_graph = true }
    assert.are.equal(1, #kept.saved)
    y:backward()
    assert.is_nil(kept.saved)
  end)

  it("sees changes in place of saved tensors", function()
    local w = leaf { 1, 2 }
    local x = w * 1
    local y = scale(x, 3):sum()
    optlua.no_grad(function() x:add_(1) end)
    fails("tensor 1 that scale saved was changed in place", function() y:backward() end)
    assert.is_nil(w.grad)
  end)

  it("passes errors on, and then has changed nothing", function()
    local object = {}
    local f = func {
      name = "f",
      forward = function(_, x, bad) if bad then error(object) end return x * 2 end,
      backward = function() error(object) end,
    }
    local w = leaf { 1 }
    local ok, caught = pcall(f, w, true)
    assert.is_false(ok)
    assert.are.equal(object, caught)
    assert.is_true(optlua.is_grad_enabled())
    ok, caught = pcall(function() (f(w) + w):sum():backward() end)
    assert.is_false(ok)
    assert.are.equal(object, caught)
    assert.is_nil(w.grad)
  end)

  it("refuses results that do not fit", function()
    local function with(forward, backward)
      return func { name = "f", forward = forward, backward = backward or function(_, g) return g end }
    end
    local function times(_, x) return x * 2 end
    local w = leaf { 1, 2 }
    fails("f: forward must return 1 to 3 tensors, not 0 values", with(function() end), w)
    fails("f: forward must return 1 to 3 tensors, not 4", with(function(_, x) return x, x, x, x end), w)
    fails("f: result 2 of forward: tensor expected, got number", with(function(_, x) return x, 1 end), w)
    local function backward_fails(pattern, backward)
      fails(pattern, function() with(times, backward)(w):sum():backward() end)
      assert.is_nil(w.grad)
    end
    backward_fails("f: backward: gradient of input 1: tensor or nil expected, got string", function() return "x" end)
    backward_fails("f: backward: gradient of input 1: shape %(2%) expected, got %(3%)", function() return optlua.ones(3) end)
    backward_fails("float32 or float64 expected, got int64", function() return tensor({ 1, 2 }, "int64") end)
    backward_fails("f: backward: 2 gradients were returned for 1 argument", function(_, g) return g, g end)
  end)

  it("sums gradients that are broader, and leaves out those that are nil", function()
    local f = func {
      name = "f",
      forward = function(_, x, y) return x * y end,
      backward = function(_, g) return g, nil end,
    }
    local x, y = leaf { 1 }, leaf { 1, 2, 3 }
    f(x, y):sum():backward()
    assert.are.same({ 3 }, x.grad:totable())
    assert.is_nil(y.grad)
  end)

  it("refuses options that make no sense", function()
    fails('unknown option "foward" %(did you mean "forward"', func, { name = "f", foward = print })
    fails("argument 3 %(backward%): value expected, got no value", func, { name = "f", forward = print })
    fails("forward: function expected, got number", func, { name = "f", forward = 1, backward = print })
    fails("name: string expected, got number", func, { name = 1, forward = print, backward = print })
  end)

  it("leaves no cycle behind", function()
    local function round()
      local w = leaf { 1 }
      local y
      local f = func {
        name = "f",
        forward = function(ctx, x)
          ctx.self, ctx.x = ctx, x
          local result = x * 2
          ctx:save(x, result)
          return result
        end,
        backward = function(_, g) return g * y end,
      }
      y = f(w)
      return f(y) + y
    end
    collectgarbage()
    collectgarbage()
    local before = core.hidden.memory().live_blocks
    for i = 1, 100 do
      local y = round()
      if i % 2 == 0 then y:sum():backward() end
    end
    collectgarbage()
    collectgarbage()
    assert.are.equal(before, core.hidden.memory().live_blocks)
  end)

  it("survives long chains", function()
    local w = leaf { 1 }
    local y = w
    for _ = 1, 2000 do y = scale(y, 1) + w * 0 end
    collectgarbage()
    y:sum():backward()
    assert.are.same({ 1 }, w.grad:totable())
  end)
end)

describe("optlua.gradcheck", function()
  it("accepts right gradients", function()
    assert.is_true(optlua.gradcheck(function(x, y) return (x * y):sum(), x ^ 2 end, { leaf { { 1, 2 } }, leaf { 3, 4 } }))
    assert.is_true(optlua.gradcheck(function(x) return scale(x, 3) end, leaf { 1, 2 }))
    assert.is_true(optlua.gradcheck(function(x) return x:sum() end, { leaf(2) }))
  end)

  it("refuses wrong ones", function()
    local wrong = func {
      name = "wrong",
      forward = function(_, x) return x * x end,
      backward = function(_, g) return g end,
    }
    fails("output 1, element 1, by input 1, element 1: backward says 1, the difference 6", optlua.gradcheck, wrong,
      { leaf { 3 } })
  end)

  it("leaves values and gradients as they were", function()
    local w = leaf { 1, 2 }
    optlua.gradcheck(function(x) return x * x end, { w })
    assert.are.same({ 1, 2 }, w:totable())
    assert.is_nil(w.grad)
  end)

  it("asks for float64 leaves", function()
    fails("input 1: a float64 leaf expected, got float32", optlua.gradcheck, print, { tensor({ 1 }, { requires_grad = true }) })
    fails("input 1: a float64 leaf expected, got float64, the result of mul", optlua.gradcheck, print, { leaf { 1 } * 2 })
    local plain = tensor({ 1 }, { dtype = "float64" })
    fails("no input requires a gradient", optlua.gradcheck, function(x) return x * 2 end, { plain, 3 })
    fails("no input requires a gradient", optlua.gradcheck, function(x) return x * 2 end, plain)
    fails("no output requires a gradient", optlua.gradcheck, function(x) return x:detach() * 2 end, leaf { 1 })
    fails('did you mean "eps"', optlua.gradcheck, print, {}, { esp = 1 })
  end)
end)
