-- What an optimizer saves: states by name, loaded whole or not at all.
local optlua = require "optlua"
local optim = optlua.optim

local fails = require("fails").matching

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
