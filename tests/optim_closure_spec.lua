-- Closures of steps: how often they are called, and that everything is as it was where one fails or is left for good.
local optlua = require "optlua"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching
local help = require "own_step"

local bits, momentum, named = help.bits, help.momentum, help.named

local function values(tensor) return tensor:detach():flatten():totable() end

local function param(value, gradient, dtype)
  local p = optlua.tensor(value, { dtype = dtype or "float64", requires_grad = true })
  if gradient then p.grad = optlua.tensor(gradient, { dtype = dtype or "float64" }) end
  return p
end

local Declared = momentum(true)

describe("a closure", function()
  local function closure_of(optimizer, p)
    return function()
      optimizer:zero_grad()
      local loss = (p * p):sum()
      loss:backward()
      return loss
    end
  end

  it("is called once with recording for rules and steps that do not need it, also inside no_grad", function()
    for _, class in ipairs { optim.SGD, Declared } do
      local p, calls = param { 1 }, 0
      local optimizer = class({ p }, { lr = 0.5 })
      local inner = closure_of(optimizer, p)
      local loss = optlua.no_grad(function()
        return optimizer:step(function()
          calls = calls + 1
          return inner()
        end)
      end)
      assert.same({ 1, 1, { 0 } }, { loss:item(), calls, values(p) })
      assert.equal("any", optimizer:step(function() return "any" end))
      fails("a closure is a function, not a number", optimizer.step, optimizer, 1)
    end
  end)

  it("may fail at any call, and everything is as it was", function()
    local fail_at, calls
    for _, class in ipairs { optim.LBFGS, optim.sam(optim.AdamW) } do
      local p = param { 1, 2 }
      local optimizer = class({ p }, { lr = 0.1 })
      local inner = closure_of(optimizer, p)
      local function closure()
        calls = calls + 1
        if calls == fail_at then error "no more" end
        return inner()
      end
      for steps = 0, 2 do
        local before = bits(optimizer)
        for at = 1, class == optim.LBFGS and 4 or 2 do
          fail_at, calls = at, 0
          fails("no more", optimizer.step, optimizer, closure)
          assert.equal(before, bits(optimizer))
        end
        fail_at = 0
        optimizer:step(closure)
        assert.equal(steps + 1, optimizer:stats().updates)
      end
    end
  end)

  it("may fail at any call, and running statistics are as they were", function()
    local model = nn.Sequential { nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1) }
    local fail_at, calls
    for _, name in ipairs { "LBFGS", "SAM(SGD)", "SGD" } do
      local optimizer = optim.container(model, name, { lr = 0.01 })
      local before = { model[2].num_batches_tracked:item(), values(model[2].running_mean), values(model[2].running_var) }
      for at = 1, name == "SGD" and 1 or 2 do
        fail_at, calls = at, 0
        fails("no more", optimizer.step, optimizer, function()
          calls = calls + 1
          optimizer:zero_grad()
          local loss = model(optlua.randn { 8, 2 }):square():mean()
          loss:backward()
          if calls == fail_at then error "no more" end
          return loss
        end)
        assert.same(before, { model[2].num_batches_tracked:item(), values(model[2].running_mean), values(model[2].running_var) })
      end
    end
  end)

  it("may be left for good in a coroutine that is closed, and everything is as it was", function()
    for _, class in ipairs { optim.LBFGS, optim.sam(optim.AdamW) } do
      for at = 1, 2 do
        local p = param { 1, 2 }
        local optimizer = class({ p }, { lr = 0.1 })
        local inner, calls, before = closure_of(optimizer, p), 0, bits(optimizer)
        local co = coroutine.create(function()
          optimizer:step(function()
            calls = calls + 1
            if calls == at then coroutine.yield() end
            return inner()
          end)
        end)
        assert(coroutine.resume(co))
        assert.equal("suspended", coroutine.status(co))
        assert(coroutine.close(co))
        assert.equal(before, bits(optimizer))
        optimizer:step(inner)
        assert.equal(1, optimizer:stats().updates)
      end
    end
    local p = param({ 1, 2 }, { 1, 1 })
    local optimizer = optim.define { name = "Own", step = function(_, group)
      group.params[1]:add_(10)
      coroutine.yield()
    end } { p }
    local co = coroutine.create(function() optimizer:step() end)
    assert(coroutine.resume(co))
    assert.same({ 11, 12 }, values(p))
    assert(coroutine.close(co))
    assert.same({ 1, 2 }, values(p))
  end)

  it("may be left for good in a coroutine that is dropped, and the next step finds everything as it was", function()
    for _, class in ipairs { optim.LBFGS, optim.sam(optim.AdamW) } do
      local p, q = param { 1, 2 }, param { 1, 2 }
      local optimizer, other = class({ p }, { lr = 0.1 }), class({ q }, { lr = 0.1 })
      local inner, calls = closure_of(optimizer, p), 0
      coroutine.wrap(function()
        optimizer:step(function()
          calls = calls + 1
          if calls == 2 then coroutine.yield() end
          return inner()
        end)
      end)()
      assert.not_same({ 1, 2 }, values(p))
      optimizer:step(inner)
      other:step(closure_of(other, q))
      assert.same(values(q), values(p))
      assert.equal(1, optimizer:stats().updates)
    end
  end)

  it("must give finite gradients at first, where that is asked for", function()
    local list = { { "p", param { 1 } } }
    local p, calls = list[1][2], 0
    local optimizer = optim.container(function() return table.unpack(table.remove(list, 1) or {}) end, "LBFGS", { nonfinite = "error" })
    fails("the gradient of parameter 'p' is not finite", optimizer.step, optimizer, function()
      calls = calls + 1
      p.grad = optlua.tensor({ 1 / 0 }, { dtype = "float64" })
      return 1
    end)
    assert.same({ 1, { 1 } }, { calls, values(p) })
  end)

  it("gives SAM finite gradients at first, too, where that is asked for", function()
    for _, way in ipairs { "error", "skip" } do
      local p, calls = param { 1 }, 0
      local list = named { p }
      local optimizer = optim.container(function() return table.unpack(table.remove(list, 1) or {}) end, "SAM(SGD)", { nonfinite = way })
      local function closure()
        calls = calls + 1
        p.grad = optlua.tensor({ calls == 1 and 0 / 0 or 1 }, { dtype = "float64" })
        return 1
      end
      if way == "error" then
        fails("the gradient of parameter 'p1' is not finite", optimizer.step, optimizer, closure)
      else
        optimizer:step(closure)
        assert.is_nil(p.grad)
      end
      assert.same({ 1, { 1 }, 0 }, { calls, values(p), optimizer:stats().updates })
    end
  end)

  it("leaves the gradients of other classes as they were when it raises, and clears them when the step is skipped", function()
    for _, way in ipairs { "error", "skip" } do
      local a, b, calls = param { 1 }, param { 1 }, 0
      local list = named { a, b }
      local optimizer = optim.container(function() return table.unpack(table.remove(list, 1) or {}) end,
        { { match = "p1", class = "LBFGS" }, { match = "*", class = "SGD" } }, { nonfinite = way })
      local function closure()
        calls = calls + 1
        a.grad, b.grad = param { calls == 2 and way == "skip" and 1 / 0 or 1 }:detach(), param { calls }:detach()
        if calls == 2 and way == "error" then error "boom" end
        return 1
      end
      if way == "error" then
        fails("boom", optimizer.step, optimizer, closure)
        assert.same({ 1 }, values(b.grad))
      else
        optimizer:step(closure)
        assert.same({ 1, 0 }, { optimizer:stats().skipped, optimizer:stats().updates })
        assert.same({}, { a.grad, b.grad })
      end
      assert.equal(2, calls)
    end
  end)

  it("may yield", function()
    local p = param { 1 }
    local optimizer = optim.LBFGS({ p }, { lr = 0.1, max_iter = 2 })
    local inner = closure_of(optimizer, p)
    local yields = 0
    local run = coroutine.wrap(function()
      optimizer:step(function()
        coroutine.yield "more"
        return inner()
      end)
      return "done"
    end)
    while run() == "more" do yields = yields + 1 end
    assert.equal(2, yields)
    assert.equal(1, optimizer:stats().updates)
  end)

  it("gives other classes the gradients at the parameters before the step, whoever calls it", function()
    for _, other in ipairs { optim.LBFGS, optim.sam(optim.SGD), optim.sam(optim.AdamW) } do
      local a, b = param { 1, 2 }, param { 3 }
      local list = named { a, b }
      local optimizer = optim.container(function() return table.unpack(table.remove(list, 1) or {}) end,
        { { name = "other", match = "p1", class = other, lr = 0.1 }, { name = "plain", match = "*", class = "SGD", lr = 0.1 } })
      local calls = 0
      local loss = optimizer:step(function()
        calls = calls + 1
        optimizer:zero_grad()
        local result = (a * a):sum() * b:sum()
        result:backward()
        return result
      end)
      if other == optim.LBFGS then assert.is_true(calls > 2) else assert.equal(2, calls) end
      assert.equal(15, loss:item())
      assert.is_near(3 - 0.1 * 5, b:item(), 1e-15) -- the gradient of b is |a|² = 5 before the step
      assert.is_true(values(a)[1] < 1)
    end
  end)

  it("has made the update when `after` of a rule raises", function()
    local a, b, c = param { 1 }, param { 1 }, param { 1 }
    local Late = optim.define { name = "Late", after = function() error "late" end, update = function(p, g) return p - 0.5 * g end }
    local list = named { a, b, c }
    local optimizer = optim.container(function() return table.unpack(table.remove(list, 1) or {}) end, {
      { name = "sam", match = "p1", class = optim.sam(Late), rho = 1 }, { name = "lbfgs", match = "p2", class = "LBFGS", max_iter = 1 },
      { name = "own", match = "p3", class = momentum(true), lr = 0.5 },
    })
    local function closure()
      optimizer:zero_grad()
      local loss = (a + b + c):sum()
      loss:backward()
      return loss
    end
    fails("late", optimizer.step, optimizer, closure)
    assert.same({ 0.5, 0, 0.5 }, { a:item(), b:item(), c:item() })
    local state = optimizer:state_dict()
    assert.same({ 1, 1, 1, 1, 1, 1 }, { state.updates, state["state.p1.step"], state["state.p2.step"], state["state.p3.step"],
      state["group.lbfgs.step"], state["group.own.step"] })
  end)

  it("is not called where a group has the form for evaluation", function()
    local p = param { 1 }
    local optimizer = optim.sam "ScheduleFreeSGD" { p }
    optimizer:step(closure_of(optimizer, p))
    optimizer:eval()
    fails("form for evaluation", optimizer.step, optimizer, function() error "it was called" end)
  end)

  it("moves running statistics once a step", function()
    local model = nn.Sequential { nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1) }
    for _, name in ipairs { "LBFGS", "SAM(SGD)", "SGD" } do
      optlua.manual_seed(1)
      local optimizer = optim.container(model, name, { lr = 0.01 })
      local before, calls = model[2].num_batches_tracked:item(), 0
      optimizer:step(function()
        calls = calls + 1
        optimizer:zero_grad()
        local loss = model(optlua.randn { 8, 2 }):square():mean()
        loss:backward()
        return loss
      end)
      assert.equal(name == "SGD", calls == 1)
      assert.equal(before + 1, model[2].num_batches_tracked:item())
    end
  end)

  it("steps beside optimizers of anybody's making, which are undone with it", function()
    local a, b = param { 1 }, param { 2 }
    local steps = 0
    local function own()
      return { step = function()
        steps = steps + 1
        optlua.no_grad(function() b:sub_(b.grad) end)
      end, zero_grad = function() b.grad = nil end, state_dict = function() return { steps = steps } end,
        load_state_dict = function(_, state) steps = state.steps end }
    end
    local Own = optim.wrapper { name = "Own", build = own }
    local list = named { a, b }
    local broken = true
    local Late = optim.define { name = "Late", needs_closure = true, gradients = function(_, _, closure) closure() end,
      update = function(p, g)
        if broken then error "late" end
        return p - 0.5 * g
      end }
    local optimizer = optim.container(function() return table.unpack(table.remove(list, 1) or {}) end,
      { { name = "late", match = "p1", class = Late }, { name = "own", match = "*", class = Own } })
    local function closure()
      optimizer:zero_grad()
      local loss = (a * b):sum()
      loss:backward()
      return loss
    end
    fails("late", optimizer.step, optimizer, closure)
    assert.same({ 1, 2, 0 }, { a:item(), b:item(), steps })
    broken = false
    optimizer:step(closure)
    assert.same({ 0, 1, 1 }, { a:item(), b:item(), steps })
  end)
end)
