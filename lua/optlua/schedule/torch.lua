--- torch: PyTorch 2.13's schedulers (torch.optim.lr_scheduler), with its arguments, as functions of the count of updates.
--
-- Each is { name =, doc =, args =, make = } under PyTorch's name and one in snake_case. PyTorch computes most of them by
-- recursion; these are the closed forms. ReduceLROnPlateau, which needs to remember, is in plateau.lua.
local curve = require "optlua.schedule.curve"
local plateau = require "optlua.schedule.plateau"

local cos, pi, max, min = math.cos, math.pi, math.max, math.min

local iters = { default = 5, integer = true, min = 0, doc = "updates until the end" }
local size = { required = true, type = "integer", min = 1 }
local gamma = { default = 0.1, min = 0, doc = "factor at each step" }
local rate = { required = true, type = "number", min = 0 }
local eta_min = { default = 0.0, min = 0, doc = "the lowest value" }

-- Factors ------------------------------------------------------------------------------------------------

local function constant(args)
  return function(updates) return updates < args.total_iters and args.factor or 1.0 end
end

local function linear(args)
  local n = args.total_iters
  return function(updates)
    if updates >= n then return args.end_factor end
    return args.start_factor + (args.end_factor - args.start_factor) * (updates / n)
  end
end

local function polynomial(args)
  local n = args.total_iters
  return function(updates)
    if updates >= n then return n == 0 and 1.0 or 0.0 end
    return (1 - updates / n) ^ args.power
  end
end

