-- Inputs that broke other systems, with the right answers; numbered as in the list that the project keeps
-- of them. Neighbouring inputs, which the same mistake would break, stand beside each.
local optlua = require "optlua"
local nn, optim, data, schedule = optlua.nn, optlua.optim, optlua.data, optlua.schedule
local functional = nn.functional

local fails = require("fails").matching
local files = require "files"

--- A parameter with these values and a gradient.
local function parameter(values, gradient, dtype)
  local p = optlua.tensor(values, { dtype = dtype or "float64", requires_grad = true })
  if gradient then p.grad = optlua.full(p.shape, gradient, { dtype = p.dtype }) end
  return p
end

local function ids(values) return optlua.tensor(values, { dtype = "int64" }) end

-- Elsewhere: 1–6, 9–13 schedule_spec (numbers), 1, 2, 4–6, 11, 13 resume_spec (resumed at every update), 10
-- schedule_spec (bad arguments), 12 parts_spec (three forms of decay); 17, 32 optim_optimizer_spec, optim_update_spec, optim_state_spec,
-- parts_spec; 22, 26–32 optim_cases_spec (every class); 42–44 spec_spec, optim_groups_spec.
describe("schedules:", function()
  -- The rate that the next update uses, with an optimizer and a scheduler resumed in either order after so many.
  local function resumed(make, base, updates)
    local function start()
      local optimizer = optim.SGD({ parameter({ 1 }, 0) }, { lr = base })
      return optimizer, optim.lr_scheduler(optimizer, make())
    end
    local first, first_scheduler = start()
    for _ = 1, updates do first:step() end
    local rates = {}
    for order = 1, 2 do
      local second, second_scheduler = start()
      if order == 1 then second:load_state_dict(first:state_dict()) end
      second_scheduler:load_state_dict(first_scheduler:state_dict())
      if order == 2 then second:load_state_dict(first:state_dict()) end
      second:step()
      rates[order] = second.groups[1].lr
      second:step()
      rates[order + 2] = second.groups[1].lr
    end
    assert.equal(rates[1], rates[2])
    assert.equal(rates[3], rates[4])
    return { rates[1], rates[3] }
  end

  local function near(want, got)
    for k, x in ipairs(want) do assert.near(x, got[k], 1e-9) end
  end

  it("case 1: cosine resumed at 45", function()
    near({ .000578217232520, .000562666616782 },
      resumed(function() return schedule.CosineAnnealingLR { T_max = 100 } end, 1e-3, 45))
  end)

  it("case 2: a base of .5 and 100,000 updates do not drift in float32 weights either", function()
    local s = schedule.CosineAnnealingLR { T_max = 100000 }
    for _, t in ipairs { 1, 33333, 99999 } do
      assert.equal(0.5 * ((1 + math.cos(math.pi * t / 100000)) / 2), s:value(t, 0.5))
    end
  end)

  it("case 3: gamma once at a milestone, twice where it stands there twice", function()
    for _, milestones in ipairs { { 2, 8 }, { 8, 2 } } do
      local s = schedule.MultiStepLR { milestones = milestones }
      for t = 0, 9 do assert.near(t < 2 and .2 or t < 8 and .02 or .002, s:value(t, .2), 1e-15) end
    end
    assert.near(.01, schedule.MultiStepLR { milestones = { 2, 2 } }:at(2), 1e-15)
  end)

  it("case 4: constant, then exponential, resumed at 4", function()
    near({ .9, .81 }, resumed(function()
      return schedule.SequentialLR { milestones = { 3 },
        schedulers = { schedule.ConstantLR { factor = .1, total_iters = 9 }, schedule.ExponentialLR { gamma = .9 } } }
    end, 1, 4))
  end)

  it("case 7: a lambda that always returns .5 does not overwrite the base", function()
    local p = parameter({ 1 }, 0)
    local optimizer = optim.SGD({ p }, { lr = 1 })
    optim.lr_scheduler(optimizer, function() return 0.5 end)
    for _ = 1, 4 do
      optimizer:step()
      assert.equal(0.5, optimizer.groups[1].lr)
      optim.lr_scheduler(optimizer, function() return 0.5 end) -- nor when it is made anew
    end
    near({ .5, .5 }, resumed(function() return schedule.constant { factor = .5 } end, 1, 3))
  end)

  it("case 8: .5^t resumed at 3", function()
    near({ .00125, .000625 }, resumed(function() return schedule.lambda { fn = function(t) return .5 ^ t end } end, .01, 3))
  end)

  it("case 9: a warm-up wastes no update, also of one", function()
    assert.equal(1, schedule.warmup { steps = 1 }:at(0))
    assert.equal(0.25, schedule.warmup_stable_decay { warmup_steps = 4, total_steps = 9 }:at(0))
    assert.equal(0.25, schedule.inverse_sqrt { warmup_steps = 4 }:at(0))
  end)

  it("case 10: degenerate constants", function()
    assert.equal(0.5, schedule.LinearLR { end_factor = 0.5, total_iters = 0 }:at(0))
    assert.equal(1, schedule.ConstantLR { total_iters = 0 }:at(0))
    assert.equal(1, schedule.PolynomialLR { total_iters = 0 }:at(0))
    assert.equal(0.5, schedule.SWALR { swa_lr = 0.5, anneal_epochs = 0 }:value(0, 1))
    local all_warm = schedule.warmup_stable_decay { warmup_steps = 10, total_steps = 10 }
    assert.same({ 1, 1, 1 }, { all_warm:at(9), all_warm:at(10), all_warm:at(99) })
    local none = schedule.warmup_stable_decay { total_steps = 10, decay_ratio = 0 }
    assert.same({ 1, 1 }, { none:at(9), none:at(10) })
    for _, make in ipairs {
      function() return schedule.CosineAnnealingWarmRestarts { T_0 = 0 } end, function() return schedule.cosine { steps = 0 } end,
      function() return schedule.CyclicLR { base_lr = 0.1, max_lr = 1, step_size_up = 0 } end,
      function() return schedule.CyclicLR { base_lr = 0.1, max_lr = 1, step_size_up = 1, step_size_down = 0 } end,
      function() return schedule.warmup { steps = 0 } end, function() return schedule.polynomial { steps = 0 } end,
      function() return schedule.exponential { to = 0, steps = 5 } end, function() return schedule.OneCycleLR { max_lr = 0, total_steps = 9 } end,
      function() return schedule.OneCycleLR { max_lr = 1, total_steps = 9, div_factor = 0 } end,
      function() return schedule.OneCycleLR { max_lr = 1, total_steps = 9, pct_start = 1 } end,
      function() return schedule.LinearLR { start_factor = 0 } end, function() return schedule.ReduceLROnPlateau { factor = 1 } end,
      function() return schedule.StepLR { step_size = 2.5 } end, function() return schedule.StepLR { step_size = 0 / 0 } end,
      function() return schedule.ExponentialLR { gamma = math.huge } end,
    } do
      local ok, made = pcall(make)
      if ok then assert.is_true(made:value(0, 1) == made:value(0, 1), tostring(made)) end
      assert.is_false(ok, tostring(made))
    end
  end)

  it("case 11: one cycle resumed at 5", function()
    local got = resumed(function() return schedule.OneCycleLR { max_lr = .1, total_steps = 10 } end, 1, 5)
    assert.near(.0611262, got[1], 1e-7)
    assert.near(.0388742, got[2], 1e-7)
  end)

  it("case 13: inverse time, epochs apart", function()
    local s, last = schedule.inverse_time { decay = .01 }, nil
    local function fresh() return optim.SGD({ parameter({ 1 }, 0) }, { lr = .1 }) end
    for epoch = 1, 4 do
      local optimizer = fresh()
      optim.lr_scheduler(optimizer, s)
      if last then optimizer:load_state_dict(last) end
      optimizer:step()
      assert.near(({ .1, .0990099, .0980392, .0970874 })[epoch], optimizer.groups[1].lr, 1e-7)
      last = optimizer:state_dict()
    end
  end)

  it("case 14: what is logged at a step is what the update used", function()
    local logged, moved, before = {}, {}, 0
    local spec = optlua.spec {
      name = "logged",
      config = { epochs = 1, batch_size = 1, optimizer = { class = "SGD", lr = 0.5 }, lr_scheduler = { class = "linear", to = 0 } },
      build_model = function() return nn.Linear(1, 1, { bias = false }) end,
      build_data = function() return data.tensors(optlua.ones(4, 1), optlua.ones(4, 1)) end,
      build_loss = function() return function(output, target) return (output * target):sum() end end,
      on_start = function(state) before = state.model.weight:item() end,
      on_step = function(state)
        local now = state.model.weight:item()
        moved[#moved + 1] = before - now
        before = now
        logged[#logged + 1] = state.lr_schedulers:get_last_lr()[1]
      end,
    }
    files.with_folder(function(folder)
      spec:run({}, { out = folder .. "/run" })
      local k = 0
      for line in io.lines(folder .. "/run/log.jsonl") do
        if not line:find '"event"' then
          k = k + 1
          assert.equal(logged[k], tonumber(line:match '"lr.default": ?([%d.e-]+)'))
        end
      end
      assert.equal(4, k)
    end)
    for k, lr in ipairs { 0.5, 0.375, 0.25, 0.125 } do
      assert.equal(lr, logged[k])
      assert.near(lr, moved[k], 1e-6)
    end
  end)
end)

describe("groups:", function()
  it("case 15: the same tensor twice is an error, in a list, in groups, and as two views", function()
    local x = parameter({ 0 }, 1)
    fails("are the same tensor", optim.SGD, { x, x }, { lr = 0.1 })
    fails("'a' and 'b'", optim.SGD, { { "a", x }, { "b", x } }, { lr = 0.1 })
    fails("x", optim.SGD, { { name = "one", params = { { "x", x } } }, { name = "two", params = { { "x2", x } } } })
    local base = optlua.zeros(4)
    local left, right = base:narrow(1, 1, 3), base:narrow(1, 2, 3)
    left.requires_grad, right.requires_grad = true, true
    fails("memory", optim.SGD, { left, right }, { lr = 0.1 })
    assert.equal(0, x[1]:item())
  end)

  it("case 16: a tied weight in two modules decays once", function()
    local Tied = nn.class "Tied"
    function Tied:init()
      self.a = nn.Linear(1, 1, { bias = false, dtype = "float64" })
      self.b = nn.Linear(1, 1, { bias = false, dtype = "float64" })
      self.b.weight = self.a.weight
    end
    for _, build in ipairs { optim.AdamW, function(model, options) return optim.container(model, optim.AdamW, options) end } do
      local model = Tied()
      optlua.no_grad(function() model.a.weight:fill_(1) end)
      model.a.weight.grad = optlua.zeros({ 1, 1 }, { dtype = "float64" })
      build(model, { lr = 0.1, weight_decay = 0.1 }):step()
      assert.near(0.99, model.b.weight:item(), 1e-15)
    end
  end)

  it("case 17: a state is matched by name, whatever the order; other names are refused", function()
    local function make(first, second, names)
      local a, b = parameter({ 1 }, first), parameter({ 1 }, second)
      return optim.Adam(names == "b, a" and { { "b", b }, { "a", a } } or { { "a", a }, { names or "b", b } }, { lr = 0.1 }), a, b
    end
    local first = make(1, -5)
    first:step()
    local straight, a, b = make(1, -5)
    local swapped, x, y = make(1, -5, "b, a")
    straight:load_state_dict(first:state_dict())
    swapped:load_state_dict(first:state_dict())
    straight:step()
    swapped:step()
    assert.same({ a:item(), b:item() }, { x:item(), y:item() })
    local other = make(1, -5, "c")
    fails("state.c", other.load_state_dict, other, first:state_dict())
  end)

  it("case 18: parameters in no order are refused", function()
    local model = nn.Linear(2, 2)
    fails("no order", optim.SGD, pairs(model:state_dict()), { lr = 0.1 })
    fails("no order", optim.SGD, { weight = model.weight, bias = model.bias }, { lr = 0.1 })
  end)

  it("case 19: no parameters, and empty groups, save and load", function()
    local empty = optim.AdamW({}, { lr = 0.1 })
    empty:step()
    local again = optim.AdamW({}, { lr = 0.2 })
    again:load_state_dict(empty:state_dict())
    assert.equal(0.1, again.groups[1].lr)
    local p = parameter({ 1 }, 1)
    local function build()
      return optim.SGD({ { name = "none", params = {} }, { name = "all", params = { { "p", p } } } }, { lr = 0.1, momentum = 0.9 })
    end
    local optimizer = build()
    optimizer:step()
    build():load_state_dict(optimizer:state_dict())
  end)

  it("case 20: roles keep norms and biases from the decaying group, each name once", function()
    local Net = nn.class "Net"
    function Net:init()
      self.a = nn.Linear(2, 2)
      self.ln = nn.LayerNorm(2)
    end
    local optimizer = optim.container(Net(), {
      { name = "no_decay", match = { role = { "bias", "norm" } }, class = optim.AdamW, weight_decay = 0 },
      { name = "decay", match = "*", class = optim.AdamW, weight_decay = 0.1 },
    })
    assert.same({ "a.bias", "ln.weight", "ln.bias" }, { table.unpack(optimizer.groups.no_decay.names) })
    assert.same({ "a.weight" }, { table.unpack(optimizer.groups.decay.names) })
  end)

  it("case 21: a pattern that catches fewer than it means to fails by name; the plan shows where the others are", function()
    local model = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2), nn.LayerNorm(2) }
    local function make(pattern, expect)
      return optim.container(model, {
        { name = "weights", match = pattern, class = "AdamW", expect = expect }, { name = "rest", match = "*", class = "SGD" },
      })
    end
    fails("group 'weights': expect = 4, but it takes 3: 0.weight, 1.weight, 2.weight", make, { type = "Linear", pattern = "weight$" }, 4)
    fails("expect = 2, but it takes 4", make, "*.weight", 2)
    fails("expect = 0, but it takes 4", make, "*.weight", 0)
    assert.matches("group weights: AdamW.*3.weight.*group rest: SGD.*3.bias", make("*.weight", 4):plan())
    for _, bad in ipairs { 1.5, "four", -1 } do fails("expect", make, "*.weight", bad) end
  end)

  it("case 22: misspelt and out-of-range hyperparameters in a group are errors, as at construction", function()
    local model = nn.Linear(2, 2)
    local function group(options)
      options.name, options.match, options.class = "all", "*", optim.AdamW
      return function() optim.container(model, { options }) end
    end
    fails('"wieght_decay" %(did you mean "weight_decay"', group { wieght_decay = 0.1 })
    for _, bad in ipairs { { betas = { 1, 0 } }, { betas = { 0.9, 1.1 } }, { lr = "1" }, { lr = -1 }, { weight_decay = -1 }, { eps = -1 }, { lr = 0 / 0 }, { betas = { 0.9 } } } do
      local name = next(bad)
      fails(name, group { [name] = bad[name] })
      fails(name, optim.AdamW, model, { [name] = bad[name] })
    end
  end)
end)

