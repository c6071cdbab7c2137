-- Gradients as scripts see them: leaves, backward, modes, hooks.
local optlua = require "optlua"
local core = require "optlua.core"
local tensor = optlua.tensor

local fails = require("fails").matching

local function leaf(list) return tensor(list, { requires_grad = true }) end

describe("backward", function()
  it("fills the leaves", function()
    local w, x = leaf { 1, 2 }, tensor { 3, 4 };
    (w * x + w):sum():backward()
    assert.are.same({ 4, 5 }, w.grad:totable())
    assert.is_nil(x.grad)
    assert.is_false(w.grad.requires_grad)
  end)

  it("adds to gradients that are present", function()
    local w = leaf { 1, 2 }
    w:sum():backward()
    w:sum():backward()
    assert.are.same({ 2, 2 }, w.grad:totable())
    w.grad = nil
    assert.is_nil(w.grad)
    w:sum():backward()
    assert.are.same({ 1, 1 }, w.grad:totable())
  end)

  it("takes a seed, by position and by name", function()
    local w = leaf { 1, 2 };
    (w * 2):backward(tensor { 1, 10 })
    assert.are.same({ 2, 20 }, w.grad:totable())
    w.grad = nil;
    (w * 2):backward { gradient = tensor { 1, 1 } }
    assert.are.same({ 2, 2 }, w.grad:totable())
    fails("needs a seed gradient of that shape, or to be made one number before, by sum%(%) or mean%(%)", function() (w * 2):backward() end)
    fails("seed gradient of float32 %(2%) was expected, got float32 %(3%)", function() (w * 2):backward(tensor { 1, 2, 3 }) end)
    fails("seed gradient of float32 %(2%) was expected, got float64", function() (w * 2):backward(tensor({ 1, 2 }, "float64")) end)
    fails("argument 2 %(gradient%): tensor expected, got number", function() (w * 2):backward(1) end)
    fails('did you mean "retain_graph"', function() (w * 2):backward { retain_grap = true } end)
  end)

  it("can be called again only after retain_graph", function()
    local w = leaf { 3 }
    local y = (w * w):sum()
    y:backward { retain_graph = true }
    y:backward()
    assert.are.same({ 12 }, w.grad:totable())
    fails("retain_graph = true", function() y:backward() end)
    assert.are.same({ 12 }, w.grad:totable())
  end)

  it("says when there is nothing to do", function()
    fails("does not depend on anything that requires a gradient", function() tensor({ 1 }):backward() end)
  end)

  it("walks long graphs", function()
    local w = leaf { 1 }
    local y = w
    for _ = 1, 100000 do y = y + 1 end
    y:sum():backward()
    assert.are.same({ 1 }, w.grad:totable())
  end)

  it("follows all ways from a leaf", function()
    local w = leaf { 2 }
    local a = w * 3
    local y = (a * a + a * w):sum()
    y:backward()
    assert.are.same({ 48 }, w.grad:totable())
  end)

  it("sees changes in place of what it needs", function()
    local w = leaf { 1, 2 }
    local a = w * 1
    local y = (a * a):sum()
    optlua.no_grad(function() a:add_(1) end)
    fails("was changed in place after the forward pass", function() y:backward() end)
    assert.is_nil(w.grad)
  end)

  it("notices that the memory of a gradient in use went to the next one", function()
    local w, v = leaf { { 1, 1 } }, leaf { { 1, 1 } }
    local optimizer = optlua.optim.SGD { w, v } -- two: their gradients stay where they are
    optlua.linear(tensor { 1, 1 }, w):sum():backward()
    local loss = (w.grad * v):sum()
    optimizer:zero_grad()
    optlua.linear(tensor { 50, 50 }, w):sum():backward()
    fails("was changed in place", function() loss:backward() end)
  end)
end)