local function multi_step(args)
  local milestones = table.move(args.milestones, 1, #args.milestones, 1, {})
  table.sort(milestones)
  return function(updates)
    local passed = 0
    while milestones[passed + 1] and milestones[passed + 1] <= updates do passed = passed + 1 end
    return args.gamma ^ passed
  end
end

-- The product of a function's values at 1 … updates, remembered as far as it was asked.
local function multiplicative(args)
  local products = { [0] = 1.0 }
  return function(updates)
    for k = #products + 1, updates do products[k] = products[k - 1] * args.lr_lambda(k) end
    return products[updates]
  end
end

local function chained(args, fail)
  local product
  for i, given in ipairs(args.schedulers) do
    local one = curve.of("schedule.ChainedScheduler", given)
    if one.absolute then fail(("schedulers[%d] gives values; factors can be chained"):format(i)) end
    product = product and product * one or one
  end
  return product or fail "schedulers: at least one is needed"
end

local function sequential(args, fail)
  local list, milestones = args.schedulers, args.milestones
  if #list == 0 then fail "schedulers: at least one is needed" end
  if #list ~= #milestones + 1 then
    fail(("%d schedulers need %d milestones, got %d"):format(#list, max(#list - 1, 0), #milestones))
  end
  local sequence
  for i = #list, 1, -1 do
    local one, start = curve.of("schedule.SequentialLR", list[i]), milestones[i - 1] or 0
    if milestones[i] then
      if milestones[i] < start then fail "milestones must not fall" end
      one = one:for_steps(milestones[i] - start):next(sequence)
    end
    sequence = one
  end
  return sequence
end

-- Values ---------------------------------------------------------------------------------------------------

local function absolute(name, fn, others) return curve.new(name, fn, { absolute = true, others = others }) end

-- A curve from the base down to a lowest value: a factor where that is 0.
local function from_base(name, lowest, part)
  if lowest == 0 then return curve.new(name, part) end
  return absolute(name, function(updates, base) return lowest + (base - lowest) * part(updates) end)
end

local function cosine_annealing(args)
  return from_base("CosineAnnealingLR", args.eta_min,
    function(updates) return (1 + cos(pi * updates / args.T_max)) / 2 end)
end

local function warm_restarts(args)
  return from_base("CosineAnnealingWarmRestarts", args.eta_min, function(updates)
    local period = args.T_0
    if args.T_mult == 1 then updates = updates % period end
    while updates >= period do updates, period = updates - period, period * args.T_mult end
    return (1 + cos(pi * updates / period)) / 2
  end)
end

local anneal = {
  cos = function(from, to, part) return to + (from - to) / 2 * (1 + cos(pi * part)) end,
  linear = function(from, to, part) return from + (to - from) * part end,
}

local function swa(args)
  local n = args.anneal_epochs
  return curve.new("SWALR", function(updates, base)
    local part = n == 0 and 1 or min(updates / n, 1)
    return anneal[args.anneal_strategy](base, args.swa_lr, part)
  end, { absolute = true, continues = true })
end

-- A curve through turning points { update, value }, each stretch annealed.
local function through(points, shape, last)
  return function(updates)
    updates = min(updates, last)
    for i = 2, #points do
      local from, to = points[i - 1], points[i]
      if updates <= to[1] or i == #points then
        return shape(from[2], to[2], (updates - from[1]) / (to[1] - from[1]))
      end
    end
  end
end

local function one_cycle_steps(args, fail)
  local n = args.total_steps
  if not n and args.epochs and args.steps_per_epoch then n = args.epochs * args.steps_per_epoch end
  if not n then fail "total_steps, or epochs and steps_per_epoch, are required" end
  local rise = args.pct_start * n - 1
  if rise <= 0 or rise >= n - 1 then
    fail(("pct_start %.14g of %d updates leaves nothing to rise or to fall"):format(args.pct_start, n))
  end
  if args.three_phase and 2 * args.pct_start * n - 2 >= n - 1 then fail "three_phase: pct_start must be below 0.5" end
  return n, rise
end

-- The curve that rises from low to high and comes back, ending at `final`.
local function cycle(args, n, rise, low, high, final)
  local points = { { 0, low }, { rise, high } }
  if args.three_phase then points[3] = { 2 * args.pct_start * n - 2, low } end
  points[#points + 1] = { n - 1, final }
  return through(points, anneal[args.anneal_strategy], n - 1)
end

local function one_cycle(args, fail)
  local n, rise = one_cycle_steps(args, fail)
  local low, others = args.max_lr / args.div_factor, nil
  if args.cycle_momentum then
    local high, base = args.max_momentum, args.base_momentum
    others = { momentum = absolute("OneCycleLR", cycle(args, n, rise, high, base, high)) }
  end
  return absolute("OneCycleLR", cycle(args, n, rise, low, args.max_lr, low / args.final_div_factor), others)
end

local scales = {
  triangular = function() return function() return 1.0 end, "cycle" end,
  triangular2 = function() return function(x) return 1 / 2.0 ^ (x - 1) end, "cycle" end,
  exp_range = function(args) return function(x) return args.gamma ^ x end, "iterations" end,
}

local function cyclic(args)
  local up, down = args.step_size_up, args.step_size_down or args.step_size_up
  local scale, mode = scales[args.mode](args)
  if args.scale_fn then scale, mode = args.scale_fn, args.scale_mode end
  local function height(updates)
    local turn, place = updates // (up + down), updates % (up + down)
    local part = place <= up and place / up or 1 - (place - up) / down
    return part * scale(mode == "cycle" and turn + 1 or updates)
  end
  local others
  if args.cycle_momentum then
    local low, high = args.base_momentum, args.max_momentum
    others = { momentum = absolute("CyclicLR", function(updates) return high - (high - low) * height(updates) end) }
  end
  return absolute("CyclicLR",
    function(updates) return args.base_lr + (args.max_lr - args.base_lr) * height(updates) end, others)
end

local function pass(name)
  return function(args) return curve.of("schedule." .. name, args.lr_lambda) end
end

local lambda = { required = true, type = "callable", doc = "the factor, of the number of updates" }
local list = { required = true, type = "list" }
local share = { min = 0, max = 1 }
local function momentum(default) return { default = default, min = share.min, max = share.max } end

return {
  { name = "LambdaLR lambda_lr",
    doc = "A function of the number of updates that returns the factor",
    args = { lr_lambda = lambda }, make = pass "LambdaLR" },
  { name = "MultiplicativeLR multiplicative_lr",
    doc = "The product of a function at 1, 2 … updates",
    args = { lr_lambda = lambda }, make = multiplicative },
  { name = "StepLR step_lr",
    doc = "gamma once more every step_size updates",
    args = { step_size = size, gamma = gamma },
    make = function(args) return function(updates) return args.gamma ^ (updates // args.step_size) end end },
  { name = "MultiStepLR multi_step_lr",
    doc = "gamma once more at each milestone",
    make = multi_step,
    args = { milestones = { required = true, type = "list", integer = true, min = 0 }, gamma = gamma } },
  { name = "ConstantLR constant_lr",
    doc = "A factor for total_iters updates, then 1",
    args = { factor = { default = 1 / 3, min = 0, max = 1 }, total_iters = iters }, make = constant },
  { name = "LinearLR linear_lr",
    doc = "A straight line from start_factor to end_factor over total_iters updates",
    make = linear, args = { start_factor = { default = 1 / 3, above = 0, max = 1 },
    end_factor = { default = 1.0, min = 0, max = 1 }, total_iters = iters } },
  { name = "ExponentialLR exponential_lr",
    doc = "gamma once more at each update",
    args = { gamma = { required = true, type = "number", min = 0 } },
    make = function(args) return function(updates) return args.gamma ^ updates end end },
  { name = "PolynomialLR polynomial_lr",
    doc = "A fall to 0 over total_iters updates, along a power of what is left",
    args = { total_iters = iters, power = { default = 1.0, min = 0 } }, make = polynomial },
  { name = "CosineAnnealingLR cosine_annealing_lr",
    doc = "Half a cosine from the base to eta_min over T_max updates, and back again",
    args = { T_max = size, eta_min = eta_min }, make = cosine_annealing },
  { name = "CosineAnnealingWarmRestarts cosine_annealing_warm_restarts",
    doc = "Half cosines from the base to eta_min, of T_0 updates, then each T_mult times as long (Loshchilov and Hutter, 2017)",
    make = warm_restarts,
    args = { T_0 = size, T_mult = { default = 1, integer = true, min = 1 }, eta_min = eta_min } },
  { name = "CyclicLR cyclic_lr",
    doc = "Up and down between base_lr and max_lr, momentum the other way (Smith, 2017)",
    make = cyclic, args = {
    base_lr = rate, max_lr = rate, step_size_up = { default = 2000, integer = true, min = 1 },
    step_size_down = { required = false, type = "integer", min = 1 },
    mode = { default = "triangular", choices = { "triangular", "triangular2", "exp_range" } }, gamma = { default = 1.0, min = 0 },
    scale_fn = { required = false, type = "callable" }, scale_mode = { default = "cycle", choices = { "cycle", "iterations" } },
    cycle_momentum = true, base_momentum = momentum(0.8), max_momentum = momentum(0.9),
  } },
  { name = "OneCycleLR one_cycle_lr",
    doc = "One rise to max_lr and a fall far below the beginning, momentum the other way (Smith and Topin, 2018)",
    make = one_cycle, args = {
    max_lr = { required = true, type = "number", above = 0 }, total_steps = { required = false, type = "integer", min = 1 },
    epochs = { required = false, type = "integer", min = 1 }, steps_per_epoch = { required = false, type = "integer", min = 1 },
    pct_start = { default = 0.3, min = 0, max = 1 }, anneal_strategy = { default = "cos", choices = { "cos", "linear" } },
    cycle_momentum = true, base_momentum = momentum(0.85), max_momentum = momentum(0.95),
    div_factor = { default = 25.0, above = 0 }, final_div_factor = { default = 1e4, above = 0 }, three_phase = false,
  } },
  { name = "SWALR swa_lr",
    doc = "From the base, or from where the schedule before it ends, to swa_lr, where it stays (Izmailov et al., 2018)",
    make = swa, args = { swa_lr = rate, anneal_epochs = { default = 10, integer = true, min = 0 },
    anneal_strategy = { default = "cos", choices = { "cos", "linear" } } } },
  { name = "SequentialLR sequential_lr",
    doc = "Schedules one after another, each from its own update 0",
    make = sequential,
    args = { schedulers = list, milestones = { required = true, type = "list", integer = true, min = 0 } } },
  { name = "ChainedScheduler chained_scheduler",
    doc = "The product of schedules",
    args = { schedulers = list }, make = chained },
  { name = "ReduceLROnPlateau reduce_lr_on_plateau",
    doc = "A factor once more when a metric, given to scheduler:step(metric), stops improving",
    args = plateau.args, make = plateau.make },
}
