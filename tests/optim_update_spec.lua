-- Steps of optimizers: what is updated and counted, and that a step that fails changes nothing.
local optlua = require "optlua"
local optim = optlua.optim

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