describe("a leaf", function()
  it("is told to want a gradient, or not", function()
    local w = tensor { 1 }
    w.requires_grad = true
    assert.is_true(w.requires_grad)
    assert.is_true(rawequal(w, w:requires_grad_(false)))
    assert.is_false(w.requires_grad)
    assert.is_true(w:requires_grad_().requires_grad)
    fails("boolean expected, got number", function() w.requires_grad = 1 end)
    fails("only float32 and float64", function() tensor({ 1 }, "int64").requires_grad = true end)
    fails("the result of mul is not a leaf", function() (w * 2).requires_grad = false end)
  end)

  it("takes a copy of a gradient", function()
    local w, g = leaf { 1, 2 }, tensor { 3, 4 }
    w.grad = g
    g[1] = 99
    assert.are.same({ 3, 4 }, w.grad:totable())
    fails("tensor or nil expected, got number", function() w.grad = 1 end)
    fails("gradient of float32 %(2%) was expected, got float32 %(1%)", function() w.grad = tensor { 1 } end)
    assert.are.same({ 3, 4 }, w.grad:totable())
  end)

  it("keeps one userdata for its gradient", function()
    local w = leaf { 1 }
    w:sum():backward()
    local first = w.grad
    w:sum():backward()
    assert.is_true(rawequal(first, w.grad))
    assert.are.same({ 2 }, first:totable())
  end)
end)

describe("a gradient that a script has kept", function()
  it("is not written by the next one", function()
    local w = leaf { 1, 2 }
    w:sum():backward()
    local first = w.grad
    w.grad = nil;
    (w * w):sum():backward()
    assert.are.same({ 2, 4 }, w.grad:totable())
    assert.are.same({ 1, 1 }, first:totable())
    local second = w.grad
    w.grad = tensor { 7, 7 }
    assert.are.same({ 2, 4 }, second:totable())
    w.grad = nil
    w:expand(3, 2):sum():backward()
    assert.are.same({ 3, 3 }, w.grad:totable())
    assert.are.same({ 1, 1 }, first:totable())
  end)
end)

describe("detach", function()
  it("looks at the same memory without history", function()
    local w = leaf { 1, 2 }
    local d = (w * 2):detach()
    assert.is_false(d.requires_grad)
    assert.is_true(d.is_leaf)
    local e = w:detach()
    e[1] = 5
    assert.are.same({ 5, 2 }, w:totable())
  end)
end)

