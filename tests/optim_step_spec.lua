-- Classes with a step of their own: what they are given, what is saved, and that a step is made as a whole or not at all.
local optlua = require "optlua"
local core = require "optlua.core"
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

local function copy(state)
  local result = {}
  for key, value in pairs(state) do result[key] = optlua.is_tensor(value) and value:clone() or value end
  return result
end

local Declared, Free = momentum(true), momentum(false)

local function gradients(params, t)
  for k, p in ipairs(params) do
    p.grad = (optlua.arange(0, p:numel(), { dtype = "float64" }) * 1.3 + k + 0.7 * t):sin():to(p.dtype):reshape(p.shape)
  end
end

describe("a step of one's own", function()
  it("is as good as a rule, for states that are declared and others, in both dtypes", function()
    for _, class in ipairs { Declared, Free } do
      for _, dtype in ipairs { "float32", "float64" } do
        local function run(make)
          local params = { param({ 1, 2, 3 }, nil, dtype), param({ { 1 }, { 2 } }, nil, dtype) }
          local optimizer = make(params)
          for t = 1, 5 do
            gradients(params, t)
            optimizer:step()
          end
          return { values(params[1]), values(params[2]) }
        end
        local want = run(function(params) return optim.SGD(params, { lr = 0.1, momentum = 0.9 }) end)
        local got = run(class)
        for k = 1, 2 do
          for i, x in ipairs(want[k]) do assert.is_near(x, got[k][i], dtype == "float32" and 1e-6 or 1e-14) end
        end
      end
    end
  end)

  it("is given the parameters with a gradient, hyperparameters as schedules move them, and numbers of the group", function()
    local seen = {}
    local Looker = optim.define {
      name = "Looker", hyper = { lr = 1, words = { default = { 1, 2 } } }, group = { total = 0 },
      step = function(self, group, closure)
        assert(closure == nil and not optlua.is_grad_enabled())
        group.total = group.total + #group.params
        seen[#seen + 1] = { names = table.concat(group.names, " "), lr = group.lr, step = group.step, name = group.name,
          of = { group.state[group.params[1]].step }, second = group.words[2], self = self }
      end,
    }
    local a, b, c = param({ 1 }, { 1 }), param { 2 }, param({ 3 }, { 1 })
    local optimizer = Looker(named { a, b, c })
    optim.lr_scheduler(optimizer, function(step) return 0.5 ^ step end)
    optimizer:step()
    b.grad, a.grad = optlua.ones(1, { dtype = "float64" }), nil
    c.requires_grad = false
    optimizer:step()
    assert.same({ names = "p1 p3", lr = 1, step = 1, name = "default", of = { 1 }, second = 2, self = optimizer }, seen[1])
    assert.same({ names = "p2", lr = 0.5, step = 2, name = "default", of = { 1 }, second = 2, self = optimizer }, seen[2])
    local state = optimizer:state_dict()
    assert.same({ 3.0, 1, 1, 1, 2 }, { state["group.default.total"], state["state.p1.step"], state["state.p2.step"],
      state["state.p3.step"], state.updates })
    b.grad = nil
    optimizer:step() -- no gradient that can be used: nothing
    assert.same({ 2, 2 }, { #seen, optimizer:stats().updates })
  end)

  it("is told at its line about names and values that are none", function()
    local body
    local Wrong = momentum(true, { group = { count = 0 }, step = function(_, group) body(group, group.params[1]) end })
    local p = param({ 1, 2 }, { 1, 1 })
    local optimizer = Wrong(named { p })
    local before = bits(optimizer)
    local function wrong(pattern, fn)
      body = fn
      local message = fails(pattern, optimizer.step, optimizer)
      assert.matches("Momentum, group 'default', update 1", message)
      assert.equal(before, bits(optimizer))
    end
    wrong("optim_step_spec.lua:%d+: .*unknown field \"momentun\" %(did you mean \"momentum\"%?%)", function(group) return group.momentun end)
    wrong("optim_step_spec.lua:%d+: .*unknown number of the group \"lr\"", function(group) group.lr = 1 end)
    wrong("group.count: a number expected, got NaN", function(group) group.count = 0 / 0 end)
    wrong("group.state of 'p1'.fn is a function, which cannot be saved", function(group, q) group.state[q].fn = print end)
    wrong("group.state.fn is a function, which cannot be saved", function(group) group.state.fn = print end)
    wrong("group.state of 'p1': a key is a word or a count, not \"a.b\"", function(group, q) group.state[q]["a.b"] = 1 end)
    wrong("group.state of 'p1'.step: it counts the updates of the parameter and cannot be set", function(group, q) group.state[q].step = 9 end)
    wrong("group.state of 'p1'.step: it counts", function(group, q) group.state[q].step = nil end)
    wrong("group.state of 'p1'.train_form: the form of the parameter in training", function(group, q) group.state[q].train_form = 1 end)
    wrong("group.state of 'p1'.list: a key is a word or a count, not 0", function(group, q) group.state[q].list = { [0] = 1 } end)
    wrong("velocity: float64 %(2%) expected, got float64 %(3%)", function(group, q)
      group.state[q].velocity = optlua.zeros({ 3 }, { dtype = "float64" })
    end)
    wrong("velocity: float64 %(2%) expected, got nil", function(group, q) group.state[q].velocity = nil end)
    wrong("a table expected, got nil", function(group, q) group.state[q] = nil end)
    wrong("boom", function(group, q)
      q:add_(1)
      group.state[q].velocity:add_(1)
      group.state[q].other, group.state.other, group.count = { optlua.ones(1) }, 1, 7
      error "boom"
    end)
    body = function(group, q) group.state[q].velocity = q.grad * 2 end -- another tensor in its place is copied
    optimizer:step()
    assert.same({ 2, 2 }, values(optimizer:state_dict()["state.p1.velocity"]))
  end)

  it("loads no values where others are", function()
    local optimizer = Free({ param({ 1 }, { 1 }) }, {})
    optimizer:step()
    for _, pair in ipairs { { "a", "a/x" }, { "a/x", "a/x/y" }, { "b/1", "b/1/2" }, { "velocity", "velocity/1" }, { "a//x", "a/x" } } do
      for _, prefix in ipairs { "state.param1.", "memory.default." } do
        local state = copy(optimizer:state_dict())
        for _, path in ipairs(pair) do state[prefix .. path] = 1 end
        fails((prefix .. pair[2] .. ": another value is where this one belongs"):gsub("[.]", "%%."), optimizer.load_state_dict, optimizer, state)
      end
    end
    local state = copy(optimizer:state_dict())
    state["state.param1./"] = 1
    fails("state.param1./: another value is where this one belongs", optimizer.load_state_dict, optimizer, state)
  end)

  it("is saved and goes on bit for bit, by name, whatever is in the states", function()
    local Rich = momentum(true, {
      step = function(_, group)
        local memory = group.state
        memory.calls = (memory.calls or 0) + 1
        memory.words = { "a", { "b", memory.calls } }
        for _, p in ipairs(group.params) do
          local s = memory[p]
          s.velocity:mul_(0.9):add_(p.grad)
          s.history = s.history or { first = optlua.tensor({ 1, 2 }, { dtype = "int64" }), list = {} }
          table.insert(s.history.list, s.velocity:to "bfloat16")
          s.flag, s.count = true, (s.count or 0.5) + 1
          p:sub_(0.1 * s.history.list[1]:to(p.dtype) + 0.01 * s.count * memory.words[2][2])
        end
      end,
    })
    local function make(first, second)
      local params = { param(first), param(second) }
      return Rich { { "a.b", params[1] }, { "a", params[2] } }, params
    end
    local optimizer, params = make({ 1, 2 }, { 3 })
    local saves, want = {}, {}
    for t = 1, 5 do
      saves[t] = { copy(optimizer:state_dict()), values(params[1]), values(params[2]) }
      gradients(params, t)
      optimizer:step()
      want[t] = bits(optimizer)
    end
    assert.same({ "bfloat16", "int64", true, 3.5, 3 }, { saves[4][1]["state.a.history/list/3"].dtype,
      saves[4][1]["state.a.b.history/first"].dtype, saves[4][1]["state.a.flag"], saves[4][1]["state.a.count"],
      saves[4][1]["memory.default.calls"] })
    for from = 1, 5 do
      local again, others = make(saves[from][2], saves[from][3])
      again:load_state_dict(saves[from][1])
      for t = from, 5 do
        gradients(others, t)
        again:step()
        assert.equal(want[t], bits(again), ("step %d from %d"):format(t, from))
      end
    end
    local other = make({ 1, 2 }, { 3 })
    local broken = copy(saves[3][1])
    broken["state.c.count"], broken["memory.late.calls"] = 1, 1
    fails("unexpected: memory.late.calls, state.c.count", other.load_state_dict, other, broken)
  end)

  it("keeps no values that share memory, which would come back apart", function()
    local function stepped(step, declared)
      local p = param({ 1, 2 }, { 1, 1 })
      local optimizer = optim.define { name = "Own", state = declared, step = step } { { "p", p } }
      optimizer:step()
      return optimizer, p
    end
    local function own(group) return group.state[group.params[1]] end
    local cases = {
      { "group.state.[ab] shares memory with group.state.[ab]; they would come back as two", function(_, group)
        group.state.a = optlua.zeros(2)
        group.state.b = group.state.a
      end },
      { "shares memory with", function(_, group)
        group.state.a = { optlua.zeros(4) }
        own(group).b = group.state.a[1]:narrow(1, 2, 2)
      end },
      { "group.state.a shares memory with group.state of 'p'.m", function(_, group) group.state.a = own(group).m end, { m = 0 } },
      { "group.state of 'p'.a shares memory with parameter 'p'", function(_, group) own(group).a = group.params[1] end },
      { "group.state.[ab] is the table that group.state.[ab] is", function(_, group)
        group.state.a = { 1 }
        group.state.b = group.state.a
      end },
    }
    for _, case in ipairs(cases) do fails(case[1], stepped, case[2], case[3]) end
    local optimizer = stepped(function(_, group)
      group.state.a, group.state.b = optlua.zeros(2), optlua.zeros(2)
      own(group).a = { group.params[1]:clone(), optlua.zeros(0), optlua.zeros(0) }
    end, { m = 0 })
    assert.equal(1, optimizer:stats().updates)
  end)

  it("comes through a checkpoint, in a container with rules", function()
    local place = require("process").folder()
    local function make()
      optlua.manual_seed(3)
      local model = nn.Sequential { nn.Linear(3, 4), nn.Linear(4, 2) }
      return { model = model, optimizer = optim.container(model, {
        { name = "own", match = "0.*", class = Free }, { name = "rule", match = "*", class = "AdamW" },
      }, { ema = 0.9 }) }
    end
    local function step(parts, t)
      parts.optimizer:zero_grad()
      parts.model(optlua.ones { 2, 3 } * t):square():sum():backward()
      parts.optimizer:step()
    end
    local parts = make()
    for t = 1, 3 do step(parts, t) end
    optlua.checkpoint.save(place .. "/a", parts)
    step(parts, 4)
    local again = make()
    optlua.checkpoint.load(place .. "/a", again)
    step(again, 4)
    assert.equal(bits(parts.optimizer), bits(again.optimizer))
    require("process").remove(place)
  end)

  it("is undone when a rule after it fails, and when the gradients are not finite", function()
    local broken = true
    local Rule = optim.define { name = "Rule", update = function(p, g)
      if broken then error "broken rule" end
      return p - g
    end }
    local a, b = param({ 1, 2 }, { 1, 1 }), param({ 3 }, { 1 })
    local list = named { a, b }
    local function make(options)
      return optim.container(function() return table.unpack(table.remove(list, 1) or {}) end,
        { { name = "own", match = "p1", class = Declared }, { name = "rule", match = "*", class = Rule } }, options)
    end
    local optimizer = make { nonfinite = "skip" }
    local before = bits(optimizer)
    fails("broken rule", optimizer.step, optimizer)
    assert.equal(before, bits(optimizer))
    broken = false
    b.grad = optlua.tensor({ 0 / 0 }, { dtype = "float64" })
    optimizer:step()
    assert.equal(before, bits(optimizer))
    assert.same({ 1, 0 }, { optimizer:stats().skipped, optimizer:stats().updates })
    assert.is_nil(a.grad)
    a.grad, b.grad = optlua.tensor({ math.huge, 1 }, { dtype = "float64" }), optlua.ones(1, { dtype = "float64" })
    optimizer:step()
    assert.equal(before, bits(optimizer))
    a.grad, b.grad = optlua.ones(2, { dtype = "float64" }), optlua.ones(1, { dtype = "float64" })
    optimizer:step()
    assert.same({ { 0.9, 1.9 }, { 2 }, 1 }, { values(a), values(b), optimizer:stats().updates })
  end)

  it("raises for what is not finite where it is asked to, also in what it made", function()
    local factor = 0 / 0
    local class = optim.define { name = "Scale", step = function(_, group) group.params[1]:mul_(factor) end }
    local p = param({ 1 }, { 1 })
    local optimizer = optim.container(named { p } and function() end, {}, {}) -- an empty one is fine
    assert.equal(0, #optimizer.groups)
    local list = named { p }
    optimizer = optim.container(function() return table.unpack(table.remove(list, 1) or {}) end, class, { nonfinite = "error" })
    fails("Scale, group 'default' made parameter 'p1' not finite", optimizer.step, optimizer)
    assert.same({ 1 }, values(p))
    p.grad = optlua.tensor({ math.huge }, { dtype = "float64" })
    fails("the gradient of parameter 'p1' is not finite", optimizer.step, optimizer)
    factor, p.grad = 2, optlua.ones(1, { dtype = "float64" })
    optimizer:step()
    assert.same({ 2 }, values(p))
  end)

  it("changes nothing when memory is short, at any allocation", function()
    local function make()
      local params = { param({ 1, 2 }, { 1, 1 }), param({ 3 }, { 1 }) }
      return optim.container(params and (function()
        local list = named(params)
        return function() return table.unpack(table.remove(list, 1) or {}) end
      end)(), { { name = "own", match = "p1", class = Free }, { name = "rule", match = "*", class = "AdamW" } }, { ema = 0.5 })
    end
    local reached = 0
    for steps = 0, 1 do
      local want = make()
      for _ = 0, steps do want:step() end
      local after = bits(want)
      for k = 0, 300 do
        local optimizer = make()
        if steps == 1 then optimizer:step() end
        local before = bits(optimizer)
        core.hidden.fail_allocations(k)
        local ok = pcall(optimizer.step, optimizer)
        local left = core.hidden.fail_allocations(-1)
        if left > 0 then break end
        reached = reached + 1
        assert.equal(ok and after or before, bits(optimizer), "allocation " .. k)
        if not ok then optimizer:step() end
        assert.equal(after, bits(optimizer), "after allocation " .. k)
      end
    end
    assert.is_true(reached > 20)
  end)

  it("cannot step, grow or load the optimizer whose step it is", function()
    local action
    local class = optim.define { name = "Busy", needs_closure = true, step = function(self, _, closure)
      action(self)
      closure()
    end }
    local p = param({ 1 }, { 1 })
    local optimizer = class { p }
    local function closure() return 0 end
    local state = optimizer:state_dict()
    for pattern, fn in pairs {
      ["step: not from its own step"] = function(self) self:step(closure) end,
      ["add_group: not from its own step"] = function(self) self:add_group { params = { param { 1 } } } end,
      ["load_state_dict: not from its own step"] = function(self) self:load_state_dict(state) end,
    } do
      action = fn
      fails(pattern, optimizer.step, optimizer, closure)
    end
    action = function() end
    optimizer:step(closure)
    action = function(self) self:step(closure) end
    fails("not from its own step", optimizer.step, optimizer, closure)
    assert.equal(1, optimizer:stats().updates)
  end)

  it("cannot stand with options that change gradients on the way, and says why", function()
    for key, value in pairs { max_norm = 1, grad_scale = 2, clip_value = 1, agc = 0.1, max_group_norm = 1, in_backward = true,
      state_dtype = "bfloat16", state_rounding = "nearest" } do
      fails(key .. ".*Momentum.* step", optim.container, nn.Linear(2, 2), Declared, { [key] = value })
      fails(key .. ".*Momentum.* step", optim.container, nn.Linear(2, 2), { { match = "*", class = Declared } }, { [key] = value })
    end
    for key, value in pairs { state_dtype = "bfloat16", clip_value = 1 } do
      fails(key .. ".*Momentum has a step of its own", optim.container, nn.Linear(2, 2), { { match = "*", class = Declared, [key] = value } })
    end
    fails("in_backward: .*SAM%(SGD%) cannot be updated in backward", optim.container, nn.Linear(2, 2), "SAM(SGD)", { in_backward = true })
    local optimizer = optim.container(nn.Linear(2, 2), Declared, {})
    fails("max_norm: Momentum has a step of its own", function() optimizer.max_norm = 1 end)
  end)

  it("leaves gradients absent with zero, and runs named rules, averages and measures", function()
    local model = nn.Linear(2, 1, { bias = false })
    local class = momentum(true, { flip = function(p) return -p end })
    local optimizer = optim.container(model, class, { zero = true, ema = 0.5, track_updates = true })
    local old = values(model.weight)
    model(optlua.ones { 1, 2 }):sum():backward()
    optimizer:step()
    assert.is_nil(model.weight.grad)
    local new = values(model.weight)
    assert.is_near(old[1] - 0.1, new[1], 1e-6)
    local ratio = math.sqrt(0.02 / (old[1] ^ 2 + old[2] ^ 2))
    assert.is_near(ratio, optimizer:stats().groups.default.update_ratio, 1e-5)
    optimizer:with_ema(function() assert.is_near((old[1] + new[1]) / 2, values(model.weight)[1], 1e-6) end)
    assert.same(new, values(model.weight))
    optimizer:run "flip"
    assert.same({ -new[1], -new[2] }, values(model.weight))
    assert.equal(16, optimizer:stats().state_bytes)
    assert.matches("16 bytes of state, and what its step will keep", optimizer:plan())
  end)

  it("is around the step of another class in a transform, but not around a rule", function()
    local Double = optim.transform(Declared, { name = "Double", hyper = { factor = 2 }, step = function(_, group, _, inner_step)
      for _, p in ipairs(group.params) do p.grad:mul_(group.factor) end
      inner_step()
    end })
    local p = param({ 1 }, { 1 })
    local optimizer = Double({ p }, { lr = 0.5, factor = 3 })
    optimizer:step()
    assert.same({ -0.5 }, values(p))
    fails("T: step: SGD has an update; what is around it", optim.transform, optim.SGD, { name = "T", step = print })
    fails("T: Momentum has a step of its own", optim.transform, Declared, { name = "T", update = print })
    fails("Lookahead cannot stand around LBFGS, which has a step of its own", optim.lookahead, "LBFGS")
  end)

  it("is defined without what belongs to rules", function()
    local function wrong(pattern, definition)
      definition.name = "X"
      fails(pattern, optim.define, definition)
    end
    local function fn() end
    wrong("X: update: a class with a step of its own has none", { step = fn, update = fn })
    wrong("X: before: a class with a step", { step = fn, before = fn })
    wrong("X: gradients: a class with a step", { step = fn, gradients = fn })
    wrong("X: step: a function expected, got number", { step = 1 })
    wrong("X: needs_closure: a boolean expected, got string", { step = fn, needs_closure = "yes" })
    wrong("X: needs_closure: of a class with step or gradients", { update = fn, needs_closure = true })
    wrong("X: update: a function .* is required, or a step", {})
  end)
end)