describe("optimizers and clipping:", function()
  it("case 23: 100 gradients of 1e20 are clipped to .1 each; infinity is an error", function()
    local p = optlua.zeros({ 100 }, { requires_grad = true })
    p.grad = optlua.full({ 100 }, 1e20)
    assert.near(1e21, nn.utils.clip_grad_norm_({ p }, 1), 1e14)
    for _, g in ipairs(p.grad:totable()) do assert.near(0.1, g, 1e-6) end
    p.grad = optlua.tensor { math.huge, 1 }:tile { 50 }
    local before = p.grad:totable()
    fails("not finite", nn.utils.clip_grad_norm_, { p }, 1)
    assert.same(before, p.grad:totable())
    local model = nn.Linear(2, 2, { bias = false })
    model.weight.grad = optlua.full({ 2, 2 }, math.huge)
    local weight = model.weight:totable()
    local optimizer = optim.container(model, optim.SGD, { lr = 1, max_norm = 1 })
    fails("weight", optimizer.step, optimizer)
    assert.same(weight, model.weight:totable())
  end)

  it("case 24: a negative limit is an error; an infinite one only measures", function()
    local p = parameter({ 3, 4 })
    p.grad = optlua.tensor({ 3, 4 }, { dtype = "float64" })
    fails("max_norm", nn.utils.clip_grad_norm_, { p }, -1)
    fails("max_norm", nn.utils.clip_grad_norm_, { p }, 0 / 0)
    assert.equal(5, nn.utils.clip_grad_norm_({ p }, math.huge))
    assert.same({ 3, 4 }, p.grad:totable())
  end)

  it("case 25: the ∞-norm of nothing is 0", function()
    assert.equal(0, nn.utils.clip_grad_norm_({}, 1, { norm_type = math.huge }))
    local p = optlua.zeros({ 0 }, { requires_grad = true })
    p.grad = optlua.zeros { 0 }
    assert.equal(0, nn.utils.clip_grad_norm_({ p }, 1, { norm_type = math.huge }))
    assert.equal(0, nn.utils.clip_grad_norm_({ p }, 1))
    assert.equal(0, optlua.zeros({ 0 }):norm():item())
  end)

  it("case 26: sizes 1, 0, 1, 0, and a 0-dimensional parameter with momentum", function()
    local list = {}
    for k, n in ipairs { 1, 0, 1, 0 } do
      list[k] = optlua.ones({ n }, { requires_grad = true })
      list[k].grad = optlua.ones { n }
    end
    optim.SGD(list, { lr = 0.5 }):step()
    assert.same({ 0.5, 0.5 }, { list[1][1]:item(), list[3][1]:item() })
    local p = parameter(1, 1)
    local optimizer = optim.SGD({ p }, { lr = 0.1, momentum = 0.9 })
    optimizer:step()
    optimizer:step()
    assert.near(1 - 0.1 - 0.19, p:item(), 1e-15)
  end)

  it("case 27: a strided gradient updates as its contiguous copy does", function()
    local wide = optlua.randn { 4, 6 }
    local views = { wide:t(), wide:narrow(2, 2, 3), wide:select(1, 2), optlua.ones({ 1 }):expand { 5 } }
    for _, gradient in ipairs(views) do
      local function run(g)
        local p = optlua.ones(g.shape, { requires_grad = true })
        p.grad = g
        optim.AdamW({ p }, { lr = 0.1 }):step()
        return p:totable()
      end
      assert.same(run(gradient:contiguous()), run(gradient))
    end
  end)

  it("case 30: decay without a gradient's push; an absent gradient changes nothing", function()
    for _, class in ipairs { optim.SGD, optim.AdamW } do
      local p = parameter({ 1 }, 0)
      local optimizer = class({ p }, { lr = 0.1, weight_decay = 0.1 })
      optimizer:step()
      assert.near(0.99, p:item(), 1e-15)
      optimizer:zero_grad()
      local before = p:item()
      optimizer:step()
      assert.equal(before, p:item())
    end
  end)

  it("case 31: Adam's first step, and no 0/0", function()
    local p = parameter({ 1 }, 1e-3)
    optim.Adam({ p }, { lr = 1e-3 }):step()
    assert.near(0.9990000099999, p:item(), 1e-13)
    local still = parameter({ 1 }, 0)
    optim.Adam({ still }, { lr = 1e-3 }):step()
    assert.equal(1, still:item())
  end)
end)