describe("no_grad", function()
  local w = leaf { 1 }
  local function recorded() return (w * 2).requires_grad end

  it("passes arguments and results, and restores the mode", function()
    local a, b, c = optlua.no_grad(function(...) return recorded(), select("#", ...), ... end, nil, 3)
    assert.are.same({ false, 2 }, { a, b })
    assert.is_nil(c)
    assert.is_true(recorded())
    assert.is_false(optlua.no_grad(recorded))
    assert.is_true(optlua.no_grad(optlua.enable_grad, recorded))
    assert.is_false(optlua.no_grad(function() optlua.enable_grad(recorded); return recorded() end))
    assert.is_false(optlua.no_grad(setmetatable({}, { __call = function() return recorded() end })))
  end)

  it("restores the mode after an error, which passes unchanged", function()
    local object = {}
    local ok, caught = pcall(optlua.no_grad, error, object)
    assert.is_false(ok)
    assert.are.equal(object, caught)
    assert.is_true(recorded())
  end)

  it("keeps the traceback of an error", function()
    local _, trace = xpcall(function() optlua.no_grad(function() error "boom" end) end, debug.traceback)
    assert.matches("boom.*autograd_spec.lua:%d+: in function", trace)
  end)

  it("holds in coroutines that are resumed inside", function()
    local co = coroutine.wrap(function()
      while true do coroutine.yield(recorded()) end
    end)
    assert.is_true(co())
    assert.is_false(optlua.no_grad(co))
    assert.is_true(co())
  end)

  it("does not leak out of a coroutine that yields inside", function()
    local co = coroutine.wrap(function(...)
      local got = { optlua.no_grad(function(...)
        local seen = { ..., recorded() }
        seen[#seen + 1] = coroutine.yield(recorded())
        seen[#seen + 1] = recorded()
        seen[#seen + 1] = coroutine.yield(recorded())
        return table.unpack(seen)
      end, ...) }
      got[#got + 1] = recorded()
      return got
    end)
    assert.is_false(co "first")
    assert.is_true(recorded())
    assert.is_false(co "second")
    assert.is_true(recorded())
    assert.are.same({ "first", false, "second", false, "third", true }, co "third")
  end)

  it("does not leak out of a coroutine that fails or is dropped inside", function()
    local co = coroutine.create(function() optlua.no_grad(function() coroutine.yield() error { code = 7 } end) end)
    assert.is_true(coroutine.resume(co))
    assert.is_true(recorded())
    local ok, object = coroutine.resume(co)
    assert.is_false(ok)
    assert.are.equal(7, object.code)
    assert.is_true(recorded())
    coroutine.wrap(function() optlua.no_grad(coroutine.yield) end)()
    collectgarbage()
    assert.is_true(recorded())
    local dead = coroutine.create(function()
      table.sort({ 3, 2, 1 }, function() optlua.no_grad(error, "x") end)
    end)
    assert.is_false(coroutine.resume(dead))
    assert.is_true(recorded())
  end)

  it("closes the variables of its function when its coroutine is closed", function()
    local seen = {}
    local function variable(name, fails_too)
      return setmetatable({}, { __close = function()
        seen[#seen + 1] = name
        if fails_too then error("from " .. name, 0) end
      end })
    end
    local function suspended(fails_too)
      local co = coroutine.create(function()
        local outer <close> = variable "outer"
        optlua.no_grad(function()
          local inner <close> = variable("inner", fails_too)
          coroutine.yield(outer, inner)
        end)
      end)
      assert.is_true(coroutine.resume(co))
      return co
    end
    assert.is_true(coroutine.close(suspended()))
    assert.same({ "inner", "outer" }, seen)
    assert.same({ false, "from inner" }, { coroutine.close(suspended(true)) })
    assert.same({ "inner", "outer", "inner", "outer" }, seen)
    assert.is_true(recorded())
  end)

  it("nests across coroutines", function()
    local inner = coroutine.wrap(function()
      optlua.enable_grad(function() coroutine.yield(recorded()) coroutine.yield(recorded()) end)
      return recorded()
    end)
    optlua.no_grad(function()
      assert.is_true(inner())
      assert.is_false(recorded())
    end)
    assert.is_true(inner())
    assert.is_false(optlua.no_grad(inner))
  end)

  it("refuses what is no function", function()
    fails("argument 1 %(fn%): function expected, got number", optlua.no_grad, 3)
    fails("argument 1 %(fn%): function expected, got no value", optlua.no_grad)
    fails("argument 1 %(fn%): function expected, got table", optlua.enable_grad, {})
    fails("attempt to yield from outside a coroutine", optlua.no_grad, coroutine.yield)
    assert.is_true(recorded())
  end)
end)

describe("register_hook", function()
  it("shows a leaf's gradient once, after all contributions", function()
    local w = leaf { 1, 2 }
    local seen = {}
    w:register_hook(function(g) seen[#seen + 1] = g:totable() end);
    (w * 2 + w * 3):sum():backward()
    assert.are.same({ { 5, 5 } }, seen)
  end)

  it("replaces gradients, in order, of results too", function()
    local w = leaf { 1 }
    local y = w * 2
    y:register_hook(function(g) return g * 10 end)
    y:register_hook(function(g) return g + 1 end);
    (y * 3):sum():backward()
    assert.are.same({ 62 }, w.grad:totable())
  end)

  it("returns a handle that removes it", function()
    local w = leaf { 1 }
    local count = 0
    local handle = w:register_hook(function() count = count + 1 end)
    w:register_hook(function() count = count + 10 end)
    w:sum():backward()
    handle:remove()
    handle:remove()
    w:sum():backward()
    assert.are.equal(21, count)
  end)

  it("lasts as long as the graph, without the tensor", function()
    local w = leaf { 1 }
    local count = 0
    local y
    do
      local h = w * 2
      h:register_hook(function() count = count + 1 end)
      y = (h * 3):sum()
    end
    collectgarbage()
    collectgarbage()
    y:backward()
    assert.are.equal(1, count)
  end)

  it("says so when it was registered late and collected with its tensor", function()
    local w = leaf { 1 }
    local y
    do
      local h = w * 2
      y = (h * 3):sum()
      h:register_hook(function() end)
    end
    collectgarbage()
    collectgarbage()
    fails("register hooks before the tensor is used, or keep it", function() y:backward() end)
    assert.is_nil(w.grad)
  end)

  it("raises its own error from backward, which then has changed nothing", function()
    local w, v = leaf { 1 }, leaf { 1 }
    w:sum():backward()
    local object = {}
    w:register_hook(function() error(object) end)
    local ok, caught = pcall(function() (w * v):sum():backward() end)
    assert.is_false(ok)
    assert.are.equal(object, caught)
    assert.are.same({ 1 }, w.grad:totable())
    assert.is_nil(v.grad)
  end)

  it("runs without recording, and sees no history", function()
    local w = leaf { 2 }
    w:register_hook(function(g)
      assert.is_false(optlua.is_grad_enabled())
      assert.is_false((g * w).requires_grad)
    end);
    (w * w):sum():backward()
    assert.is_true(optlua.is_grad_enabled())
  end)

  it("refuses a backward inside that shares a leaf", function()
    local w = leaf { 1 }
    local inner = (w * 10):sum()
    w:register_hook(function(g)
      inner:backward()
      return g * 1
    end)
    fails("inside a backward that uses the same leaf", function() (w * 3):sum():backward() end)
    assert.is_nil(w.grad)
  end)

  it("loses nothing when a backward inside fails", function()
    local w = leaf { 1 }
    local inner, y = (w * 10):sum(), w * 1
    y:register_hook(function() assert.is_false(pcall(inner.backward, inner)) end);
    (y:sum() + (w * 3):sum()):backward()
    assert.are.same({ 4 }, w.grad:totable())
    inner:backward()
    assert.are.same({ 14 }, w.grad:totable())
  end)

  it("keeps the graph from a backward inside", function()
    local w, seen = leaf { 3 }, nil
    local a = w * w
    local b, inner = a * 2, a:sum()
    b:register_hook(function() seen = { pcall(inner.backward, inner) } end)
    b:sum():backward()
    assert.is_false(seen[1])
    assert.are.same({ 12 }, w.grad:totable())
  end)

  it("may hand over the gradient that is there, which changes only at the end", function()
    local w = leaf { 1 };
    (w * 5):sum():backward()
    local first = (w * 2):sum()
    local y = w + tensor { 0 }
    y:register_hook(function() return w.grad end);
    (first + y:sum()):backward()
    assert.are.same({ 12 }, w.grad:totable())
  end)

  it("may call backward on another graph", function()
    local w, v = leaf { 2 }, leaf { 3 }
    w:register_hook(function(g)
      return optlua.enable_grad(function()
        (v * v):sum():backward()
        return g + v.grad
      end)
    end)
    w:sum():backward()
    assert.are.same({ 7 }, w.grad:totable())
  end)

  it("refuses what does not fit", function()
    local w = leaf { 1 }
    fails("argument 2 %(fn%): function expected, got number", function() w:register_hook(3) end)
    fails("argument 2 %(fn%): value expected, got no value", function() w:register_hook() end)
    fails("does not require a gradient", function() tensor({ 1 }):register_hook(print) end)
    w:register_hook(function() return 3 end)
    fails("a gradient or nothing expected as the result, got number", function() w:sum():backward() end)
    local v = leaf { 1 }
    v:register_hook(function() return tensor { 1, 2 } end)
    fails("another shape or dtype", function() v:sum():backward() end)
    assert.is_nil(v.grad)
  end)

  it("leaves no cycle behind", function()
    local function round()
      local w = leaf { 1 }
      local y = w * 2
      w:register_hook(function() return y end)
      y:register_hook(function() return w, y end)
      return y + 1
    end
    collectgarbage()
    collectgarbage()
    local before = core.hidden.memory().live_blocks
    for _ = 1, 100 do round() end
    collectgarbage()
    collectgarbage()
    assert.are.equal(before, core.hidden.memory().live_blocks)
  end)
end)
