-- Optimizers as objects: what they are made of, groups, steps, states by name.
local optlua = require "optlua"
local optim, nn = optlua.optim, optlua.nn

local fails = require("fails").matching
local process = require "process"

local function values(tensor) return tensor:detach():flatten():totable() end

local function param(value, gradient, dtype)
  local p = optlua.tensor(value, { dtype = dtype or "float64" })
  p.requires_grad = true
  if gradient then p.grad = optlua.tensor(gradient, { dtype = p.dtype }) end
  return p
end

local function same_bits(a, b)
  assert.same(a.dtype, b.dtype)
  assert.is_true(a:detach():equal(b:detach()), tostring(a) .. " is not " .. tostring(b))
end

local function model() return nn.Sequential { nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2) } end

describe("an optimizer takes", function()
  it("a list of tensors, named by number", function()
    local optimizer = optim.SGD({ param { 1 }, param { 2 } }, { lr = 0.1 })
    assert.same({ "param1", "param2" }, optimizer.groups.default.names)
  end)

  it("a list of names and tensors, a module, an iterator", function()
    assert.same({ "a", "b" }, optim.SGD({ { "a", param { 1 } }, { "b", param { 2 } } }).groups.default.names)
    local net = model()
    local names = { "0.weight", "0.bias", "2.weight", "2.bias" }
    assert.same(names, optim.SGD(net).groups.default.names)
    assert.same(names, optim.SGD(net:named_parameters(), { lr = 0.1 }).groups.default.names)
    assert.same({ "param1", "param2", "param3", "param4" }, optim.SGD(net:parameters()).groups.default.names)
  end)

  it("groups with hyperparameters of their own", function()
    local optimizer = optim.SGD({
      { name = "fast", params = { param { 1 } }, lr = 0.5 },
      { params = { param { 1 }, { "x", param { 1 } } } },
      { params = {} },
    }, { lr = 0.1, momentum = 0.9 })
    assert.equal(3, #optimizer.groups)
    assert.equal(0.5, optimizer.groups.fast.lr)
    assert.equal(0.9, optimizer.groups.fast.momentum)
    assert.equal(0.1, optimizer.groups[2].lr)
    assert.equal("group2", optimizer.groups[2].name)
    assert.same({ "param2", "x" }, optimizer.groups.group2.names)
    assert.same({}, optimizer.groups[3].params)
    local seen = {}
    for i, group in pairs(optimizer.groups) do seen[i] = group.name end
    assert.same({ "fast", "group2", "group3" }, seen)
  end)

  it("groups of modules, whose parameters may bear the same names", function()
    local a, b, c = nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1)
    local optimizer = optim.SGD({ { params = a }, { name = "head", params = b } }, { momentum = 0.9 })
    assert.same({ "weight", "bias" }, optimizer.groups[1].names)
    assert.same({ "head.weight", "head.bias" }, optimizer.groups.head.names)
    optimizer:add_group { params = c }
    assert.same({ "group3.weight", "group3.bias" }, optimizer.groups.group3.names)
    c.bias.grad = optlua.ones(1)
    optimizer:step()
    assert.equal(1, optimizer:state_dict()["state.group3.bias.momentum_buffer"]:item())
    fails("parameters 'weight' and 'weight' are the same tensor", optim.SGD, { { params = a }, { params = a } })
    fails('give them names of their own', optim.SGD, { { "a", param { 1 } }, { "a", param { 1 } } })
  end)

  it("nothing without an order", function()
    fails("no order", optim.SGD, { w = param { 1 }, b = param { 2 } })
    fails("no order", optim.SGD, { param { 1 }, b = param { 2 } })
    fails("pairs gives parameters in no order", optim.SGD, (pairs { a = param { 1 } }))
    fails("no order", optim.SGD, { { name = "g", params = { w = param { 1 } } } })
  end)

  it("nothing twice", function()
    local x, net = param({ 0 }, { 1 }), model()
    fails("'param1' and 'param2' are the same tensor", optim.SGD, { x, x }, { lr = 0.1 })
    fails("'a' and 'b' are the same tensor", optim.SGD, { { "a", x }, { "b", x } })
    fails("'param1' and 'param2' are the same tensor", optim.SGD, { { params = { x } }, { params = { x } } })
    fails("two parameters are named 'a'", optim.SGD, { { "a", x }, { "a", param { 1 } } })
    fails("two groups are named 'g'", optim.SGD, { { name = "g", params = {} }, { name = "g", params = {} } })
    local base = param { 1, 2, 3, 4 }
    local part = base:detach():narrow(1, 2, 2)
    part.requires_grad = true
    fails("'param1' and 'param2' share memory", optim.SGD, { base, part })
    local optimizer = optim.SGD(net)
    fails("are the same tensor", optimizer.add_group, optimizer, { params = { net:parameters()[1] } })
    assert.equal(1, #optimizer.groups)
    optim.SGD({ base:detach():narrow(1, 1, 2), base:detach():narrow(1, 3, 2) }) -- side by side
  end)

  it("nothing else", function()
    fails("one tensor is no list", optim.SGD, param { 1 })
    fails("parameters expected", optim.SGD)
    fails("not a number", optim.SGD, 1)
    fails("item 2 of the parameters", optim.SGD, { param { 1 }, 2 })
    fails("'param1' is int64", optim.SGD, { optlua.tensor({ 1 }, { dtype = "int64" }) })
    fails("'param1' is bfloat16", optim.SGD, { optlua.tensor({ 1 }):to "bfloat16" })
    fails("'param1' is the result of an operation", optim.SGD, { param { 1 } * 2 })
    fails("'param1' is expanded", optim.SGD, { param({ 1 }):detach():expand(3) })
    fails("item 2 is no group", optim.SGD, { { params = {} }, param { 1 } })
    fails("hyperparameters are a table", optim.SGD, { param { 1 } }, 0.1)
    fails("an iterator gives a name", optim.SGD, coroutine.wrap(function() coroutine.yield(1, 2) end))
  end)

  it("no parameters at all: it does nothing, and counts nothing", function()
    local optimizer = optim.AdamW({}, { lr = 0.1 })
    optimizer:zero_grad()
    optimizer:step()
    assert.equal(0, optimizer:stats().updates)
    assert.equal(0, optimizer:stats().grad_norm)
    local state = optimizer:state_dict()
    local other = optim.AdamW({}, { lr = 1 })
    other:load_state_dict(state)
    assert.equal(0.1, other.groups.default.lr)
    other:step()
    assert.is_truthy(tostring(other):find "0 parameters")
  end)
end)

describe("hyperparameters", function()
  it("are checked at construction, in groups and when assigned, alike", function()
    local bad = {
      { { wieght_decay = 1 }, 'unknown hyperparameter "wieght_decay" %(did you mean "weight_decay"%?%)' },
      { { lr = -1 }, "lr: expected a number at least 0, got %-1" },
      { { lr = 0 / 0 }, "lr: expected a number" },
      { { lr = "fast" }, "lr: expected a number" },
      { { weight_decay = -1 }, "weight_decay: expected" },
      { { betas = { 1.0, 0 } }, "betas%[1%]: expected a number at least 0 and below 1, got 1.0" },
      { { betas = { 0.9 } }, "betas: expected 2 values, got 1" },
      { { betas = 0.9 }, "betas: expected a list" },
      { { amsgrad = 1 }, "amsgrad: expected a boolean" },
      { { lr = function() end }, "optim.scheduler.*schedule.value" },
    }
    local optimizer = optim.AdamW({ param { 1 } })
    for _, case in ipairs(bad) do
      fails(case[2], optim.AdamW, { param { 1 } }, case[1])
      local group = { name = "g", params = { param { 1 } } }
      local name, value = next(case[1])
      group[name] = value
      local message = fails(case[2], function() local _ = optim.AdamW { group } end)
      assert.is_truthy(message:find "^tests[^:]*:%d+: AdamW: group 'g': ", message)
      message = fails(case[2], function() optimizer.groups.default[name] = value end)
      assert.is_truthy(message:find "^tests[^:]*:%d+: AdamW: group 'default': ", message)
    end
    assert.equal(0.001, optimizer.groups.default.lr)
  end)

  it("are all complained about at once, at the script's line", function()
    local message = fails("lr: expected", function()
      local _ = optim.AdamW({ param { 1 } }, { lr = -1, eps = -1, foo = 1 })
    end)
    assert.is_truthy(message:find "^tests/optim_optimizer_spec.lua:")
    assert.is_truthy(message:find "eps: expected")
    assert.is_truthy(message:find 'unknown hyperparameter "foo"')
  end)

  it("can be read and set while running", function()
    local p = param({ 1 }, { 1 })
    local optimizer = optim.SGD({ p }, { lr = 0.5 })
    local group = optimizer.groups.default
    optimizer:step()
    group.lr = 0.25
    assert.equal(0.25, group.lr)
    optimizer:step()
    assert.same({ 0.25 }, values(p))
    local copy = {}
    for name, value in pairs(group) do copy[name] = value end
    assert.equal(0.25, copy.lr)
    assert.equal(0, copy.momentum)
  end)

  it("come in lists that are set as a whole", function()
    local optimizer = optim.AdamW({ param { 1 } })
    local group = optimizer.groups.default
    fails("assign the whole list", function() group.betas[1] = 0.5 end)
    group.betas = { 0.5, 0.6 }
    assert.equal(0.5, group.betas[1])
    assert.equal(2, #group.betas)
    local other = optim.AdamW({ param { 1 } }, { betas = group.betas })
    assert.equal(0.6, other.groups.default.betas[2])
    fails('unknown field "beta" %(did you mean "betas"%?%)', function() return group.beta end)
    fails('unknown group "defualt" %(did you mean "default"%?%)', function() return optimizer.groups.defualt end)
    fails("add_group", function() optimizer.groups.more = {} end)
    assert.is_nil(optimizer.groups[2])
  end)

  it("do not change with the script's tables", function()
    local betas = { 0.9, 0.99 }
    local optimizer = optim.AdamW({ param { 1 } }, { betas = betas })
    betas[1] = 5
    assert.equal(0.9, optimizer.groups.default.betas[1])
  end)
end)

describe("a step", function()
  it("decays where the gradient is 0 and leaves alone where it is absent", function()
    local p, q = param({ 1 }, { 0 }), param { 1 }
    optim.SGD({ p, q }, { lr = 0.1, weight_decay = 0.1 }):step()
    assert.near(0.99, p:item(), 1e-15)
    assert.equal(1, q:item())
  end)

  it("counts for each parameter only when its gradient is present", function()
    local p, q = param({ 1 }, { 1e-3 }), param { 1 }
    local optimizer = optim.Adam({ p, q })
    optimizer:step()
    optimizer:step()
    local state = optimizer:state_dict()
    assert.equal(2, state["state.param1.step"])
    assert.equal(0, state["state.param2.step"])
    assert.is_nil(state["state.param2.exp_avg"])
    q.grad = optlua.tensor({ 1e-3 }, { dtype = "float64" })
    optimizer:step()
    assert.near(0.9990000099999, q:item(), 1e-13) -- its own first step
  end)

  it("of Adam begins as it should", function()
    local p, q = param({ 1 }, { 1e-3 }), param({ 1 }, { 0 })
    optim.Adam({ p, q }, { lr = 1e-3 }):step()
    assert.near(0.9990000099999, p:item(), 1e-13)
    assert.equal(1, q:item())
  end)

  it("updates parameters of any size", function()
    local list = { param({ 1 }, { 1 }), optlua.zeros(0), param({ 1 }, { 1 }), optlua.zeros(2, 0), optlua.tensor(1) }
    list[2].requires_grad, list[4].requires_grad, list[5].requires_grad = true, true, true
    list[2].grad, list[4].grad, list[5].grad = optlua.zeros(0), optlua.zeros(2, 0), optlua.tensor(1)
    local optimizer = optim.SGD(list, { lr = 0.5, momentum = 0.9 })
    optimizer:step()
    optimizer:step()
    local want = 1 - 0.5 - 0.5 * 1.9
    assert.near(want, list[1]:item(), 1e-15)
    assert.near(want, list[3]:item(), 1e-15)
    assert.near(want, list[5]:item(), 1e-6)
    assert.same({ 2, 0 }, list[4].shape)
  end)

  it("gives the same for gradients and parameters that are strided", function()
    local values_of = optlua.randn(3, 4)
    local gradient = optlua.randn(4, 3)
    local function run(p, g)
      p.requires_grad = true
      local optimizer = optim.AdamW({ p, param({ 1 }, { 1 }, "float32") }, { lr = 0.1 })
      for _ = 1, 3 do
        optimizer:zero_grad()
        local loss = (p * g):sum() -- whose gradient is g, with its strides
        loss:backward()
        optimizer:step()
      end
      return p:detach():contiguous()
    end
    local want = run(values_of:clone(), gradient:t():contiguous())
    same_bits(want, run(values_of:clone(), gradient:t()))
    same_bits(want, run(values_of:t():contiguous():t(), gradient:t()))
    local wide = optlua.zeros(3, 8)
    local part = wide:narrow(2, 3, 4)
    part:copy_(values_of)
    same_bits(want, run(part, gradient:t()))
    assert.equal(0, wide:narrow(2, 1, 2):abs():sum():item())
    assert.equal(0, wide:narrow(2, 7, 2):abs():sum():item())
  end)

  it("does not touch frozen parameters, and goes on when they wake", function()
    local p, q = param({ 1 }, { 1 }), param({ 1 }, { 1 })
    local optimizer = optim.SGD({ p, q }, { lr = 0.5, weight_decay = 0.1 })
    q.requires_grad = false
    optimizer:step()
    assert.equal(1, q:item())
    q.requires_grad = true
    q.grad = optlua.tensor({ 1 }, { dtype = "float64" })
    optimizer:step()
    assert.is_true(q:item() < 1)
  end)

  it("does not write gradients, and makes them absent only when asked", function()
    local p = param({ 1, 2 }, { 3, 4 })
    local optimizer = optim.SGD({ p }, { lr = 0.5, weight_decay = 0.5, maximize = true })
    optimizer:step()
    assert.same({ 3, 4 }, values(p.grad))
    optimizer:zero_grad()
    assert.is_nil(p.grad)
    optimizer:step()
    assert.equal(1, optimizer:stats().updates) -- a step without any gradient is none
  end)

  it("calls a closure first and returns what it returns", function()
    local p = param { 1 }
    local optimizer = optim.SGD({ p }, { lr = 0.5 })
    local loss = optimizer:step(function()
      optimizer:zero_grad()
      local result = (p * p):sum()
      result:backward()
      return result
    end)
    assert.equal(1, loss:item())
    assert.equal(0, p:item())
    local _, message = pcall(optimizer.step, optimizer, function() error "lost" end)
    assert.is_truthy(message:find "lost")
  end)

  it("is noticed by backward, which has read the parameter", function()
    local p = param { 2 }
    local optimizer = optim.SGD({ p, param { 1 } })
    local loss = (p * p):sum()
    loss:backward(nil, { retain_graph = true })
    optimizer:step()
    fails("in place", loss.backward, loss)
  end)

  it("measures the norm of the gradients", function()
    local optimizer = optim.SGD({ param({ 1 }, { 3 }), param({ 1 }, { 4 }, "float32"), param { 1 } })
    assert.equal(5, optimizer:stats().grad_norm)
    optimizer:step()
    local stats = optimizer:stats()
    assert.same({ 1, 5, 0, 5 }, { stats.updates, stats.grad_norm, stats.state_bytes, stats.groups.default.grad_norm })
  end)

  it("works for parameters of both dtypes, in two optimizers after each other", function()
    local function run(first)
      local p, q = param({ 1, 2 }, { 1, 1 }, "float32"), param({ 1, 2 }, { 1, 1 }, "float64")
      local x, y = param({ 5 }, { 1 }, "float32"), param({ 5 }, { 1 }, "float64")
      if first then optim.SGD({ x, p, q, y }, { lr = 0 }):step() end
      local optimizer = optim.AdamW({ p, x, y, q }, { lr = 0.1 })
      optimizer:step()
      optimizer:step()
      return { p, q, x, y }
    end
    local want, got = run(false), run(true)
    for i = 1, 4 do same_bits(want[i], got[i]) end
  end)

  it("leaves the rest of a storage alone, of which a parameter is a part", function()
    local base = optlua.arange(1, 9, { dtype = "float64" })
    local p, q, r = base:narrow(1, 1, 2), base:narrow(1, 5, 2), param({ 1 }, { 1 })
    p.requires_grad, q.requires_grad = true, true
    local optimizer = optim.SGD({ p, q, r }, { lr = 1 })
    p.grad, q.grad = optlua.tensor({ 1, 2 }, { dtype = "float64" }), optlua.tensor({ 3, 4 }, { dtype = "float64" })
    optimizer:step()
    assert.same({ 0, 0, 3, 4, 2, 2, 7, 8 }, values(base))
  end)

  it("sees gradients that take another place", function()
    local p, q = param({ 1, 1 }, { 1, 1 }), param({ 1, 1 }, { 1, 1 })
    local optimizer = optim.SGD({ p, q }, { lr = 1 })
    optimizer:step()
    p.grad = optlua.tensor({ 5, 6 }, { dtype = "float64" })
    optimizer:step()
    local other = optim.SGD({ q, p }, { lr = 1 }) -- moves both
    p.grad = optlua.tensor({ 0, 1 }, { dtype = "float64" })
    optimizer:step()
    q.grad = nil
    other:step()
    assert.same({ 1 - 1 - 5, 1 - 1 - 6 - 1 - 1 }, values(p))
    assert.same({ -2, -2 }, values(q))
  end)
end)

describe("a step that fails", function()
  local function setup()
    local p, q = param({ 1, 2 }, { 1, 1 }), param({ { 1, 2 } }, { { 1, 1 } })
    local bad = {}
    local class = optim.define {
      name = "Failing",
      hyper = { lr = 0.1 },
      state = { m = 0, copy = "param" },
      group = { count = 0 },
      before = function(group) group.count = group.count + 1 end,
      update = function(x, g, s, h)
        if x.ndim == 2 and bad.rule then error "rule" end
        s.m = s.m + g
        return x - h.lr * s.m
      end,
    }
    local optimizer = class({ { name = "a", params = { p } }, { name = "b", params = { q } } })
    return optimizer, p, q, bad
  end

  local function picture(optimizer, p, q)
    local result = { values(p), values(q) }
    for key, value in pairs(optimizer:state_dict()) do
      result[key] = optlua.is_tensor(value) and values(value) or value
    end
    return result
  end

  it("in a rule of a later group changes nothing at all", function()
    local optimizer, p, q, bad = setup()
    for round = 1, 3 do
      local before = picture(optimizer, p, q)
      bad.rule = true
      fails("rule .*Failing, group 'b', parameter 'param2', update " .. round, optimizer.step, optimizer)
      assert.same(before, picture(optimizer, p, q))
      bad.rule = false
      optimizer:step()
    end
    assert.equal(3, optimizer:stats().updates)
  end)

  it("for lack of memory, at any allocation, changes nothing", function()
    local core = require("optlua.core").hidden
    for round = 1, 2 do -- with states to be made, and with states that are there
      local optimizer, p, q = setup()
      if round == 2 then optimizer:step() end
      local before = picture(optimizer, p, q)
      local failures = 0
      while true do
        core.fail_allocations(failures, true)
        local ok, message = pcall(optimizer.step, optimizer)
        core.fail_allocations(-1)
        if ok then break end
        assert.is_truthy(tostring(message):find "memory", message)
        assert.same(before, picture(optimizer, p, q))
        failures = failures + 1
      end
      assert.is_true(round == 2 or failures > 3)
      local other, p2, q2 = setup()
      for _ = 1, round do other:step() end
      assert.same(picture(other, p2, q2), picture(optimizer, p, q))
    end
  end)

  it("for lack of memory when it is made, leaves parameters as they were", function()
    local core = require("optlua.core").hidden
    local failures = 0
    while true do
      local p, q = param({ 1, 2 }, { 3, 4 }), param { 5 }
      core.fail_allocations(failures, true)
      local ok = pcall(optim.SGD, { p, q })
      core.fail_allocations(-1)
      assert.same({ 1, 2 }, values(p))
      assert.same({ 3, 4 }, values(p.grad))
      assert.same({ 5 }, values(q))
      assert.is_nil(q.grad)
      if ok then break end
      failures = failures + 1
    end
    assert.is_true(failures > 5)
  end)
end)

describe("a state", function()
  local function make(order, class)
    local list = { a = { "a", param({ 1, 2 }) }, b = { "b", param({ 3, 4 }) }, c = { "c", param({ { 5 } }) } }
    local params = {}
    for i, name in ipairs(order) do params[i] = list[name] end
    local optimizer = (class or optim.AdamW)(params, { lr = 0.1, weight_decay = 0.3 })
    return optimizer, { a = list.a[2], b = list.b[2], c = list.c[2] }
  end

  local function train(optimizer, params, from, to)
    for t = from, to do
      for name, p in pairs(params) do p.grad = optlua.full_like(p:detach(), t * (name:byte() - 95)) end
      if t == 2 then params.c.grad = nil end
      optimizer:step()
    end
  end

  local function copy(state)
    local result = {}
    for key, value in pairs(state) do
      result[key] = optlua.is_tensor(value) and value:clone() or value
    end
    return result
  end

  it("continues bit for bit, whatever the order", function()
    local want, p = make { "a", "b", "c" }
    train(want, p, 1, 3)
    local saved, held = copy(want:state_dict()), { a = p.a:detach():clone(), b = p.b:detach():clone(), c = p.c:detach():clone() }
    train(want, p, 4, 6)
    for _, order in ipairs { { "a", "b", "c" }, { "b", "a", "c" }, { "c", "b", "a" } } do
      local got, q = make(order)
      train(got, q, 1, 1) -- what was there is replaced
      got:load_state_dict(saved)
      optlua.no_grad(function()
        for name in pairs(q) do q[name]:copy_(held[name]) end
      end)
      assert.equal(3, got:stats().updates)
      train(got, q, 4, 6)
      for name in pairs(q) do same_bits(p[name], q[name]) end
    end
  end)

  it("lists every difference, and then loads nothing", function()
    local optimizer, params = make { "a", "b", "c" }
    train(optimizer, params, 1, 2)
    local saved = copy(optimizer:state_dict())
    local before = copy(optimizer:state_dict())
    saved["state.a.exp_avg"] = nil
    saved["state.b.exp_avg"] = optlua.zeros(3, { dtype = "float64" })
    saved["state.c.exp_avg_sq"] = optlua.zeros(1, 1)
    saved["state.d.step"] = 1
    saved["group.default.lr"] = -1
    saved["group.default.momentum"] = 1
    saved["updates"] = 1.5
    saved["group.default.step"] = math.maxinteger
    saved["class.default"] = "Adam"
    local message = fails("does not fit; nothing was loaded", optimizer.load_state_dict, optimizer, saved)
    for _, part in ipairs {
      "missing: state.a.exp_avg\n", "unexpected: group.default.momentum, state.d.step",
      "state.b.exp_avg: float64 %(2%) expected, got float64 %(3%)", "state.c.exp_avg_sq: float64 %(1, 1%) expected, got float32 %(1, 1%)",
      "lr: expected a number at least 0", "updates: a count expected, got 1.5", "step: a count expected, got 9223372036854775807", "class.default: AdamW expected, got Adam",
    } do assert.is_truthy(message:find(part), part .. " in " .. message) end
    for key, value in pairs(before) do
      local now = optimizer:state_dict()[key]
      if optlua.is_tensor(value) then same_bits(value, now) else assert.same(value, now) end
    end
    fails("a state is a table", optimizer.load_state_dict, optimizer, 1)
  end)

  it("of two parameters whose order was swapped goes to the right names", function()
    local optimizer, params = make { "a", "b" }
    train(optimizer, { a = params.a }, 1, 1)
    local saved = optimizer:state_dict()
    local other = make { "b", "a" }
    other:load_state_dict(saved)
    assert.equal(1, other:state_dict()["state.a.step"])
    assert.equal(0, other:state_dict()["state.b.step"])
    assert.is_nil(other:state_dict()["state.b.exp_avg"])
  end)

  it("before the first step is no step", function()
    local optimizer, params = make { "a", "b", "c" }
    optimizer:load_state_dict(optimizer:state_dict())
    local other, others = make { "a", "b", "c" }
    train(optimizer, params, 1, 2)
    train(other, others, 1, 2)
    for name in pairs(params) do same_bits(params[name], others[name]) end
  end)

  it("can be loaded from itself, and shares memory with it", function()
    local optimizer, params = make { "a", "b", "c" }
    train(optimizer, params, 1, 1)
    local state = optimizer:state_dict()
    local before = values(state["state.a.exp_avg"])
    train(optimizer, params, 2, 2)
    assert.not_same(before, values(state["state.a.exp_avg"]))
    optimizer:load_state_dict(optimizer:state_dict())
    train(optimizer, params, 3, 3)
    local other, others = make { "a", "b", "c" }
    train(other, others, 1, 3)
    for name in pairs(params) do same_bits(params[name], others[name]) end
  end)

  it("follows hyperparameters that decide which states there are", function()
    local function sgd(momentum)
      local p, q = param({ 1 }, { 1 }), param({ 2 }, { 1 })
      return optim.SGD({ p, q }, { lr = 0.1, momentum = momentum })
    end
    local with, without = sgd(0.9), sgd(0)
    with:step()
    without:step()
    local other = sgd(0)
    other:step()
    other:load_state_dict(with:state_dict())
    assert.equal(0.9, other.groups.default.momentum)
    assert.same({ 1 }, values(other:state_dict()["state.param1.momentum_buffer"]))
    other:load_state_dict(without:state_dict())
    assert.is_nil(other:state_dict()["state.param1.momentum_buffer"])
    other:step()
    other.groups.default.momentum = 0.5
    other:step()
    assert.is_truthy(other:state_dict()["state.param1.momentum_buffer"])
  end)

  it("is loaded whole or not at all when memory is short", function()
    local core = require("optlua.core").hidden
    local optimizer, params = make { "a", "b", "c" }
    train(optimizer, params, 1, 3)
    local saved = copy(optimizer:state_dict())
    local failures = 0
    while true do
      local other, others = make { "a", "b", "c" }
      train(other, others, 1, 1)
      local before = copy(other:state_dict())
      core.fail_allocations(failures, true)
      local ok = pcall(other.load_state_dict, other, saved)
      core.fail_allocations(-1)
      local now = other:state_dict()
      for key, value in pairs(ok and saved or before) do
        if optlua.is_tensor(value) then same_bits(value, now[key]) else assert.same(value, now[key]) end
      end
      if ok then break end
      failures = failures + 1
    end
    assert.is_true(failures > 5)
  end)

  it("does not depend on how small parameters are packed", function()
    local sizes = { 3, 16, 70000, 0, 5, 32, 1, 66000 }
    local function run(together)
      optlua.manual_seed(5)
      local list, optimizers = {}, {}
      for i, n in ipairs(sizes) do
        list[i] = optlua.randn(n)
        list[i].requires_grad = true
      end
      if together then optimizers[1] = optim.AdamW(list, { lr = 0.1 }) else
        for i, p in ipairs(list) do optimizers[i] = optim.AdamW({ p }, { lr = 0.1 }) end
      end
      for _ = 1, 3 do
        for _, p in ipairs(list) do p.grad = optlua.randn(p.shape) end
        list[5].grad = nil
        for _, optimizer in ipairs(optimizers) do optimizer:step() end
      end
      return list
    end
    local want, got = run(false), run(true)
    for i in ipairs(sizes) do same_bits(want[i], got[i]) end
  end)
end)

describe("printing", function()
  it("shows groups and hyperparameters of any class alike", function()
    local optimizer = optim.SGD({ { name = "w", params = { param { 1, 2 } }, lr = 0.5 }, { params = {} } })
    assert.equal([[
SGD (
  w: 1 parameter, 2 elements
    dampening = 0
    lr = 0.5
    maximize = false
    momentum = 0
    nesterov = false
    weight_decay = 0
  group2: 0 parameters, 0 elements
    dampening = 0
    lr = 0.001
    maximize = false
    momentum = 0
    nesterov = false
    weight_decay = 0
)]], tostring(optimizer))
  end)
end)

describe("what is handed over in another form", function()
  it("is told where it stands", function()
    local p = param { 1 }
    fails("AdamW: the parameters stand first, alone: optim.AdamW%(parameters, { lr = 0.1 }%)", optim.AdamW, { params = { p }, lr = 1 })
    fails("hyperparameters are a table, { lr = 0.1 }, not a number", optim.AdamW, { p }, 1e-3)
    fails("hyperparameters are a table, { lr = 0.1 }, not a module", optim.AdamW, model(), model())
    fails("a list of groups expected, got a module", optim.container, model(), model())
    fails("a list of groups expected, got an optimizer", optim.container, model(), optim.SGD { p })
    fails("a table of them by group expected, got module", optim.lr_scheduler, optim.SGD { p }, model())
    fails("schedule.LambdaLR { lr_lambda = … }", optlua.schedule.LambdaLR, function() return 1 end)
  end)
end)

describe("a field of an optimizer", function()
  it("is its own, or an error that says where the values are", function()
    local one = optim.AdamW(model(), { lr = 0.1 })
    local container = optim.container(model(), { { name = "all", match = "*", class = "AdamW" } })
    local Mine = optim.container:extend { count = function(self) self.counted = 1 return self.counted end }
    local mine = Mine(model(), optim.SGD)
    for group, optimizer in pairs { default = one, all = container } do
      local where = "optimizer.groups." .. group
      fails("lr is no field of the optimizer; .*" .. where .. ".lr", function() optimizer.lr = 0.5 end)
      fails("lr is no field of the optimizer; .*" .. where .. ".lr", function() return optimizer.lr end)
      fails("betas is no field .*" .. where .. ".betas", function() optimizer.betas = { 0, 0 } end)
      fails("param_groups is no field .*groups.NAME.lr", function() return optimizer.param_groups end)
      fails("has no field learning_rate; .*groups.NAME.lr", function() optimizer.learning_rate = 1 end)
      fails("'ema' is an option, which is given when the container is made: optim.container%(model, …, { ema = … }%)", function()
        optimizer.ema = 0.9
      end)
      fails("'clip_value' is an option", function() return optimizer.clip_value end)
      fails("clip_value can be set where it was given when the optimizer was made", function()
        optimizer.groups[group].clip_value = 1
      end)
      assert.is_nil(optimizer.save)
    end
    fails("lr is no field", function() mine.lr = 1 end)
    assert.equal(1, mine:count())
  end)

  it("has nothing to train when there is no parameter, which is said unless a list is meant to be empty", function()
    local folder = process.folder()
    process.write(folder .. "/a.lua", [[
local optlua = require "optlua"
local empty = optlua.nn.ReLU()
optlua.optim.SGD(empty)
optlua.optim.AdamW(empty:named_parameters())
optlua.optim.container(empty, "Adam")
optlua.optim.SGD {}
optlua.optim.SGD(optlua.nn.Linear(1, 1))
]])
    local told = process.run(folder, "optlua a.lua")
    process.remove(folder)
    assert.same({ 0, "" }, { told.code, told.out })
    local expected = {}
    for i, name in ipairs { "SGD", "AdamW", "optim.container" } do
      expected[i] = ("optlua: %s: there are no parameters; nothing will be trained\n"):format(name)
    end
    assert.equal(table.concat(expected), told.err)
  end)
end)

describe("a method called with a dot", function()
  it("says how it is called, at the script's line", function()
    local function at(pattern, call) fails("^tests/optim_optimizer_spec.lua:%d+: " .. pattern, call) end
    local wanted = ": an optimizer expected, got nothing; methods are called with a colon: optimizer:"
    for _, optimizer in ipairs { optim.SGD(model()), optim.container(model(), "AdamW") } do
      for _, name in ipairs { "step", "zero_grad", "state_dict", "plan", "add_group", "with_eval", "stats" } do
        at(name .. wanted .. name .. "%(…%)", function() optimizer[name]() end)
      end
      at("step: an optimizer expected, got a function", function() optimizer.step(print) end)
      local scheduler = optim.lr_scheduler(optimizer, function() return 1 end)
      at("step: a scheduler expected, got nothing; .* scheduler:step%(…%)", function() scheduler.step() end)
    end
  end)
end)

describe("steps without any gradient", function()
  -- What a script says on stderr.
  local function said(script)
    local folder = process.folder()
    process.write(folder .. "/a.lua", "local optlua = require 'optlua' local nn, optim = optlua.nn, optlua.optim\n"
      .. "local model, x = nn.Linear(2, 2), optlua.ones(1, 2)\n" .. script)
    local told = process.run(folder, "optlua a.lua")
    process.remove(folder)
    assert.equal(0, told.code, told.err)
    return told.err
  end

  it("are said once, where there are two in a row, and not where parameters are frozen", function()
    local pattern = "^optlua: %S+: step: none of its parameters has a gradient, so nothing is updated; [^\n]*\n$"
    local steps = "for _ = 1, 3 do optimizer:step() optimizer:zero_grad() end"
    assert.matches(pattern, said("local optimizer = optim.AdamW(model) model:to 'float64' model(x:to 'float64'):sum():backward() " .. steps))
    assert.matches(pattern, said("local optimizer = optim.container(model, 'SGD', { in_backward = true }) " .. steps))
    for _, class in ipairs { "SAM(SGD)", "LBFGS", "SGD" } do
      assert.matches(pattern, said(("local optimizer = optim.container(model, %q) for _ = 1, 3 do "):format(class)
        .. "optimizer:step(function() return model(x):sum() end) end"))
    end
    assert.equal("", said("model:requires_grad_(false) local optimizer = optim.SGD(model) " .. steps))
    local some = "model.bias.grad = optlua.ones(2) optimizer:step() optimizer:zero_grad() optimizer:step() "
    assert.equal("", said("local optimizer = optim.SGD(model) " .. some .. some))
  end)
end)

describe("infinity", function()
  it("comes into averages of squares where PyTorch's have it, and not before", function()
    for _, name in ipairs { "Adam", "AdamW", "NAdam", "RAdam", "AdEMAMix", "LAMB", "Adan", "AdaBelief", "RMSprop", "Adadelta",
      "ScheduleFreeAdamW" } do
      local p = optlua.ones({ 2 }, { requires_grad = true })
      p.grad = optlua.full({ 2 }, 2e19) -- its square is infinite, a tenth of it is not
      local optimizer = optim[name]({ { "p", p } })
      optimizer:step()
      p.grad = optlua.ones(2)
      optimizer:step()
      for key, value in pairs(optimizer:state_dict()) do
        if key ~= "state.p.param" and optlua.is_tensor(value) then assert.equal(value:numel(), value:isfinite():sum():item(), name .. " " .. key) end
      end
    end
  end)

  it("is a value of hyperparameters where it is the default or the maximum", function()
    local p = { optlua.ones({ 1 }, { requires_grad = true }) }
    for _, x in ipairs { math.huge, -math.huge } do fails("lr: ", optim.AdamW, p, { lr = x }) end
    fails("betas", optim.AdamW, p, { betas = { 0.9, math.huge } })
    fails("eps: a finite number expected, got inf", optim.AdamW, p, { eps = math.huge })
    local optimizer = optim.AdamW(p)
    fails("lr: a finite number expected, got inf", function() optimizer.groups[1].lr = math.huge end)
    assert.equal(1e-3, optimizer.groups[1].lr)
    assert.equal(math.huge, optim.Prodigy(p).groups[1].growth_rate)
    local Open = optim.define { name = "Open", hyper = { most = { default = 1, max = math.huge } }, update = function(q) return q end }
    assert.equal(math.huge, Open(p, { most = math.huge }).groups[1].most)
    fails("grad_scale: expected", optim.container, optlua.nn.Linear(1, 1), "SGD", { grad_scale = math.huge })
  end)
end)

describe("add_group", function()
  it("is a list without holes, as groups and parameters are", function()
    fails("item 2 of the groups is nil", optim.SGD, { { params = { param { 1 } } }, nil, { params = { param { 1 } } } })
    fails("item 1 of the parameters is nil", optim.SGD, { nil, param { 1 } })
    fails("item 2 of the groups is nil", optim.container, nn.Linear(1, 1),
      { { match = "*", class = "SGD" }, nil, { match = "*", class = "SGD" } })
    fails("match: glob 2 is nil", optim.container, nn.Linear(1, 1), { { match = { "bias", nil, "*" }, class = "SGD" } })
  end)

  it("adds parameters with hyperparameters of their own", function()
    local optimizer = optim.SGD({ param({ 1 }, { 1 }) }, { lr = 0.5 })
    optimizer:step()
    local p = param({ 1 }, { 1 })
    optimizer:add_group { params = { p }, momentum = 0.9 }
    optimizer:step()
    assert.equal(0.5, p:item())
    assert.equal(0.5, optimizer.groups.group2.lr)
    assert.same({ "param2" }, optimizer.groups.group2.names)
    fails("params expected", optimizer.add_group, optimizer, { param { 1 } })
    fails("group 'none' has no parameters", optimizer.add_group, optimizer, { name = "none", params = {} })
    fails("momentum: expected", optimizer.add_group, optimizer, { params = {}, momentum = -1 })
    fails("two groups are named 'group2'", optimizer.add_group, optimizer, { name = "group2", params = {} })
    assert.equal(2, #optimizer.groups)
  end)
end)