describe("losses and layers:", function()
  it("case 33: every target ignored gives 0 and a zero gradient", function()
    local logits = optlua.randn({ 3, 4 }, { requires_grad = true })
    local loss = functional.cross_entropy(logits, ids { -100, -100, -100 })
    assert.equal(0, loss:item())
    loss:backward()
    assert.equal(0, logits.grad:abs():max():item())
    local none = optlua.zeros({ 0, 4 }, { requires_grad = true })
    assert.equal(0, functional.cross_entropy(none, optlua.zeros({ 0 }, { dtype = "int64" })):item())
  end)

  it("case 34: label smoothing leaves ignored rows out", function()
    local logits = optlua.tensor({ { 1, 2, 3 }, { 5, 0, 0 } }, { dtype = "float64" })
    local loss = functional.cross_entropy(logits, ids { 2, -100 }, { label_smoothing = 0.2 })
    assert.near(0.6076059644, loss:item(), 1e-10)
  end)

  it("case 35: a target or an id that does not exist is an error with its position", function()
    fails("target 3 at position %(2%)", functional.cross_entropy, optlua.zeros(2, 3), ids { 0, 3 })
    fails("target %-1 at position %(1%)", functional.cross_entropy, optlua.zeros(2, 3), ids { -1, 0 })
    fails('target is float32 of shape %(2%); class labels are int64 %(target:to%("int64"%)%) of shape %(2%), '
      .. "probabilities have the input's shape %(2, 3%)", functional.cross_entropy, optlua.zeros(2, 3), optlua.zeros(2))
    fails("probabilities of dtype float64 for an input of dtype float32", functional.cross_entropy, optlua.zeros(2, 3),
      optlua.zeros({ 2, 3 }, { dtype = "float64" }))
    fails('labels are int64 %(target:to%("int64"%)%)', functional.nll_loss, optlua.zeros(2, 3), optlua.zeros(2))
    local table10 = nn.Embedding(10, 2)
    fails("10 at position %(2%)", table10, ids { 0, 10 })
    fails("%-1 at position %(1%)", table10, ids { -1 })
  end)

  it("case 36: layer norm of large close values", function()
    local out = functional.layer_norm(optlua.tensor { 40000, 40001, 40002, 40003 }, { 4 }):totable()
    for k, x in ipairs { -1.34163542, -0.44721181, 0.44721181, 1.34163542 } do assert.near(x, out[k], 1e-6) end
  end)

  it("case 38: dropout at p = 1 and p = 0, and of infinity", function()
    local x = optlua.ones({ 100 }, { requires_grad = true })
    local out = functional.dropout(x, 1)
    out:sum():backward()
    assert.same({ 0, 0 }, { out:sum():item(), x.grad:abs():sum():item() })
    assert.is_true(functional.dropout(x, 0):equal(x:detach()))
    local infinite = optlua.full({ 1000 }, math.huge)
    for _, value in ipairs(functional.dropout(infinite, 0.5):totable()) do
      assert.is_true(value == 0 or value == math.huge)
    end
  end)

  it("case 39: an embedding's padding row gets no gradient", function()
    local layer = nn.Embedding(3, 1, { padding_idx = 0 })
    layer(ids { 0, 1, 0, 2 }):sum():backward()
    assert.same({ { 0 }, { 1 }, { 1 } }, layer.weight.grad:totable())
  end)

  it("case 40: sizes that overflow are an error about size", function()
    for _, shape in ipairs { { 2, 2, 1, 1 << 61 }, { 1 << 62, 4 }, { 1 << 31, 1 << 31, 8 } } do
      fails("size", optlua.zeros, shape)
      fails("size", optlua.empty, shape)
    end
    fails("size", function() return optlua.zeros(1, 1):expand(1 << 31, 1 << 31):clone() end)
  end)

  it("case 41: softmax of large values is finite, and of a row of -inf NaN", function()
    local out = optlua.tensor({ 1e4, 1e4 + 1 }):softmax(1)
    assert.near(0.26894142, out[1]:item(), 1e-6)
    assert.near(1, out:sum():item(), 1e-6)
    for _, x in ipairs(optlua.full({ 3 }, -math.huge):softmax(1):totable()) do assert.is_true(x ~= x) end
    assert.is_true(optlua.tensor({ 1e4, 1e4 + 1 }):log_softmax(1):isfinite():all():item() == 1)
  end)
end)

