--- short: the schedules of this library: factors on the base, in a few words. Each is { name =, doc =, args =, make = }.
local curve = require "optlua.schedule.curve"

local cos, pi, sqrt, max, min = math.cos, math.pi, math.sqrt, math.max, math.min

local steps = { required = true, type = "integer", min = 1, doc = "updates until the end" }
local from = { default = 1.0, min = 0, doc = "factor at the first update" }
local to = { default = 0.0, min = 0, doc = "factor at the end, and afterwards" }

--- The part of the way from 0 to 1 after some of n updates.
local function progress(updates, n) return min(updates / n, 1) end

local function straight(args)
  return function(updates) return args.from + (args.to - args.from) * progress(updates, args.steps) end
end

local function cosine(args)
  return function(updates)
    return args.to + (args.from - args.to) * (1 + cos(pi * progress(updates, args.steps))) / 2
  end
end

local function exponential(args)
  return function(updates) return args.from * (args.to / args.from) ^ progress(updates, args.steps) end
end

local function polynomial(args)
  return function(updates)
    return args.to + (args.from - args.to) * (1 - progress(updates, args.steps)) ^ args.power
  end
end

local function warmup(args)
  return function(updates) return args.from + (1 - args.from) * min((updates + 1) / args.steps, 1) end
end

-- What the decay leaves after a part of its way.
local decay = {
  linear = function(x) return 1 - x end,
  sqrt = function(x) return 1 - sqrt(x) end,
  cosine = function(x) return (1 + cos(pi * x)) / 2 end,
}

-- How many of the updates decay: all that the warm-up leaves, unless told otherwise.
local function decay_steps(args, fail)
  local left = args.total_steps - args.warmup_steps
  if left < 0 then
    fail(("warmup_steps %d is more than total_steps %d"):format(args.warmup_steps, args.total_steps))
  end
  local n = left
  if args.decay_ratio then n = math.floor(args.total_steps * args.decay_ratio + 0.5) end
  if n > left then
    fail(("warmup_steps %d and the %d updates of the decay are more than total_steps %d"):format(args.warmup_steps, n,
      args.total_steps))
  end
  return n
end

local function warmup_stable_decay(args, fail)
  local n, shape, low = decay_steps(args, fail), decay[args.decay_type], args.min_lr_factor
  local start = args.total_steps - n
  return function(updates)
    if updates < args.warmup_steps then return (updates + 1) / args.warmup_steps end
    if updates < start or n == 0 then return 1.0 end
    return low + (1 - low) * shape(progress(updates - start, n))
  end
end

local function inverse_sqrt(args)
  local n = max(args.warmup_steps, 1)
  return function(updates)
    if updates + 1 < n then return (updates + 1) / n end
    return sqrt(n / (updates + 1))
  end
end

local function inverse_time(args)
  return function(updates) return 1 / (1 + args.decay * updates) end
end

return {
  { name = "constant",
    doc = "The same factor at every update",
    args = { factor = { default = 1.0, min = 0 } },
    make = function(args) return function() return args.factor end end },
  { name = "linear",
    doc = "A straight line from a factor to a factor, which is kept afterwards",
    args = { from = from, to = { required = true, type = "number", min = 0 }, steps = steps },
    make = straight },
  { name = "cosine",
    doc = "Half a cosine from a factor to a factor, which is kept afterwards",
    args = { from = from, to = to, steps = steps }, make = cosine },
  { name = "exponential",
    doc = "From a factor to a factor by the same ratio at each update; the last is kept afterwards",
    make = exponential,
    args = { from = { default = 1.0, above = 0 }, to = { required = true, type = "number", above = 0 }, steps = steps } },
  { name = "polynomial",
    doc = "From a factor to a factor along a power of what is left; the last is kept afterwards",
    args = { from = from, to = to, steps = steps, power = { default = 1.0, above = 0 } },
    make = polynomial },
  { name = "warmup",
    doc = "A rise to 1 in a straight line; the last update of it has the full rate",
    args = { from = { default = 0.0, min = 0, max = 1 }, steps = steps }, make = warmup },
  { name = "warmup_stable_decay",
    doc = "A rise, the full rate, a fall: linear, by a square root or a cosine, to a lowest factor that would come one update after the last",
    make = warmup_stable_decay, args = {
    warmup_steps = { default = 0, integer = true, min = 0, doc = "updates that rise linearly; the last of them has the full rate" },
    total_steps = { required = true, type = "integer", min = 1, doc = "updates of the run; a spec knows them itself" },
    decay_ratio = { required = false, type = "number", min = 0, max = 1,
      doc = "part of the updates that decay; default: all after the warm-up" },
    decay_type = { default = "linear", choices = { "linear", "sqrt", "cosine" } },
    min_lr_factor = { default = 0.0, min = 0, max = 1, doc = "factor at the end, and afterwards" },
  } },
  { name = "inverse_sqrt",
    doc = "A rise, then a fall by the inverse square root of the updates (Vaswani et al., 2017)",
    args = { warmup_steps = { default = 0, integer = true, min = 0 } }, make = inverse_sqrt },
  { name = "inverse_time",
    doc = "1 / (1 + decay * updates)",
    args = { decay = { required = true, type = "number", min = 0 } }, make = inverse_time },
  { name = "lambda",
    doc = "A function of the number of updates that returns the factor",
    args = { fn = { required = true, type = "callable" } },
    make = function(args) return curve.of("schedule.lambda", args.fn) end },
}
