-- Every schedule, resumed after each update: the rates that follow are those of the run that went on, bit for bit.
local optlua = require "optlua"
local optim, schedule = optlua.optim, optlua.schedule

local UPDATES = 24

-- Arguments that make something happen within so many updates, by the name of the schedule.
local samples = {
  ChainedScheduler = function() return { schedulers = { schedule.StepLR { step_size = 5 }, schedule.ExponentialLR { gamma = 0.9 } } } end,
  ConstantLR = { total_iters = 7 },
  CosineAnnealingLR = { T_max = 9, eta_min = 0.01 },
  CosineAnnealingWarmRestarts = { T_0 = 3, T_mult = 2, eta_min = 0.01 },
  CyclicLR = { base_lr = 0.01, max_lr = 0.1, step_size_up = 4, mode = "triangular2" },
  ExponentialLR = { gamma = 0.9 },
  LambdaLR = { lr_lambda = function(t) return 1 / (1 + 0.3 * t) end },
  LinearLR = { total_iters = 10 },
  MultiplicativeLR = { lr_lambda = function(t) return 1 - 1 / (10 + t) end },
  MultiStepLR = { milestones = { 3, 11 } },
  OneCycleLR = { max_lr = 0.3, total_steps = 20 },
  PolynomialLR = { total_iters = 15, power = 2 },
  ReduceLROnPlateau = { patience = 2, cooldown = 1 },
  SequentialLR = function()
    return { schedulers = { schedule.LinearLR { total_iters = 4 }, schedule.ExponentialLR { gamma = 0.8 } }, milestones = { 6 } }
  end,
  StepLR = { step_size = 5 },
  SWALR = { swa_lr = 0.05 },
  constant = { factor = 0.5 },
  cosine = { to = 0.1, steps = 15 },
  exponential = { to = 0.1, steps = 15 },
  inverse_sqrt = { warmup_steps = 4 },
  inverse_time = { decay = 0.1 },
  lambda = { fn = function(t) return 0.5 ^ t end },
  linear = { to = 0.1, steps = 15 },
  polynomial = { power = 2, steps = 15 },
  warmup = { steps = 6 },
  warmup_stable_decay = { warmup_steps = 3, total_steps = 20, decay_ratio = 0.5, decay_type = "sqrt" },
}

local function build(name)
  local args = samples[name]
  return schedule.resolve(name)(type(args) == "function" and args() or args)
end

--- A parameter, its optimizer and its scheduler; what is loaded stands in `saved`, in the order asked for.
local function start(make, opts, saved, scheduler_first, momentum)
  local p = optlua.tensor({ 0 }, { dtype = "float64", requires_grad = true })
  p.grad = optlua.ones({ 1 }, { dtype = "float64" })
  local optimizer = optim.SGD({ p }, { lr = saved and 123 or 0.4, momentum = momentum or 0.5 })
  if saved and scheduler_first == "before" then optimizer:load_state_dict(saved.optimizer) end
  local scheduler = optim.lr_scheduler(optimizer, make(), opts)
  if saved and scheduler_first == true then scheduler:load_state_dict(saved.scheduler) end
  if saved and scheduler_first ~= "before" then optimizer:load_state_dict(saved.optimizer) end
  if saved and scheduler_first ~= true then scheduler:load_state_dict(saved.scheduler) end
  return { optimizer = optimizer, scheduler = scheduler }
end

-- A metric that falls, then stays, then falls.
local function metric(update) return math.max(1 / update, update < 15 and 0.2 or 0.1) end

--- The rate and the momentum that the next update uses; an epoch is two updates.
local function advance(run, update)
  run.optimizer:step()
  local group = run.optimizer.groups.default
  if update % 2 == 0 then run.scheduler:step(metric(update)) end
  return { group.lr, group.momentum }
end

local function check(make, opts, momentum)
  local run, want, saves = start(make, opts, nil, nil, momentum), {}, {}
  for update = 1, UPDATES do
    saves[update] = { optimizer = run.optimizer:state_dict(), scheduler = run.scheduler:state_dict() }
    want[update] = advance(run, update)
  end
  for from = 1, UPDATES do
    for _, order in ipairs { true, false, "before" } do
      local again = start(make, opts, saves[from], order, momentum)
      for update = from, UPDATES do
        local got = advance(again, update)
        if got[1] ~= want[update][1] or got[2] ~= want[update][2] then
          assert.same(want[update], got, ("update %d, resumed at %d"):format(update, from))
        end
      end
    end
  end
end

describe("resumed after every update, in either order of loading,", function()
  local seen = {}
  for _, name in ipairs(schedule.list()) do
    local constructor = schedule.resolve(name)
    if not seen[constructor.args] or samples[name] then
      seen[constructor.args] = true
      it(name .. " goes on as if nothing had been", function()
        assert(samples[name], "this specification needs arguments for " .. name)
        check(function() return build(name) end)
      end)

      it(name .. " does so counting epochs", function() check(function() return build(name) end, { interval = "epoch" }) end)
    end
  end

  it("so does a momentum that only the schedule switches on", function()
    for _, name in ipairs { "OneCycleLR", "CyclicLR" } do check(function() return build(name) end, {}, 0) end
  end)

  it("so does a schedule that began anew", function()
    local function linear(to) return function() return schedule.linear { to = to, steps = 8 } end end
    local old = start(linear(0), {})
    for update = 1, 4 do advance(old, update) end
    local function rebased()
      local run = start(linear(0.5), {})
      run.optimizer:load_state_dict(old.optimizer:state_dict())
      run.scheduler:load_state_dict(old.scheduler:state_dict(), { resume = "rebase" })
      return run
    end
    local straight, stopped = rebased(), rebased()
    for update = 5, 6 do assert.same(advance(straight, update), advance(stopped, update)) end
    local again = start(linear(0.5), {}, { optimizer = stopped.optimizer:state_dict(), scheduler = stopped.scheduler:state_dict() }, true)
    for update = 7, 12 do assert.same(advance(straight, update), advance(again, update)) end
  end)

  it("so do combinations, values and plain functions", function()
    check(function() return schedule.warmup { steps = 3 }:for_steps(3):next(schedule.cosine { steps = 9, to = 0.2 }) end)
    check(function() return schedule.warmup { steps = 3 } * schedule.inverse_time { decay = 0.1 } end)
    check(function() return (schedule.linear { to = 0, steps = 9 }):clamp(0.2) end)
    check(function() return schedule.value(function(t) return 0.3 / (1 + t) end) end)
    check(function() return function(t) return 0.9 ^ t end end)
  end)
end)