describe("Lua:", function()
  it("case 50: a closure in what is saved is refused by name", function()
    local function closure() end
    fails("optlua.save: f: .*got function", optlua.save, "/nowhere", { x = optlua.ones(1), f = closure })
    fails("optlua.save: a.f: .*got function", optlua.save, "/nowhere", { a = { f = closure } })
    fails("metadata.*f = function", optlua.save, "/nowhere", { x = optlua.ones(1) }, { f = closure })
    local state = {}
    local own = { step = closure, zero_grad = closure, load_state_dict = closure, state_dict = function() return state end }
    local optimizer = optim.container(nn.Linear(1, 1), optim.wrapper { name = "Own", build = function() return own end })
    state.inner = { { f = closure } }
    fails("member.default.inner.1.f is a function, which cannot be saved", optimizer.state_dict, optimizer)
    state.inner = { [closure] = 1 }
    fails("member.default.inner has a function for a key", optimizer.state_dict, optimizer)
    state.inner = coroutine.create(closure)
    fails("member.default.inner is a thread", optimizer.state_dict, optimizer)
    state.inner = state
    fails("member.default.inner contains itself", optimizer.state_dict, optimizer)
    state.inner = { 1, true, "word", optlua.ones(1), { x = 2 } }
    assert.equal(state, optimizer:state_dict()["member.default"])
    local schedule_with = { memory = { f = closure }, at = function() return 1 end }
    local scheduler = optim.lr_scheduler(optim.SGD(nn.Linear(1, 1)), schedule_with)
    fails("default.lr: memory.f is a function, which cannot be saved", scheduler.state_dict, scheduler)
  end)

  it("case 49: 10,000 dropped tensors of 10,000 doubles stay bounded", function()
    local live = require("optlua.core").hidden.memory
    local most = 0
    for _ = 1, 10000 do
      optlua.zeros({ 10000 }, { dtype = "float64" })
      most = math.max(most, live().live_bytes)
    end
    assert.is_true(most < 64 * 2 ^ 20, ("%d MiB"):format(most // 2 ^ 20))
  end)
end)
