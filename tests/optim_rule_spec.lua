-- The language of update rules: what a rule may do, and what it is told when it does something else.
local optlua = require "optlua"
local optim = optlua.optim

local fails = require("fails").matching

local function values(tensor) return tensor:detach():flatten():totable() end

-- A parameter with a gradient.
local function param(value, gradient, options)
  local p = optlua.tensor(value, options or { dtype = "float64" })
  p.requires_grad = true
  if gradient then p.grad = optlua.tensor(gradient, { dtype = p.dtype }) end
  return p
end

local function rule(update, extra)
  local definition = { name = "Test", hyper = { lr = 0.5, betas = { 0.9, 0.99 }, fancy = false }, update = update }
  for key, value in pairs(extra or {}) do definition[key] = value end
  return optim.define(definition)
end

-- One step of a rule on p = {1, 2}, g = {3, 4}.
local function one_step(update, extra, opts)
  local p = param({ 1, 2 }, { 3, 4 })
  local optimizer = rule(update, extra)({ p }, opts)
  optimizer:step()
  return values(p), optimizer, p
end

describe("a rule", function()
  it("computes with every operation as on numbers", function()
    local x, y, z = 0.75, -1.25, 0.5
    local two = { add = x + y, sub = x - y, mul = x * y, div = x / y, min = y, max = x,
      lt = 0, le = 0, gt = 1, ge = 1, eq = 0, ne = 1 }
    local one = { neg = -x, sqrt = math.sqrt(x), rsqrt = 1 / math.sqrt(x), abs = x, sign = 1, exp = math.exp(x), log = math.log(x) }
    for name, want in pairs(two) do
      local got = one_step(function(p) return optim[name](p * 0 + x, p * 0 + y) end)
      assert.near(want, got[1], 1e-14, name)
      assert.near(want, optim[name](x, y), 1e-14, name)
    end
    for name, want in pairs(one) do
      local got = one_step(function(p) return optim[name](p * 0 + x) end)
      assert.near(want, got[1], 1e-14, name)
      assert.near(want, optim[name](x), 1e-14, name)
    end
    local three = { clamp = { x, y, z, z }, lerp = { x, y, z, x + z * (y - x) }, where = { x, y, z, y } }
    for name, t in pairs(three) do
      local got = one_step(function(p) return optim[name](p * 0 + t[1], t[2], p * 0 + t[3]) end)
      assert.near(t[4], got[2], 1e-14, name)
      assert.near(t[4], optim[name](t[1], t[2], t[3]), 1e-14, name)
    end
  end)

  it("takes numbers on either side of an operator", function()
    local got = one_step(function(p, g) return 2 - p + 3 * g - g / 2 + 8 / p ^ 2 - (-p) end)
    assert.same({ 2 - 1 + 9 - 1.5 + 8 + 1, 2 - 2 + 12 - 2 + 2 + 2 }, got)
  end)

  it("may use no number at all", function()
    assert.same({ -2, -2 }, (one_step(function(p, g) return p - g end)))
    assert.same({ 1, 2 }, (one_step(function(p) return p end)))
    assert.same({ 3, 4 }, (one_step(function(_, g) return g end)))
  end)

  it("reduces over the tensor and over a dimension typed from 1", function()
    local function run(update)
      local p = param({ { 1, 2 }, { 3, 4 } }, { { 1, 1 }, { 1, 1 } })
      rule(update)({ p }):step()
      return values(p)
    end
    assert.same({ 10, 10, 10, 10 }, run(function(p) return p * 0 + optim.sum(p) end))
    assert.same({ 2.5, 2.5, 2.5, 2.5 }, run(function(p) return p * 0 + optim.mean(p) end))
    assert.same({ 4, 6, 4, 6 }, run(function(p) return p * 0 + optim.sum(p, 1) end))
    assert.same({ 3, 3, 7, 7 }, run(function(p) return p * 0 + optim.sum(p, -1) end))
    assert.same({ 4, 4, 4, 4 }, run(function(p) return p * 0 + optim.amax(p) end))
    assert.same({ 1, 2, 1, 2 }, run(function(p) return p * 0 + optim.amin(p, 1) end))
    assert.same({ 5, 5, 5, 5 }, run(function(p) return p * 0 + optim.norm(p * 0 + 2.5) end))
    assert.same({ 7, 10, 15, 22 }, run(function(p) return optim.matmul(p, p) end))
    assert.same({ 1, 3, 2, 4 }, run(function(p) return optim.t(p) end))
    fails("dimension is an integer from 1", run, function(p) return optim.sum(p, 0) end)
    fails("sum: dimension", run, function(p) return optim.sum(p, 3) end)
  end)

  it("reads old values and stores all at once", function()
    local _, optimizer = one_step(function(p, g, s)
      s.a = s.b + g
      s.b = s.a + 1 -- what was last assigned
      return p
    end, { state = { a = 10, b = 20 } })
    local state = optimizer:state_dict()
    assert.same({ 23, 24 }, values(state["state.param1.a"]))
    assert.same({ 24, 25 }, values(state["state.param1.b"]))
  end)

  it("swaps a state and the parameter", function()
    local got, optimizer = one_step(function(p, _, s)
      local old = s.a
      s.a = p
      return old
    end, { state = { a = 7 } })
    assert.same({ 7, 7 }, got)
    assert.same({ 1, 2 }, values(optimizer:state_dict()["state.param1.a"]))
  end)

  it("writes nothing where nothing is assigned, and fills with a number", function()
    local got, optimizer = one_step(function(p, _, s)
      s.b = 5
      return p
    end, { state = { a = 3, b = 0 } })
    local state = optimizer:state_dict()
    assert.same({ 1, 2 }, got)
    assert.same({ 3, 3 }, values(state["state.param1.a"]))
    assert.same({ 5, 5 }, values(state["state.param1.b"]))
  end)

  it("has states of every form", function()
    local _, optimizer = one_step(function(p, _, s)
      s.zero = s.zero + 1
      s.shaped = s.shaped + optim.mean(p)
      return p
    end, { state = { zero = 0, filled = 2.5, copy = "param", shaped = { shape = { 1 }, init = 4, positive = true },
      narrow = { dtype = "bfloat16", init = 1.5 } } })
    local state = optimizer:state_dict()
    assert.same({ 1, 1 }, values(state["state.param1.zero"]))
    assert.same({ 2.5, 2.5 }, values(state["state.param1.filled"]))
    assert.same({ 1, 2 }, values(state["state.param1.copy"]))
    assert.same({ 5.5 }, values(state["state.param1.shaped"]))
    assert.equal("bfloat16", state["state.param1.narrow"].dtype)
  end)

  it("has states that depend on shape and hyperparameters", function()
    local class = rule(function(p, g, s, h)
      if not h.fancy then return p - g end
      s.row = s.row + optim.mean(g, -1)
      return p - s.row
    end, { state = function(shape, h) return h.fancy and { row = { shape = { shape[1], 1 } } } or {} end })
    local p = param({ { 1, 2 } }, { { 2, 4 } })
    local optimizer = class({ p })
    optimizer:step()
    assert.is_nil(optimizer:state_dict()["state.param1.row"])
    optimizer.groups.default.fancy = true
    optimizer:step()
    assert.same({ 3 }, values(optimizer:state_dict()["state.param1.row"]))
    assert.same({ -4, -5 }, values(p))
    optimizer.groups.default.fancy = false -- the state stays, and nobody reads it
    optimizer:step()
    assert.same({ 3 }, values(optimizer:state_dict()["state.param1.row"]))
  end)

  it("counts the updates of each parameter from 1", function()
    local steps = {}
    local p, q = param({ 1 }, { 1 }), param({ 1 })
    local optimizer = rule(function(x, _, _, h)
      steps[#steps + 1] = h.step
      return x
    end)({ p, q })
    optimizer:step()
    q.grad = optlua.tensor({ 1 }, { dtype = "float64" })
    optimizer:step()
    assert.same({ 1, 1, 2 }, { steps[1], steps[2] < steps[3] and steps[2] or steps[3], math.max(steps[2], steps[3]) })
    assert.equal("integer", math.type(steps[1]))
  end)

  it("runs once for all parameters of the same count", function()
    local runs, list = {}, {}
    for i = 1, 6 do list[i] = param({ 1 }, { 1 }) end
    local optimizer = rule(function(p, _, _, h)
      runs[#runs + 1] = h.step
      return p * h.step
    end)(list)
    for _, i in ipairs { 1, 3, 5 } do list[i].grad = nil end
    optimizer:step()
    for _, i in ipairs { 1, 3, 5 } do list[i].grad = optlua.ones(1, { dtype = "float64" }) end
    runs = {}
    optimizer:step()
    assert.same({ 1, 2 }, runs)
    for i = 1, 6 do assert.equal(i % 2 == 0 and 2 or 1, list[i]:item()) end
  end)

  it("runs once for all parameters, or once for each shape if it looks at the shape", function()
    local runs = 0
    local function count(update)
      runs = 0
      local list = {}
      for i = 1, 6 do
        list[i] = param(i % 2 == 0 and { 1, 2 } or { { 1 }, { 2 }, { 3 } })
        list[i].grad = list[i]:detach()
      end
      rule(update)(list):step()
      return runs, list
    end
    assert.equal(1, (count(function(p) runs = runs + 1 return p end)))
    assert.equal(2, (count(function(p) runs = runs + 1 return p * p.ndim end)))
    assert.equal(2, (count(function(p) runs = runs + 1 return p * p.shape[1] end)))
    assert.equal(2, (count(function(p) runs = runs + 1 return p - optim.mean(p, 1) end)))
    local _, list = count(function(p) return p * p.numel end)
    assert.same({ 3, 6, 9 }, values(list[1]))
    assert.same({ 2, 4 }, values(list[2]))
    assert.same({ 3, 6, 9 }, values(list[5]))
  end)

  it("sees plain numbers, booleans and lists in h", function()
    local got = one_step(function(p, _, _, h)
      assert(h.betas[1] == 0.9 and #h.betas == 2 and select("#", table.unpack(h.betas)) == 2)
      local sum = 0
      for _, b in ipairs(h.betas) do sum = sum + b end
      if h.fancy then return p * h.lr + math.floor(sum) end
      return p
    end, nil, { fancy = true, lr = 2 })
    assert.same({ 3, 5 }, got)
  end)
end)

describe("a rule is told at its line", function()
  -- The line of the error must be the one after `here`.
  local function at_line(pattern, update, extra)
    local message = fails(pattern, one_step, update, extra)
    local info = debug.getinfo(update, "S")
    local line = tonumber(message:match "optim_rule_spec.lua:(%d+):")
    assert.is_truthy(line and line >= info.linedefined and line <= info.lastlinedefined, message)
    assert.is_truthy(message:find "Test, group 'default', parameter 'param1', update 1", message)
  end

  it("about names that are misspelt", function()
    at_line('unknown hyperparameter "lrr" %(did you mean "lr"%?%)', function(p, _, _, h) return p * h.lrr end)
    at_line('unknown state "mm" %(did you mean "m"%?%)', function(p, _, s) return p * s.mm end, { state = { m = 0 } })
    at_line('unknown state "mom"', function(p, _, s)
      s.mom = p
      return p
    end, { state = { momentum = 0 } })
    at_line('unknown number of the group "sun" %(did you mean "sum"%?%)', function(p, _, _, _, group)
      return p * group.sun
    end, { group = { sum = 0 } })
    at_line("a symbol has no field 'size'", function(p) return p * p.size end)
    at_line("a symbol has no field 'sqrt'; .*; operations are functions, optim.sqrt%(x%)", function(p) return p:sqrt() end)
  end)

  it("about symbols of an earlier call", function()
    local kept
    local function keep(p, _, s)
      s.m = kept or p
      kept = p
      return p
    end
    one_step(keep, { state = { m = 0 } })
    at_line("s.m: a symbol of an earlier call of a rule is assigned", keep, { state = { m = 0 } })
  end)

  it("about states that are too much", function()
    fails("optim_rule_spec.lua:%d+: a state of 9 dimensions; there are at most 8", one_step,
      function(p) return p end, { state = { m = { shape = { 1, 1, 1, 1, 1, 1, 1, 1, 1 } } } })
  end)

  it("about comparisons", function()
    at_line("optim.where", function(p, g) return p < g and p or g end)
    at_line("optim.lt", function(p) return p <= 0 and p or -p end)
    at_line("optim.where", function(p) return 1 > p and p or -p end)
    at_line("optim.eq", function(p, g) return p == g and p or g end)
    at_line("optim.eq", function(p, g) return p ~= g and p or g end)
  end)

  it("about what is no operand", function()
    at_line("NaN", function(p) return p * (0 / 0) end)
    at_line("a symbol or a number was expected, got string", function(p) return p + "1" end)
    at_line("a symbol or a number was expected, got nil", function(p) return optim.max(p, nil) end)
    at_line("tensor expected, got symbol; a rule has functions of its own: optim.sqrt%(x%)", function(p) return optlua.sqrt(p) end)
    at_line("the dimension is an integer from 1, or from the end %(%-1%), not 0", function(p) return optim.mean(p, 0) end)
    at_line("got tensor", function(p) return optim.max(p, optlua.ones(2)) end)
    at_line("2 operands expected, got 3", function(p) return optim.max(p, 1, 2) end)
    at_line("attempt to perform arithmetic on a symbol", function(p) return p % 2 end)
    at_line("does not broadcast", function(p, _, s) return p + s.wide end, { state = { wide = { shape = { 3 } } } })
    at_line("takes a matrix", function(p) return optim.matmul(p, p) end)
  end)

  it("about what has another shape", function()
    local matrix = { { 1, 2 }, { 3, 4 } }
    local function at(pattern, update)
      local w = optlua.tensor(matrix, { requires_grad = true })
      w.grad = optlua.ones(2, 2)
      fails("optim_rule_spec.lua:%d+: " .. pattern, function()
        rule(update, { state = { m = 0, row = { shape = { 1, 2 } } } })({ w }):step()
      end)
      assert.same(matrix, w:detach():totable())
    end
    at("the new p has the shape %(1, 2%); %(2, 2%) is expected", function(p) return optim.mean(p, 1) end)
    at("the new p is one number; the shape %(2, 2%) is expected", function(p) return optim.mean(p) end)
    at("s%.m: a value has the shape %(2, 1%); %(2, 2%) is expected", function(p, g, s)
      s.m = optim.mean(g, 2)
      return p
    end)
    at("s%.row: a value has the shape %(2, 2%); %(1, 2%) is expected", function(p, g, s)
      s.row = g
      return p
    end)
  end)

  it("about assignments", function()
    at_line("no fields to assign to", function(p, g)
      g.x = p
      return p
    end)
    at_line("a rule cannot assign to hyperparameters", function(p, _, _, h)
      h.lr = 1
      return p
    end)
    at_line("got nil", function(p, _, s)
      s.m = nil
      return p
    end, { state = { m = 0 } })
    at_line("NaN is assigned", function(p, _, s)
      s.m = 0 / 0
      return p
    end, { state = { m = 0 } })
    at_line("numbers of the group are set in before or after", function(p, _, _, _, group)
      group.sum = 1
      return p
    end, { group = { sum = 0 } })
    at_line("element of a list", function(p, _, _, h)
      h.betas[1] = 0
      return p
    end)
  end)

  it("about wrong results", function()
    at_line("returns the new p, a symbol; got nil", function() end)
    at_line("returns the new p, a symbol; got number", function() return 1 end)
    at_line("returns the new p, a symbol; got boolean", function() return true end)
    at_line("and nothing else", function(p, g) return p, g end)
    at_line("shape", function(p, g)
      return optim.matmul(optim.t(p), g)
    end)
  end)

  it("about symbols of another call", function()
    local kept, states
    local p = param({ 1, 2 }, { 3, 4 })
    local optimizer = rule(function(x, g, s)
      if kept then return x + kept end
      kept, states = g, s
      return x
    end, { state = { m = 0 } })({ p })
    optimizer:step()
    fails("outside of the rule", function() return kept + 1 end)
    fails("outside of the rule", function() return states.m end)
    fails("outside of the rule", function() return kept.shape end)
    fails("of an earlier call", optimizer.step, optimizer)
    local other = rule(function(x) return x + states.m end, { state = { n = 0 } })({ param({ 1 }, { 1 }) })
    fails("states of a rule are used outside of the call", other.step, other)
    assert.same({ 1, 2 }, values(p))
  end)

  it("about coroutines and steps inside a step", function()
    local p = param({ 1 }, { 1 })
    local inner = optim.SGD({ param({ 1 }, { 1 }) })
    local outer = rule(function(x)
      inner:step()
      return x
    end)({ p })
    fails("while an optimizer takes a step", outer.step, outer)
    assert.matches("optim_rule_spec.lua:%d+: a step is not", select(2, pcall(outer.step, outer)))
    local pair = { param({ 1 }, { 1 }), param({ 1 }, { 1 }) } -- two: they move into slabs
    local moving = false
    local maker = rule(function(x, g)
      if moving then optim.SGD(pair) end
      return x - g
    end)(pair)
    maker:step()
    moving = true
    fails("making an optimizer is not possible while an optimizer takes a step", maker.step, maker)
    assert.same({ 0 }, values(pair[1]))
    local yielding = rule(function(x)
      coroutine.yield()
      return x
    end)({ p })
    local thread = coroutine.create(function() yielding:step() end)
    local ok, message = coroutine.resume(thread)
    assert.is_false(ok)
    assert.is_truthy(tostring(message):find "yield")
    inner:step() -- nothing is left behind
  end)

  it("and values that are no strings are raised as they are", function()
    local thing = {}
    local optimizer = rule(function() error(thing) end)({ param({ 1 }, { 1 }) })
    local ok, message = pcall(optimizer.step, optimizer)
    assert.is_false(ok)
    assert.equal(thing, message)
  end)
end)

describe("numbers of the group", function()
  local function make(extra)
    local log = {}
    local definition = {
      name = "Numbers",
      hyper = { lr = 1 },
      group = { total = 0, calls = 100 },
      before = function(group, h)
        group.calls = group.calls + 1
        log[#log + 1] = ("before %d %g"):format(h.step, group.total)
      end,
      update = function(p, g, _, _, group)
        optim.group_add("total", g * g)
        return p - group.calls
      end,
      after = function(group, h) log[#log + 1] = ("after %d %g"):format(h.step, group.total) end,
    }
    for key, value in pairs(extra or {}) do definition[key] = value end
    return optim.define(definition), log
  end

  it("are set before, added to by the rule, seen after, and saved", function()
    local class, log = make()
    local p, q = param({ 1, 2 }, { 1, 2 }), param({ 5 }, { 3 })
    local optimizer = class({ p, q })
    optimizer:step()
    optimizer:step()
    assert.same({ "before 1 0", "after 1 14", "before 2 14", "after 2 28" }, log)
    assert.same({ 1 - 101 - 102, 2 - 101 - 102 }, values(p))
    local state = optimizer:state_dict()
    assert.equal(28, state["group.default.total"])
    assert.equal(102, state["group.default.calls"])
    assert.equal(2, state["group.default.step"])
  end)

  it("add a plain number once for each parameter", function()
    local class = make { update = function(p)
      optim.group_add("total", 2)
      return p
    end }
    local optimizer = class({ param({ 1, 2 }, { 1, 2 }), param({ 5 }, { 3 }), param({ 5 }, { 3 }) })
    optimizer:step()
    assert.equal(6, optimizer:state_dict()["group.default.total"])
  end)

  it("may replace a gradient, which the step then takes", function()
    local p, held = param({ 1 }, { 1 })
    local class = make { before = function() if held then p.grad = optlua.tensor({ 100 }, { dtype = p.dtype }) end end,
      update = function(q, g) return q - g end, after = function() end }
    local optimizer = class({ p })
    optimizer:step()
    held = p.grad -- somebody else has it, so that another one takes its place
    optimizer:step()
    assert.same({ 1 - 1 - 100 }, values(p))
  end)

  it("do not run or count where no gradient is present", function()
    local class, log = make()
    local p = param({ 1 }, { 1 })
    local optimizer = class({ { params = { p } }, { params = { param({ 1 }) } } })
    optimizer:step()
    assert.same({ "before 1 0", "after 1 1" }, log)
    assert.equal(1, optimizer:state_dict()["group.group1.step"])
    assert.equal(0, optimizer:state_dict()["group.group2.step"])
  end)

  it("of every group are taken over when `after` of one fails", function()
    local class = make { after = function() error "no" end }
    local optimizer = class({ { params = { param({ 1 }, { 3 }) } }, { params = { param({ 1 }, { 4 }) } } })
    fails("no", optimizer.step, optimizer)
    local state = optimizer:state_dict()
    assert.same({ 1, 9, 16 }, { state.updates, state["group.group1.total"], state["group.group2.total"] })
  end)

  it("are as they were when the step fails", function()
    local bad = false
    local class = make { update = function(p)
      if bad then error "no" end
      return p
    end }
    local optimizer = class({ param({ 1 }, { 1 }) })
    optimizer:step()
    bad = true
    fails("no", optimizer.step, optimizer)
    assert.equal(101, optimizer:state_dict()["group.default.calls"])
    assert.equal(1, optimizer:state_dict()["group.default.step"])
  end)

  it("refuse other names and values", function()
    local function run(extra)
      local class = make(extra)
      class({ param({ 1 }, { 1 }) }):step()
    end
    fails('unknown number of the group "totl"', run, { before = function(group) group.totl = 1 end })
    fails("group.total: a number expected, got NaN", run, { before = function(group) group.total = 0 / 0 end })
    fails('unknown number of the group "sum"; legal: calls, total', run, { update = function(p)
      optim.group_add("sum", p)
      return p
    end })
  end)
end)
