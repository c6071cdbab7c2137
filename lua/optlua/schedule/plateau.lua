--- plateau: lowers a value when a metric stops improving (PyTorch's ReduceLROnPlateau).
--
-- It remembers: `scheduler:step(metric)` moves it on, and the scheduler saves what it remembers.
local blame = require "optlua.blame"
local curve = require "optlua.schedule.curve"

local plateau = {}

plateau.args = {
  mode = { default = "min", choices = { "min", "max" }, doc = "whether a lower or a higher metric is better" },
  factor = { default = 0.1, min = 0, below = 1 }, patience = { default = 10, integer = true, min = 0 },
  threshold = { default = 1e-4, min = 0 }, threshold_mode = { default = "rel", choices = { "rel", "abs" } },
  cooldown = { default = 0, integer = true, min = 0 }, min_lr = { default = 0.0, min = 0 }, eps = { default = 1e-8, min = 0 },
}

local function is_better(args, metric, best)
  if not best then return true end
  local margin = args.threshold * (args.threshold_mode == "rel" and best or 1)
  if args.mode == "min" then return metric < best - margin end
  return metric > best + margin
end

--- What it remembers after one metric more.
local function advance(args, memory, metric)
  local new = { best = memory.best, bad = memory.bad + 1, cooldown = memory.cooldown, reductions = memory.reductions }
  if is_better(args, metric, memory.best) then new.best, new.bad = metric, 0 end
  if new.cooldown > 0 then new.cooldown, new.bad = new.cooldown - 1, 0 end
  if new.bad > args.patience then
    new.reductions, new.cooldown, new.bad = new.reductions + 1, args.cooldown, 0
  end
  return new
end

--- The base after some reductions; one of less than eps is not made.
local function reduced(args, base, reductions)
  local value = base
  for _ = 1, reductions do
    local lower = math.max(value * args.factor, args.min_lr)
    if value - lower > args.eps then value = lower end
  end
  return value
end

--- Makes the schedule: it has a `memory`, which `advance(metric)` replaces.
function plateau.make(args)
  local self = curve.new("ReduceLROnPlateau", nil, { absolute = true, mode = args.mode, memory = { bad = 0, cooldown = 0, reductions = 0 } })
  self.fn = function(_, base) return reduced(args, base, self.memory.reductions) end
  self.source = self
  self.advance = function(metric)
    if type(metric) ~= "number" or metric ~= metric then
      blame("ReduceLROnPlateau: scheduler:step(metric): a number expected, got "
        .. (metric ~= metric and "NaN" or type(metric)))
    end
    self.memory = advance(args, self.memory, metric)
  end
  return self
end

return plateau
