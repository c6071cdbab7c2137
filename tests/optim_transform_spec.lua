-- Classes made from classes; named rules that change the form of parameters; rules over matrices.
local optlua = require "optlua"
local optim = optlua.optim

local Config = require "optlua.config.tree"
local fails = require("fails").matching
local process = require "process"

local function values(tensor) return tensor:detach():flatten():totable() end

local function param(value, gradient)
  local p = optlua.tensor(value, { dtype = "float64" })
  p.requires_grad = true
  if gradient then p.grad = optlua.tensor(gradient, { dtype = "float64" }) end
  return p
end

local function lookahead(inner, extra)
  local definition = {
    name = "Lookahead(" .. inner.name .. ")",
    hyper = { k = { default = 5, min = 1, integer = true }, slow_step = { default = 0.5, min = 0, max = 1 } },
    state = { slow = "param" },
    update = function(p, g, s, h, inner_update)
      local fast = inner_update(p, g)
      if h.step % h.k ~= 0 then return fast end
      s.slow = optim.lerp(s.slow, fast, h.slow_step)
      return s.slow
    end,
  }
  for key, value in pairs(extra or {}) do definition[key] = value end
  return optim.transform(inner, definition)
end

describe("a transform", function()
  it("runs a rule around a rule", function()
    local p = param({ 1 }, { 1 })
    local optimizer = lookahead(optim.SGD)({ p }, { lr = 0.1, k = 3, momentum = 0.5 })
    local fast, slow, m = 1, 1, 0
    for t = 1, 7 do
      optimizer:step()
      m = t == 1 and 1 or 0.5 * m + 1
      fast = fast - 0.1 * m
      if t % 3 == 0 then
        slow = slow + 0.5 * (fast - slow)
        fast = slow
      end
      assert.near(fast, p:item(), 1e-15)
    end
    local state = optimizer:state_dict()
    assert.is_truthy(state["state.param1.slow"])
    assert.is_truthy(state["state.param1.momentum_buffer"])
    assert.equal(3, state["group.default.k"])
  end)

  it("can hand another gradient to the inner rule, and be transformed again", function()
    local negated = optim.transform(optim.SGD, { name = "Negated", update = function(p, g, _, _, inner) return inner(p, -g) end })
    local p = param({ 1 }, { 1 })
    negated({ p }, { lr = 0.5 }):step()
    assert.equal(1.5, p:item())
    lookahead(negated)({ p }, { lr = 0.5, k = 1 }):step()
    assert.equal(1.75, p:item())
  end)

  it("has numbers of the group, before, after and accepts of both", function()
    local log = {}
    local inner = optim.define {
      name = "Inner", group = { a = 1 }, accepts = { ndim = 1 },
      before = function(group) log[#log + 1] = "inner before " .. group.a end,
      after = function() log[#log + 1] = "inner after" end,
      update = function(p, g, _, _, group) return p - group.a * g end,
    }
    local class = optim.transform(inner, {
      name = "Outer", group = { b = 2 }, accepts = function(_, name) return name ~= "bad", "bad name" end,
      before = function(group) log[#log + 1] = "outer before " .. group.b end,
      update = function(p, g, _, _, inner_update, group) return inner_update(p, group.b * g) end,
    })
    local p = param({ 1 }, { 1 })
    class({ p }):step()
    assert.equal(-1, p:item())
    assert.same({ "inner before 1.0", "outer before 2.0", "inner after" }, log)
    fails("it has 2 dimensions", class, { param { { 1 } } })
    fails("bad name", class, { { "bad", param { 1 } } })
  end)

  it("says where inner_update is given too little", function()
    local class = optim.transform(optim.SGD, { name = "Less", update = function(_, g, _, _, inner_update) return inner_update(g) end })
    fails("optim_transform_spec.lua:%d+: inner_update: two arguments expected", function() class({ param({ 1 }, { 1 }) }):step() end)
  end)

  it("refuses names that both use", function()
    fails("hyper.lr: the inner class has one", lookahead, optim.SGD, { hyper = { lr = 1 } })
    fails("state.exp_avg: the inner class has one", lookahead, optim.Lion, { state = { exp_avg = 0 } })
    local class = lookahead(optim.SGD, { state = { momentum_buffer = 0 } })
    fails("state.momentum_buffer: the inner class has one", function()
      class({ param({ 1 }, { 1 }) }, { momentum = 0.5 }):step()
    end)
    local function own(p) return p end
    local swapping = optim.define { name = "S", swap_ema = own, update = own }
    fails("Look: swap_ema: the inner class has one", optim.transform, swapping, { name = "Look", swap_ema = own })
    fails("S: swap_ema: the inner class has one", optim.container, optlua.nn.Linear(1, 1), swapping, { ema = 0.5 })
    fails("group.lr", lookahead, optim.SGD, { group = { lr = 0 } })
    fails("a class expected", optim.transform, {}, {})
    fails("a table expected", optim.transform, optim.SGD)
    fails("name: a word is required", optim.transform, optim.SGD, { update = function(p) return p end })
    fails("update: .* is required", optim.transform, optim.SGD, { name = "X" })
  end)
end)

-- Schedule-Free SGD (Defazio et al., 2024), in the form that keeps y in the parameter while training.
local ScheduleFree = optim.define {
  name = "ScheduleFree",
  hyper = { lr = { default = 1, min = 0 }, beta = { default = 0.9, above = 0, below = 1 } },
  state = { z = "param" },
  group = { weight_sum = 0, mix = 0 },
  before = function(group, h)
    group.weight_sum = group.weight_sum + h.lr ^ 2
    group.mix = h.lr ^ 2 / group.weight_sum
  end,
  update = function(p, g, s, h, group)
    local y = optim.lerp(p, s.z, group.mix) + h.lr * (h.beta * (1 - group.mix) - 1) * g
    s.z = s.z - h.lr * g
    return y
  end,
  eval = function(p, s, h) return optim.lerp(p, s.z, 1 - 1 / h.beta) end,
  train = function(p, s, h) return optim.lerp(p, s.z, 1 - h.beta) end,
  reset = function(_, s) return s.z end,
}

describe("named rules", function()
  -- The averages as the paper has them: x, y, z apart.
  local function naive(gradients, lr, beta)
    local x, z, sum = 1, 1, 0
    local y = 1
    for _, g in ipairs(gradients) do
      z = z - lr * g
      sum = sum + lr ^ 2
      x = x + lr ^ 2 / sum * (z - x)
      y = (1 - beta) * z + beta * x
    end
    return x, y, z
  end

  local function make()
    local p, q, never = param { 1 }, param({ { 1 } }):t(), param { 5 }
    q = q:detach()
    q.requires_grad = true
    local optimizer = ScheduleFree({ p, q, never }, { lr = 0.1, beta = 0.8 })
    for _, g in ipairs { 1, -2, 3 } do
      p.grad, q.grad = optlua.full({ 1 }, g, { dtype = "float64" }), optlua.full({ 1, 1 }, g, { dtype = "float64" })
      optimizer:step()
    end
    return optimizer, p, q, never
  end

  it("change the form of the parameters that were updated, to and fro", function()
    local optimizer, p, q, never = make()
    local x, y, z = naive({ 1, -2, 3 }, 0.1, 0.8)
    assert.near(y, p:item(), 1e-15)
    optimizer:eval()
    assert.near(x, p:item(), 1e-15)
    assert.near(x, q:item(), 1e-15)
    assert.equal(5, never:item())
    optimizer:eval() -- once is enough
    assert.near(x, p:item(), 1e-15)
    optimizer:train()
    assert.near(y, p:item(), 1e-15)
    assert.equal(3, optimizer:state_dict()["state.param1.step"])
    assert.equal(3, optimizer:stats().updates)
    optimizer:run "reset"
    assert.near(z, p:item(), 1e-15)
    assert.near(z, q:item(), 1e-15)
  end)

  it("do not need gradients, and read none", function()
    local optimizer, p = make()
    local x = naive({ 1, -2, 3 }, 0.1, 0.8)
    optimizer:zero_grad()
    optimizer:run "eval"
    assert.near(x, p:item(), 1e-15)
    optimizer:train()
    p.grad = optlua.full({ 1 }, 4, { dtype = "float64" })
    optimizer:step()
    local _, y = naive({ 1, -2, 3, 4 }, 0.1, 0.8)
    assert.near(y, p:item(), 1e-15)
  end)

  it("keep a step from being taken on the wrong form, which is saved", function()
    local optimizer, p = make()
    optimizer:eval()
    local before = p:item()
    fails("call train%(%) of the optimizer", optimizer.step, optimizer)
    assert.equal(before, p:item())
    local state = optimizer:state_dict()
    assert.equal("eval", state["group.default.mode"])
    local other = make()
    other:load_state_dict(state)
    fails("call train%(%) of the optimizer", other.step, other)
    other:train()
    other:step()
    state["group.default.mode"] = "both"
    fails("mode: train or eval expected, got both", other.load_state_dict, other, state)
  end)

  it("are none for other classes", function()
    local optimizer = optim.SGD({ param({ 1 }, { 1 }) })
    optimizer:eval()
    optimizer:step()
    optimizer:train()
    fails('unknown rule "reset"', optimizer.run, optimizer, "reset")
    local free = make()
    fails('unknown rule "rest" %(did you mean "reset"%?%)', free.run, free, "rest")
  end)

  it("fail as steps do, and nothing has changed", function()
    local bad = optim.define {
      name = "Bad", state = { m = 1 }, update = function(p, g) return p - g end,
      eval = function(p, s) return p + s.n end, train = function(p) return p end,
    }
    local p = param({ 1 }, { 1 })
    local optimizer = bad({ p })
    optimizer:step()
    fails('unknown state "n".*Bad, group \'default\', parameter \'param1\', update 1', optimizer.eval, optimizer)
    optimizer:step()
    assert.equal(-1, p:item())
  end)
end)

describe("a rule over matrices", function()
  it("runs once for each shape", function()
    local muon = optim.define {
      name = "Muon",
      hyper = { lr = { default = 0.1, min = 0 }, ns_steps = { default = 5, integer = true } },
      accepts = { ndim = 2 },
      update = function(p, g, _, h)
        local x = p.shape[1] > p.shape[2] and optim.t(g) or g
        x = x / optim.max(optim.norm(x), 1e-7)
        for _ = 1, h.ns_steps do
          local a = optim.matmul(x, optim.t(x))
          x = 3.4445 * x + optim.matmul(-4.775 * a + 2.0315 * optim.matmul(a, a), x)
        end
        if p.shape[1] > p.shape[2] then x = optim.t(x) end
        return p - h.lr * x
      end,
    }
    local function naive(p, g)
      local x = p.shape[1] > p.shape[2] and g:t() or g
      x = x / (x * x):sum():sqrt()
      for _ = 1, 5 do
        local a = x:matmul(x:t())
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a:matmul(a)):matmul(x)
      end
      return p - 0.1 * (p.shape[1] > p.shape[2] and x:t() or x)
    end
    optlua.manual_seed(2)
    local list, want = {}, {}
    for i, shape in ipairs { { 3, 5 }, { 5, 3 }, { 3, 5 }, { 4, 4 } } do
      local p, g = optlua.randn(shape, { dtype = "float64" }), optlua.randn(shape, { dtype = "float64" })
      want[i] = naive(p, g)
      p.requires_grad = true
      p.grad = g
      list[i] = p
    end
    muon(list):step()
    for i, p in ipairs(list) do assert.is_true(p:detach():allclose(want[i], { rtol = 1e-12, atol = 1e-14 })) end
  end)

  it("may have states of another shape than the parameter", function()
    local factored = optim.define {
      name = "Factored",
      hyper = { lr = 0.5 },
      state = function(shape)
        if #shape < 2 then return { variance = 0 } end
        return { row = { shape = { shape[1], 1 } }, col = { shape = { 1, shape[2] } } }
      end,
      update = function(p, g, s, h)
        if p.ndim < 2 then
          s.variance = s.variance + g * g
          return p - h.lr * g / optim.sqrt(s.variance)
        end
        s.row = s.row + optim.mean(g * g, -1)
        s.col = s.col + optim.mean(g * g, -2)
        return p - h.lr * g * optim.rsqrt(s.row / optim.mean(s.row, -2)) * optim.rsqrt(s.col)
      end,
    }
    local p, q = param({ { 0, 0 }, { 0, 0 } }, { { 1, 2 }, { 3, 4 } }), param({ 0 }, { 2 })
    local optimizer = factored({ p, q })
    optimizer:step()
    local state = optimizer:state_dict()
    assert.same({ 2.5, 12.5 }, values(state["state.param1.row"]))
    assert.same({ 5, 10 }, values(state["state.param1.col"]))
    assert.same({ 2, 1 }, state["state.param1.row"].shape)
    assert.same({ 4 }, values(state["state.param2.variance"]))
    assert.near(-0.5 * 3 / math.sqrt(12.5 / 7.5) / math.sqrt(5), values(p)[3], 1e-15)
    assert.near(-0.5, q:item(), 1e-15)
  end)
end)

describe("a transform of a script's own", function()
  local function halved(inner)
    return optim.transform(inner, { name = "Halved(" .. inner.name .. ")", hyper = { part = { default = 0.5, min = 0 } },
      update = function(p, g, s, h, inner_update) return inner_update(p, h.part * g) end })
  end
  before_each(function() optim.register("HalvedSpec", halved) end)
  after_each(function() pcall(optim.unregister, "HalvedSpec") end)

  it("has a name, around that of any class, which containers and configs know", function()
    local class = optim.resolve "HalvedSpec(SGD)"
    assert.equal("Halved(SGD)", class.name)
    assert.equal(class, optim.resolve " HalvedSpec( SGD ) ") -- made once
    assert.equal("Lookahead(Halved(AdamW))", optim.resolve("Lookahead(HalvedSpec(AdamW))").name)
    local p = param({ 1 }, { 1 })
    optim.container(function() local q = p p = nil return q and "p", q end, "HalvedSpec(SGD)", { lr = 1, part = 0.25 }):step()
    local config = Config.new { optimizer = { class = "HalvedSpec(SGD)", part = 0.25 } }
    assert.equal(0.25, config:finish("test").optimizer.part)
    fails("optimizer.part: expected a number at least 0", Config.finish, Config.new { optimizer = { class = "HalvedSpec(SGD)", part = -1 } }, "test")
  end)

  it("and its name are checked", function()
    fails("HalvedSpec is already a registered transform", optim.register, "HalvedSpec", halved)
    fails("HalvedSpec is already a registered transform", optim.register, "HalvedSpec", optim.SGD)
    fails("SAM is already a registered transform", optim.register, "SAM", halved)
    fails("Adam is already a registered optimizer", optim.register, "Adam", halved)
    fails("a class expected.*or a transform", optim.register, "Other", 5)
    fails('HalvedSpec is a transform, which stands around a class: write "HalvedSpec%(AdamW%)"', optim.resolve, "HalvedSpec")
    fails('unknown transform "HalvedSpce" %(did you mean "HalvedSpec"%?%); legal: Centralize, HalvedSpec, ', optim.resolve, "HalvedSpce(SGD)")
    fails("SAM comes with the library", optim.unregister, "SAM")
    optim.unregister "HalvedSpec"
    fails('unknown transform "HalvedSpec"', optim.resolve, "HalvedSpec(SGD)")
    optim.register("HalvedSpec", function() return 5 end)
    fails("the transform HalvedSpec returned no class, but a number", optim.resolve, "HalvedSpec(SGD)")
    optim.unregister "HalvedSpec"
    optim.register("HalvedSpec", function() error "no luck" end)
    fails("optim_transform_spec.lua:%d+: no luck", optim.resolve, "HalvedSpec(SGD)")
  end)

  it("can be a file that returns it", function()
    local folder = process.folder()
    process.write(folder .. "/mine.lua", [[
local optim = require "optlua.optim"
return function(inner)
  return optim.transform(inner, { name = "Mine(" .. inner.name .. ")", update = function(p, g, s, h, inner_update) return inner_update(p, g) end })
end]])
    process.write(folder .. "/wrong.lua", "return 5")
    process.write(folder .. "/run.lua", [[
local optlua = require "optlua"
print(optlua.optim.resolve("mine(Lion)").name, optlua.optim.resolve("mine(SGD)") == optlua.optim.resolve("mine(SGD)"))
print(select(2, pcall(optlua.optim.resolve, "wrong(SGD)")))]])
    local out = process.run(folder, "optlua run.lua").out
    process.remove(folder)
    assert.matches("^Mine%(Lion%)\ttrue\n[^\n]*the module wrong returns no transform, a function", out)
  end)
end)

describe("a rule whose structure never repeats", function()
  it("is pointed out once", function()
    local class = optim.define { name = "Restless", update = function(p, g, _, h)
      for _ = 1, h.step do p = p - g end
      return p
    end }
    local optimizer = class({ param({ 1 }, { 1 }) })
    local said, stderr = {}, io.stderr
    io.stderr = { write = function(_, text) said[#said + 1] = text end } -- luacheck: ignore 122
    local ok, message = pcall(function()
      for _ = 1, 100 do optimizer:step() end
    end)
    io.stderr = stderr -- luacheck: ignore 122
    assert.is_true(ok, message)
    assert.equal(1, #said)
    assert.is_truthy(said[1]:find "Restless")
  end)
end)
