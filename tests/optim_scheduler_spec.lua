-- Schedules: pure functions of the number of committed updates, asked at the start of a step.
local optlua = require "optlua"
local optim = optlua.optim

local fails = require("fails").matching

local function make(lr, class)
  local p, q = optlua.tensor({ 0 }, { dtype = "float64" }), optlua.tensor({ 0 }, { dtype = "float64" })
  p.requires_grad, q.requires_grad = true, true
  p.grad, q.grad = optlua.ones_like(p:detach()), optlua.ones_like(q:detach())
  local optimizer = (class or optim.SGD)({ { name = "a", params = { p } }, { name = "b", params = { q } } }, { lr = lr })
  return optimizer, p, q
end

-- The rates that updates really used: how far a parameter moved.
local function rates(optimizer, p, count)
  local list = {}
  for i = 1, count do
    local before = p:item()
    optimizer:step()
    list[i] = before - p:item()
  end
  return list
end

local function near(want, got)
  assert.equal(#want, #got)
  for i, x in ipairs(want) do assert.near(x, got[i], 1e-15) end
end

describe("a scheduler", function()
  it("prints what moves", function()
    local optimizer = optlua.optim.SGD(optlua.nn.Linear(1, 1))
    assert.equal("scheduler (\n  default.lr: schedule StepLR\n)",
      tostring(optlua.optim.lr_scheduler(optimizer, optlua.schedule.StepLR { step_size = 3 })))
    assert.equal("scheduler (\n  default.momentum: function\n)",
      tostring(optlua.optim.scheduler(optimizer, "momentum", function() return 1 end)))
  end)
end)

describe("an LR lambda", function()
  it("gives the factor on the base, and does not overwrite the base", function()
    local optimizer, p = make(1)
    optim.lr_scheduler(optimizer, function() return 0.5 end)
    near({ 0.5, 0.5, 0.5, 0.5 }, rates(optimizer, p, 4))
  end)

  it("counts updates from 0", function()
    local optimizer, p = make(1)
    optim.lr_scheduler(optimizer, function(step)
      assert(math.type(step) == "integer")
      return step + 1
    end)
    near({ 1, 2, 3 }, rates(optimizer, p, 3))
  end)

  it("is read as the last update used it; before the first, as it will", function()
    local optimizer = make(0.1)
    local scheduler = optim.lr_scheduler(optimizer, function(step) return 1 / (step + 1) end)
    assert.same({ 0.1, 0.1 }, scheduler:get_last_lr())
    for t = 0, 3 do
      optimizer:step()
      scheduler:step() -- harmless
      assert.same({ 0.1 * (1 / (t + 1)), 0.1 * (1 / (t + 1)) }, scheduler:get_last_lr())
      assert.equal(0.1 * (1 / (t + 1)), optimizer.groups.a.lr)
    end
  end)

  it("says once that step does nothing, where it is called for epochs", function()
    local function said(opts, updates)
      local stderr, lines = io.stderr, {}
      io.stderr = { write = function(_, ...) lines[#lines + 1] = table.concat { ... } end } -- luacheck: ignore
      local optimizer = make(0.1)
      local scheduler = optim.lr_scheduler(optimizer, optlua.schedule.StepLR { step_size = 2 }, opts)
      for _ = 1, 4 do
        for _ = 1, updates do optimizer:step() end
        scheduler:step()
      end
      io.stderr = stderr -- luacheck: ignore
      return lines
    end
    local lines = said({}, 3)
    assert.equal(1, #lines)
    assert.matches('optim_scheduler_spec.lua:%d+: scheduler:step%(%) does nothing.*3 between two calls.*interval = "epoch"', lines[1])
    assert.same({}, said({}, 1))
    assert.same({}, said({ interval = "epoch" }, 3))
  end)

  it("works on the base that is assigned meanwhile", function()
    local optimizer, p = make(1)
    optim.lr_scheduler(optimizer, function(step) return 2 ^ -step end)
    optimizer:step()
    optimizer:step()
    assert.equal(0.5, optimizer.groups.a.lr)
    optimizer.groups.a.lr = 8
    assert.equal(2, optimizer.groups.a.lr) -- what the next update will use
    near({ 2, 1 }, rates(optimizer, p, 2))
    assert.equal(1, optimizer.groups.a.lr)
    assert.equal(0.125, optimizer.groups.b.lr)
  end)

  it("can differ by group; who is left out keeps the value", function()
    local optimizer, p, q = make(1)
    local scheduler = optim.lr_scheduler(optimizer, { b = function(step) return step end })
    optimizer:step()
    optimizer:step()
    assert.equal(-2, p:item())
    assert.equal(-1, q:item())
    assert.same({ 1, 1 }, scheduler:get_last_lr())
    assert.equal(1, optimizer.groups.b.lr)
    fails('unknown group "bb" %(did you mean "b"%?%)', optim.lr_scheduler, make(1), { bb = function() return 1 end })
  end)

  it("continues where it was, loaded in either order", function()
    local function lambda(step) return 0.5 ^ step end
    local optimizer = make(0.01)
    optim.lr_scheduler(optimizer, lambda)
    for _ = 1, 3 do optimizer:step() end
    local state = optimizer:state_dict()
    for order = 1, 2 do
      local other, p = make(5)
      local scheduler
      if order == 1 then scheduler = optim.lr_scheduler(other, lambda) end
      other:load_state_dict(state)
      if order == 2 then scheduler = optim.lr_scheduler(other, lambda) end
      scheduler:load_state_dict(scheduler:state_dict())
      assert.same({ 0.0025, 0.0025 }, scheduler:get_last_lr())
      near({ 0.00125, 0.000625 }, rates(other, p, 2))
    end
  end)

  it("does not go on when a step failed or was none", function()
    local optimizer, p, q = make(1)
    local bad = false
    optim.lr_scheduler(optimizer, { a = function(step) return step + 1 end, b = function(step)
      if bad then error "broken lambda" end
      return step + 1
    end })
    optimizer:step()
    bad = true
    fails("broken lambda", optimizer.step, optimizer)
    assert.equal(1, optimizer.groups.a.lr)
    assert.equal(-1, p:item())
    bad = false
    optimizer:zero_grad()
    optimizer:step()
    assert.equal(1, optimizer.groups.a.lr)
    p.grad, q.grad = optlua.ones_like(p:detach()), optlua.ones_like(q:detach())
    near({ 2 }, rates(optimizer, p, 1))
  end)

  it("that makes a value infinite is an error", function()
    local p = optlua.ones({ 1 }, { requires_grad = true })
    p.grad = optlua.ones(1)
    local optimizer = optim.SGD({ p }, { lr = 10 })
    fails("lr: a finite number expected, got inf", optim.lr_scheduler, optimizer, function() return 1.7e308 end)
    optim.lr_scheduler(optimizer, function(step) return step < 1 and 1 or 1.7e308 end)
    optimizer:step()
    fails("lr: a finite number expected, got inf", optimizer.step, optimizer)
    assert.equal(-9, p:item())
  end)

  it("that gives nonsense is an error with group and step, and nothing has changed", function()
    local cases = {
      { function() end, "the schedule gives nil" },
      { function() return 0 / 0 end, "the schedule gives NaN" },
      { function() return "1" end, 'the schedule gives "1"' },
      { function() return -1 end, "the schedule gives the factor %-1" },
      { function() return math.huge end, "the schedule gives the factor inf" },
      { function() return true end, "the schedule gives boolean" },
    }
    for _, case in ipairs(cases) do
      local optimizer, p = make(1)
      optim.lr_scheduler(optimizer, { b = function(step)
        if step < 2 then return 1 end
        return case[1](step)
      end })
      optimizer:step()
      optimizer:step()
      fails("SGD, group 'b', step 2: " .. case[2], optimizer.step, optimizer)
      assert.equal(-2, p:item())
      assert.equal(2, optimizer:stats().updates)
      assert.equal(1, optimizer.groups.b.lr)
    end
  end)

  it("is told with the base that it moves", function()
    local optimizer = make(2)
    optim.lr_scheduler(optimizer, { a = function() return 0.25 end, b = optlua.schedule.value(function() return 0.25 end) })
    assert.is_truthy(optimizer:plan():find("lr = 0.5 (scheduled, base 2)", 1, true))
    assert.is_truthy(optimizer:plan():find("lr = 0.25 (scheduled)", 1, true))
    assert.matches("lr = 0.5: from [^,\n]*, moved by optim.lr_scheduler from the base 2\n", optimizer:explain "param1" .. "\n")
    assert.matches("lr = 0.25: from [^,\n]*, moved by optim.lr_scheduler\n", optimizer:explain "param2" .. "\n")
  end)

  it("is asked when it is made; what gives nonsense then is not taken", function()
    local optimizer = make(1)
    optim.lr_scheduler(optimizer, { a = function() return 0.5 end })
    local function nothing() end
    fails("optim_scheduler_spec.lua:%d+: optim.lr_scheduler: SGD, group 'a', step 0: the schedule gives nil; a number was expected",
      function() optim.lr_scheduler(optimizer, nothing) end)
    fails("group 'b', step 0: the schedule gives nil", optim.lr_scheduler, optimizer, { a = function() return 2 end, b = nothing })
    fails("broken lambda", optim.lr_scheduler, optimizer, function() error "broken lambda" end)
    assert.equal(0.5, optimizer.groups.a.lr)
    assert.equal(1, optimizer.groups.b.lr)
  end)

  it("does not keep anybody from reading when it breaks later", function()
    local optimizer = make(1)
    local bad = false
    local scheduler = optim.lr_scheduler(optimizer, function()
      if bad then error "broken lambda" end
      return 0.5
    end)
    bad = true
    assert.equal(1, optimizer.groups.a.lr)
    assert.same({ 1, 1 }, scheduler:get_last_lr())
    assert.matches("lr = 1", tostring(optimizer))
    fails("broken lambda", optimizer.step, optimizer)
    fails("broken lambda", optimizer.add_group, optimizer, { name = "c", params = { optlua.zeros(1) } })
    assert.equal(2, #optimizer.groups)
  end)

  it("can be replaced", function()
    local optimizer, p, q = make(1)
    optim.lr_scheduler(optimizer, function() return 0.5 end)
    near({ 0.5 }, rates(optimizer, p, 1))
    optim.lr_scheduler(optimizer, { a = function(step) return step + 1 end })
    assert.equal(0.5, optimizer.groups.a.lr) -- what the last update used
    near({ 2, 3 }, rates(optimizer, p, 2))
    assert.equal(-1.5, q:item())
    optim.lr_scheduler(optimizer, function() return 1 end)
    near({ 1 }, rates(optimizer, p, 1))
    optimizer:add_group { name = "c", params = { optlua.zeros(1) } }
    assert.equal(1, optimizer.groups.c.lr)
  end)

  it("holds for groups that are added later", function()
    local optimizer = make(1)
    optim.lr_scheduler(optimizer, function(step) return step + 1 end)
    optimizer:step()
    local x = optlua.tensor({ 0 }, { dtype = "float64" })
    x.requires_grad = true
    x.grad = optlua.ones_like(x:detach())
    optimizer:add_group { name = "c", params = { x } }
    assert.equal(2, optimizer.groups.c.lr)
    optimizer:step()
    assert.equal(-2, x:item())
  end)

  it("moves the groups of a container by one clock", function()
    local nn = optlua.nn
    local net = nn.Linear(1, 1)
    local optimizer = optim.container(net, {
      { name = "b", match = "bias", class = "SGD", lr = 1 }, { name = "w", match = "*", class = "AdamW", lr = 2 },
    })
    optim.lr_scheduler(optimizer, function(step) return 1 / (1 + step) end)
    for _ = 1, 3 do
      net.bias.grad = optlua.ones(1)
      optimizer:step() -- the group w has no gradient; the clock is one
    end
    assert.equal(1 / 3, optimizer.groups.b.lr)
    assert.equal(2 / 3, optimizer.groups.w.lr)
  end)
end)

describe("optim.scheduler", function()
  it("moves any hyperparameter, by factors or by values", function()
    local optimizer = make(1)
    optim.scheduler(optimizer, "weight_decay", { a = { absolute = true, at = function(_, step) return step / 10 end } })
    local momentum = optim.scheduler(optimizer, "momentum", function() return 1 end)
    optimizer.groups.a.momentum = 0.5
    optimizer:step()
    optimizer:step()
    assert.equal(0.1, optimizer.groups.a.weight_decay)
    assert.same({ 0.5, 0 }, momentum:get_last_value())
  end)

  it("checks what comes out like a value that is assigned", function()
    local optimizer = make(1)
    optim.scheduler(optimizer, "weight_decay", { a = { absolute = true, at = function(_, step) return -step end } })
    optimizer:step()
    fails("group 'a', step 1: weight_decay: expected a number at least 0", optimizer.step, optimizer)
  end)

  it("refuses what it cannot move", function()
    local optimizer = make(1, optim.AdamW)
    local function one() return 1 end
    fails('unknown hyperparameter "momentum"', optim.scheduler, optimizer, "momentum", one)
    fails("betas is a list; one of its elements can be moved", optim.scheduler, optimizer, "betas", one)
    fails("group 'a': unknown hyperparameter", optim.scheduler, optimizer, "momentum", { a = one })
    fails("a function, a schedule, or a table", optim.lr_scheduler, optimizer, 0.5)
    fails("a function or a schedule expected, got number", optim.lr_scheduler, optimizer, { a = 0.5 })
    fails("an optimizer or a container expected", optim.lr_scheduler, {}, one)
  end)
end)
