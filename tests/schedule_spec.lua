-- Schedules: PyTorch's numbers, the cases of other systems, composition, bad arguments.
local optlua = require "optlua"
local schedule = optlua.schedule

local fails = require("fails").matching

-- PyTorch's numbers: lines of constructor, hyperparameter, base, values.
local function golden()
  local lines = {}
  for line in io.lines "tests/golden/schedules.txt" do
    if line:sub(1, 1) ~= "#" then
      local fields = {}
      for field in line:gmatch "[^\t]+" do fields[#fields + 1] = field end
      lines[#lines + 1] = fields
    end
  end
  return lines
end

local function build(text) return assert(load("return " .. text, "=golden", "t", { schedule = schedule }))() end

local function values(s, count, base)
  local list = {}
  for updates = 0, count - 1 do list[updates + 1] = s:value(updates, base or 1) end
  return list
end

local function near(want, got, tolerance)
  assert.equal(#want, #got)
  for k, x in ipairs(want) do assert.near(x, got[k], tolerance or 1e-12) end
end

describe("PyTorch's schedules over 200 steps:", function()
  for _, fields in ipairs(golden()) do
    it(fields[1] .. ", " .. fields[2], function()
      local s, base, want = build(fields[1]), tonumber(fields[3]), {}
      if fields[2] ~= "lr" then s = s.others[fields[2]] end
      for k = 4, #fields do want[#want + 1] = tonumber(fields[k]) end
      assert.equal(200, #want)
      near(want, values(s, 200, base), 1e-12 * base)
    end)
  end

  it("have names in snake_case too", function()
    for _, name in ipairs { "StepLR", "CosineAnnealingWarmRestarts", "OneCycleLR", "ReduceLROnPlateau", "SWALR" } do
      local snake = name:gsub("LROn", "_lr_on_"):gsub("LR$", "_lr"):gsub("(%l)(%u)", "%1_%2"):lower():gsub("__", "_")
      assert.equal(schedule.resolve(name).args, schedule.resolve(snake).args)
    end
  end)
end)

describe("SWALR", function()
  it("goes on from where the schedule before it ends, as in PyTorch", function()
    local want = { 1, 0.975528258148, 0.904508497187, 0.793892626146, 0.654508497187, 0.5, 0.3875, 0.1625, 0.05, 0.05 }
    local before, after = schedule.CosineAnnealingLR { T_max = 10 }, schedule.SWALR { swa_lr = 0.05, anneal_epochs = 3 }
    near(want, values(before:for_steps(5):next(after), 10, 1), 1e-12)
    near(want, values(schedule.SequentialLR { schedulers = { before, after }, milestones = { 5 } }, 10, 1), 1e-12)
  end)
end)

describe("a schedule gives the right numbers where others did not:", function()
  it("cosine, resumed by nothing but the count (case 1)", function()
    local s = schedule.CosineAnnealingLR { T_max = 100 }
    assert.near(.000578217232520, s:value(45, 1e-3), 1e-15)
    assert.near(.000562666616782, s:value(46, 1e-3), 1e-15)
  end)

  it("cosine past its end (case 2)", function()
    near({ .5, .452254249, .327254249, .172745751, .047745751, 0, .047745751 },
      values(schedule.CosineAnnealingLR { T_max = 5 }, 7, .5), 1e-9)
  end)

  it("multistep (case 3)", function()
    near({ .2, .2, .02, .02, .02, .02, .02, .02, .002, .002 },
      values(schedule.MultiStepLR { milestones = { 2, 8 } }, 10, .2))
  end)

  it("constant, then exponential, from its own update 0 (case 4)", function()
    local s = schedule.ConstantLR { factor = .1, total_iters = 100 }:for_steps(3):next(schedule.ExponentialLR { gamma = .9 })
    near({ .1, .1, .1, 1, .9, .81 }, values(s, 6))
  end)

  it("warm restarts (case 5)", function()
    near({ .5, .5, .25, .5, .426777, .25, .073223, .5, .480970 },
      values(schedule.CosineAnnealingWarmRestarts { T_0 = 1, T_mult = 2 }, 9, .5), 1e-6)
  end)

  it("a plateau, with and without cooldown (case 6)", function()
    local function run(cooldown)
      local s, list = schedule.ReduceLROnPlateau { patience = 2, cooldown = cooldown }, {}
      for k = 1, 10 do
        s.advance(1.0)
        list[k] = s:value(0, .1)
      end
      return list
    end
    near({ .1, .1, .1, .01, .01, .01, .001, .001, .001, 1e-4 }, run(0))
    near({ .1, .1, .1, .01, .01, .01, .01, .001 }, { table.unpack(run(1), 1, 8) })
  end)

  it("warm-up (case 9)", function() near({ .25, .5, .75, 1, 1 }, values(schedule.warmup { steps = 4 }, 5)) end)

  it("one cycle (case 11)", function()
    near({ .004, .052, .1, .0950485, .0811746, .0611262, .0388742, .0188258, .00495194, 4e-7 },
      values(schedule.OneCycleLR { max_lr = .1, total_steps = 10 }, 10), 1e-7)
  end)

  it("warm-up, no stable phase, decay: a virtual last step (case 12)", function()
    local s = schedule.warmup_stable_decay { warmup_steps = 2, total_steps = 10 }
    near({ 1 / 2, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8, 0, 0 }, values(s, 12))
    local low = schedule.warmup_stable_decay { warmup_steps = 2, total_steps = 10, min_lr_factor = .5 }
    near({ 1 / 2, 1, 1, 15 / 16 }, values(low, 4))
    for _, updates in ipairs { 10, 11, 1000 } do assert.equal(.5, low:at(updates)) end
  end)

  it("inverse time (case 13)", function()
    near({ .1, .0990099, .0980392, .0970874 }, values(schedule.inverse_time { decay = .01 }, 4, .1), 1e-7)
  end)

  it("a drift is impossible: 100,000 updates of cosine are those of the closed form", function()
    local s = schedule.CosineAnnealingLR { T_max = 100000 }
    assert.equal((1 + math.cos(math.pi * 99999 / 100000)) / 2, s:at(99999))
  end)
end)

describe("the three forms of decay", function()
  local function at(decay_type, updates)
    return schedule.warmup_stable_decay { total_steps = 100, decay_ratio = .5, decay_type = decay_type }:at(updates)
  end

  it("are stable first, then fall", function()
    for _, decay_type in ipairs { "linear", "sqrt", "cosine" } do
      assert.equal(1, at(decay_type, 50))
      assert.equal(0, at(decay_type, 100))
    end
    assert.near(.5, at("linear", 75), 1e-15)
    assert.near(1 - math.sqrt(.5), at("sqrt", 75), 1e-15)
    assert.near(.5, at("cosine", 75), 1e-15)
  end)
end)

describe("the short schedules", function()
  it("go from a factor to a factor and stay there", function()
    near({ 1, .75, .5, .5 }, values(schedule.linear { to = .5, steps = 2 }, 4))
    near({ 1, .5, 0, 0 }, values(schedule.cosine { steps = 2 }, 4))
    near({ 1, .1, .01, .01 }, values(schedule.exponential { to = .01, steps = 2 }, 4))
    near({ 1, .25, 0, 0 }, values(schedule.polynomial { power = 2, steps = 2 }, 4))
    near({ .25, .5, .75, 1, math.sqrt(4 / 5) }, values(schedule.inverse_sqrt { warmup_steps = 4 }, 5))
    near({ .3, .3 }, values(schedule.constant { factor = .3 }, 2))
  end)
end)

describe("schedules combine:", function()
  local a, b = schedule.linear { to = 0, steps = 4 }, schedule.constant { factor = .5 }

  it("factors by *", function()
    near({ .5, .375, .25 }, values(a * b, 3))
    near({ 2, 1.5, 1 }, values(2 * a, 3))
    near({ 1, 1 }, values(b * function(updates) return 2 end, 2))
  end)

  it("a factor and a value to a value, but not two values", function()
    local v = schedule.value(function(updates) return 10 + updates end)
    near({ 5, 5.5 }, values(b * v, 2, 1000))
    fails("schedule %*: both give values", function() return v * v end)
  end)

  it("one after another, also a factor and a value", function()
    near({ 1, .75, .5, .5 }, values(a:for_steps(2):next(b), 4))
    near({ 2, 1.5, 7, 7 }, values(a:for_steps(2):next(schedule.value(function() return 7 end)), 4, 2))
    near({ 1, .75, .75 }, values(a:for_steps(1), 3))
    fails("has no end; say :for_steps", function() return a:next(b) end)
  end)

  it("within bounds", function()
    near({ .8, .75, .5, .4, .4 }, values(a:clamp(.4, .8), 5))
    fails("low 2 is above high 1", function() return a:clamp(2, 1) end)
  end)
end)

describe("bad arguments are errors at construction:", function()
  for name, case in pairs {
    ["T_max 0"] = { "T_max: expected an integer at least 1, got 0", function() schedule.CosineAnnealingLR { T_max = 0 } end },
    ["the optimizer first"] = { "does not take the optimizer: optim.lr_scheduler.optimizer, schedule.StepLR",
      function() schedule.StepLR(require("optlua").optim.SGD {}, 30, 0.1) end },
    ["step_size 0"] = { "step_size: expected", function() schedule.StepLR { step_size = 0 } end },
    ["decay of 0 steps"] = { "steps: expected an integer at least 1", function() schedule.linear { to = 0, steps = 0 } end },
    ["factor to 0"] = { "to: expected a number above 0", function() schedule.exponential { to = 0, steps = 3 } end },
    ["a warm-up longer than the run"] = { "warmup_steps 20 is more than total_steps 10",
      function() schedule.warmup_stable_decay { warmup_steps = 20, total_steps = 10 } end },
    ["no room between warm-up and decay"] = { "are more than total_steps",
      function() schedule.warmup_stable_decay { warmup_steps = 6, total_steps = 10, decay_ratio = .5 } end },
    ["no total_steps"] = { "total_steps: is required", function() schedule.warmup_stable_decay {} end },
    ["one cycle without steps"] = { "total_steps, or epochs and steps_per_epoch", function() schedule.OneCycleLR { max_lr = 1 } end },
    ["one cycle of one step"] = { "leaves nothing", function() schedule.OneCycleLR { max_lr = 1, total_steps = 1 } end },
    ["a misspelt argument"] = { "unknown option .gama..*gamma", function() schedule.StepLR { step_size = 3, gama = 1 } end },
    ["milestones that do not fit"] = { "2 schedulers need 1 milestones, got 2",
      function() schedule.SequentialLR { schedulers = { schedule.warmup { steps = 1 }, print }, milestones = { 1, 2 } } end },
    ["an unknown schedule"] = { "unknown schedule .cosin..*cosine", function() return schedule.cosin end },
  } do
    it(name, function() fails(case[1], case[2]) end)
  end
end)

describe("a registered schedule", function()
  it("checks its arguments, and is there by name", function()
    schedule.register("halving", { every = { default = 10, integer = true, min = 1 } },
      function(args) return function(updates) return .5 ^ (updates // args.every) end end)
    near({ 1, 1, .5, .5 }, values(schedule.halving { every = 2 }, 4))
    assert.equal(10, schedule.resolve("halving").args.every.default)
    fails("every: expected an integer at least 1, got 0", function() schedule.halving { every = 0 } end)
    fails("halving is already a registered schedule", function() schedule.register("halving", {}, print) end)
    local found
    for _, name in ipairs(schedule.list()) do found = found or name == "halving" end
    assert.is_true(found)
    schedule.unregister "halving"
    fails("unknown schedule", function() return schedule.halving end)
  end)
end)

describe("odd values", function()
  it("are no numbers of updates", function()
    local s = schedule.constant {}
    for _, bad in ipairs { -1, 1.5, 0 / 0, math.huge, "x", {} } do fails("schedule:at: updates: expected an integer", s.at, s, bad) end
    assert.equal(1, s:at(3.0))
    fails("steps: expected an integer at least 1 and at most 1000000", s.preview, s, { steps = 1e9 })
  end)

  it("are not registered, and give no schedule", function()
    fails("arguments have names, not 1", schedule.register, "odd", { 5 }, print)
    fails("is already a registered schedule", schedule.register, "linear", {}, print)
    fails("a word, not a b", schedule.register, "a b", {}, print)
    for _, result in ipairs { 5, "x", false } do
      schedule.register("odd", {}, function() return result end)
      fails("odd: what is registered returns a function or a schedule, not a " .. type(result), function() schedule.odd {} end)
      schedule.unregister "odd"
    end
  end)
end)

describe("a fingerprint", function()
  it("differs when the schedule does", function()
    local function print_of(steps) return schedule.linear({ to = 0, steps = steps }):fingerprint() end
    assert.same(print_of(100), print_of(100))
    assert.not_same(print_of(100), print_of(101))
  end)
end)

describe("a scheduler", function()
  local nn, optim = optlua.nn, optlua.optim

  local function make(class, opts)
    local model = nn.Linear(1, 1)
    local optimizer = class(model, opts)
    return optimizer, function()
      for _, p in model:named_parameters() do p.grad = optlua.ones_like(p:detach()) end
      optimizer:step()
    end
  end

  it("takes values that look at the base", function()
    local optimizer, step = make(optim.SGD, { lr = 0.4 })
    optim.lr_scheduler(optimizer, schedule.CosineAnnealingLR { T_max = 2, eta_min = 0.1 })
    for _, lr in ipairs { 0.4, 0.25, 0.1 } do
      step()
      assert.near(lr, optimizer.groups.default.lr, 1e-15)
    end
  end)

  it("moves the momentum that belongs to one cycle, of SGD and of Adam", function()
    local one = schedule.OneCycleLR { max_lr = 0.1, total_steps = 10 }
    local sgd, step = make(optim.SGD, { lr = 1, momentum = 0.5 })
    optim.lr_scheduler(sgd, one)
    for _ = 1, 3 do step() end
    assert.near(0.85, sgd.groups.default.momentum, 1e-15)
    local adam, adam_step = make(optim.AdamW, { betas = { 0.9, 0.99 } })
    optim.lr_scheduler(adam, one)
    adam_step()
    assert.same({ 0.95, 0.99 }, { table.unpack(adam.groups.default.betas) })
    fails("momentum belongs to this schedule", optim.lr_scheduler, make(optim.define {
      name = "Plain", hyper = { lr = 1 }, update = function(p, g, s, h) return p - h.lr * g end }, {}), one)
  end)

  it("moves one element of a list", function()
    local adam, step = make(optim.AdamW, {})
    local beta = optim.scheduler(adam, "betas[2]", schedule.value(function(updates) return 0.9 + updates / 100 end))
    step()
    step()
    assert.same({ 0.9, 0.91 }, { table.unpack(adam.groups.default.betas) })
    assert.same({ 0.91 }, beta:get_last_value())
    fails("betas has 2 elements", optim.scheduler, adam, "betas[3]", print)
    fails("lr is no list", optim.scheduler, adam, "lr[1]", print)
    optim.scheduler(adam, "betas[2]", schedule.value(function() return 1.5 end):clamp(0, 0.5))
    step()
    fails("betas", function() optim.scheduler(adam, "betas[2]", schedule.value(function() return 1.5 end)) end)
  end)

  it("counts epochs where it is told to", function()
    local optimizer, step = make(optim.SGD, { lr = 1 })
    local s = optim.lr_scheduler(optimizer, schedule.StepLR { step_size = 1, gamma = 0.5 }, { interval = "epoch" })
    for _, lr in ipairs { 1, 0.5, 0.25 } do
      step()
      step()
      assert.equal(lr, optimizer.groups.default.lr)
      s:step()
    end
    local again = make(optim.SGD, { lr = 1 })
    local t = optim.lr_scheduler(again, schedule.StepLR { step_size = 1, gamma = 0.5 }, { interval = "epoch" })
    t:load_state_dict(s:state_dict())
    assert.equal(0.125, again.groups.default.lr)
    fails('interval: expected one of "step", "epoch"', optim.lr_scheduler, optimizer, print, { interval = "week" })
  end)

  it("lowers on a plateau, and goes on after a load", function()
    local function plateau() return schedule.ReduceLROnPlateau { patience = 1, factor = 0.5 } end
    local optimizer, step = make(optim.SGD, { lr = 1 })
    local s = optim.lr_scheduler(optimizer, plateau())
    local function lr_after(metric)
      s:step(metric)
      step()
      return optimizer.groups.default.lr
    end
    assert.same({ 1, 1, 0.5, 0.5 }, { lr_after(3), lr_after(3), lr_after(3), lr_after(3) })
    local state = s:state_dict()
    local again = make(optim.SGD, { lr = 1 })
    local t = optim.lr_scheduler(again, plateau())
    assert.same({}, t:load_state_dict(state))
    t:step(3)
    assert.equal(0.25, again.groups.default.lr)
    fails("a number expected, got nil", function() s:step() end)
    fails("a number expected, got NaN", function() s:step(0 / 0) end)
  end)

  it("keeps what a plateau remembers, and the momentum of one cycle, in combinations", function()
    local function plateau() return schedule.ReduceLROnPlateau { patience = 0, factor = 0.5, threshold = 0 } end
    for name, combined in pairs {
      ["half"] = function() return 0.5 * plateau() end, ["product"] = function() return plateau() * function() return 0.5 end end,
      ["clamp"] = function() return plateau():clamp(0.1, 0.5) end,
      ["next"] = function() return schedule.constant { factor = 0.5 }:for_steps(0):next(plateau()) end,
      ["object"] = function()
        local inner = plateau()
        return { absolute = true, memory = inner.memory, advance = function(m) inner.advance(m) end,
          at = function(_, updates, base) return inner:at(updates, base) end }
      end,
    } do
      local optimizer = make(optim.SGD, { lr = 1 })
      local s = optim.lr_scheduler(optimizer, combined())
      for _ = 1, 3 do s:step(1) end
      assert.equal((name == "next" or name == "object" or name == "clamp") and 0.25 or 0.125, optimizer.groups.default.lr, name)
      assert.equal("min", s:mode())
      if name ~= "object" then
        local again = make(optim.SGD, { lr = 1 })
        optim.lr_scheduler(again, combined()):load_state_dict(s:state_dict())
        assert.equal(optimizer.groups.default.lr, again.groups.default.lr, name)
      end
    end
    fails("schedule:next: both wait for a metric", function() return plateau():for_steps(3):next(plateau()) end)
    local sgd, step = make(optim.SGD, { lr = 1, momentum = 0.5 })
    optim.lr_scheduler(sgd, 0.5 * schedule.OneCycleLR { max_lr = 0.1, total_steps = 10 }:for_steps(3):next(schedule.constant {}))
    step()
    near({ 0.002, 0.95 }, { sgd.groups.default.lr, sgd.groups.default.momentum })
    for _ = 1, 4 do step() end
    assert.equal(0.5, sgd.groups.default.momentum)
  end)

  it("may move a group called at", function()
    local optimizer = optim.SGD({ { name = "at", params = nn.Linear(1, 1) } }, { lr = 1 })
    optim.lr_scheduler(optimizer, { at = function(updates) return 1 / (2 + updates) end })
    assert.equal(0.5, optimizer.groups.at.lr)
  end)

  it("notices an edited schedule, and does as it is told", function()
    local function run(to)
      local optimizer, step = make(optim.SGD, { lr = 1 })
      return optim.lr_scheduler(optimizer, schedule.linear { to = to, steps = 10 }), optimizer, step
    end
    local s, _, step = run(0)
    for _ = 1, 5 do step() end
    local state = s:state_dict()
    assert.same({}, (run(0)):load_state_dict(state))
    local edited, optimizer = run(0.5)
    local differences = edited:load_state_dict(state)
    assert.equal(1, #differences)
    assert.matches("default.lr: another schedule.*update 1 has 0.95 now, and had 0.9", differences[1])
    optimizer._clock.updates = 5
    assert.equal(0.75, optimizer.groups.default.lr)
    edited:load_state_dict(state, { resume = "rebase" })
    assert.equal(1, optimizer.groups.default.lr)
    fails("another schedule", function() edited:load_state_dict(state, { resume = "error" }) end)
    fails("unknown entry", function() edited:load_state_dict { step = 1 } end)
    fails("steps %(an integer%)", function() edited:load_state_dict { steps = 1.5, schedules = {} } end)
  end)
end)
