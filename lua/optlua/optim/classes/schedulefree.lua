--- schedulefree: what the Schedule-Free classes have in common (Defazio et al., 2024, "The road less scheduled"): the weights of
--- the average, and the two forms of a parameter.
--
-- x is the average of the iterates z, and y = (1 - beta) * z + beta * x is where gradients are taken. A parameter holds y while
-- training and x for evaluation; z is its state.
local optim = require "optlua.optim"

local schedulefree = {}

--- Hyperparameters of both classes.
schedulefree.hyper = {
  weight_decay = { default = 0, min = 0, doc = "at y, added to the direction" },
  warmup_steps = { default = 0, min = 0, integer = true, doc = "updates in which the rate rises linearly" },
  r = { default = 0, doc = "the weight of update t in the average has the factor t^r" },
  weight_lr_power = { default = 2, min = 0, doc = "and the factor of the largest rate so far to this power" },
}

--- The numbers of the group: the rate of this update, the largest so far, the sum of the weights, and the share of this
--- update's z in the average.
schedulefree.group = { rate = 0, lr_max = 0, weight_sum = 0, mix = 0 }

--- Weighs the update to come.
function schedulefree.before(group, h)
  group.rate = h.lr * math.min(1, h.step / math.max(h.warmup_steps, 1))
  group.lr_max = math.max(group.lr_max, group.rate)
  local weight = h.step ^ h.r * group.lr_max ^ h.weight_lr_power
  group.weight_sum = group.weight_sum + weight
  group.mix = group.weight_sum > 0 and weight / group.weight_sum or 0
end

--- One update in the direction d, at y: z moves, y follows with the average.
---@return optlua.Symbol y
function schedulefree.move(y, d, s, beta, group)
  local rate, mix = group.rate, group.mix
  local new = optim.lerp(y, s.z, mix) + rate * (beta * (1 - mix) - 1) * d
  s.z = s.z - rate * d
  return new
end

--- y -> x.
function schedulefree.eval(y, s, beta) return optim.lerp(y, s.z, 1 - 1 / beta) end

--- x -> y.
function schedulefree.train(x, s, beta) return optim.lerp(x, s.z, 1 - beta) end

return schedulefree
