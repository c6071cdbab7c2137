-- schedules: arguments with which each schedule of the registry makes something happen within so many updates.
local schedule = require("optlua").schedule

local schedules = { updates = 24 }

--- By the name of the schedule: a table, or a function that makes one.
schedules.samples = {
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

--- A schedule of the registry.
function schedules.build(name)
  local args = schedules.samples[name]
  return schedule.resolve(name)(type(args) == "function" and args() or args)
end

--- The names of schedules, each once however many it has.
function schedules.names()
  local names, seen = {}, {}
  for _, name in ipairs(schedule.list()) do
    local constructor = schedule.resolve(name)
    if not seen[constructor.args] or schedules.samples[name] then
      seen[constructor.args] = true
      names[#names + 1] = name
    end
  end
  return names
end

return schedules
