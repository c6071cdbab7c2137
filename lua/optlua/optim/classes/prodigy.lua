--- Prodigy (Mishchenko & Defazio, 2023, "Prodigy: an expeditiously adaptive parameter-free learner", algorithm 4); options and
--- defaults as in the authors' package prodigyopt 1.1. Leave lr at 1: the distance d, which is estimated, stands for the rate.
--
-- Two differences from the authors' code: d is a number of each group, where theirs is one of all groups; and eps (with
-- betas[1] = 0 the step too) is scaled by the d that the update before has left, where theirs has the new one: so one pass over
-- the gradients is enough. `slice_p`, which estimates d from a part of the elements, is not there.
local optim = require "optlua.optim"

-- The share of the past in the sums from which d is estimated.
local function memory(h)
  if h.beta3 == true then error("Prodigy: beta3: a number expected, or false for the square root of betas[2]", 0) end
  return h.beta3 or math.sqrt(h.betas[2])
end

-- The new estimate of the distance, from the sums over all parameters of the group.
local function estimate(group, h)
  local first = group.d == h.d0
  group.numerator = memory(h) * group.numerator + group.d / h.d0 * group.rate * group.moved
  local found = h.d_coef * group.numerator / group.total
  if first then group.d = math.max(group.d, found) end
  group.d_max = math.max(group.d_max, found)
  group.d = math.min(group.d_max, group.d * h.growth_rate)
end

return optim.define {
  name = "Prodigy",
  doc = "Adam that estimates its rate: leave lr at 1",
  hyper = {
    lr = { default = 1.0, min = 0, doc = "multiplies the estimate" },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    beta3 = { default = false, type = "number|boolean", min = 0, below = 1, doc = "of the estimate; false: the square root of betas[2]" },
    eps = { default = 1e-8, above = 0 },
    weight_decay = { default = 0, min = 0 },
    decouple = { default = true, doc = "the decay is AdamW's; else the penalty's gradient" },
    use_bias_correction = { default = false, doc = "Adam's" },
    safeguard_warmup = { default = false, doc = "leaves lr out of the estimate's denominator: for rates that rise at first" },
    d0 = { default = 1e-6, above = 0, doc = "the first estimate" },
    d_coef = { default = 1.0, above = 0, doc = "multiplies the estimate: the way to tune it" },
    growth_rate = { default = math.huge, min = 1, doc = "of the estimate in an update, at most" },
  },
  state = function(_, h)
    return { exp_avg = h.betas[1] > 0 and 0 or nil, exp_avg_sq = { positive = true },
      s = { rounding = "stochastic" }, p0 = { init = "param", exact = true } }
  end,
  group = { d = 0, d_max = 0, numerator = 0, rate = 0, moved = 0, total = 0 },
  before = function(group, h)
    if h.step == 1 then group.d, group.d_max = h.d0, h.d0 end
    local b1, b2 = h.betas[1], h.betas[2]
    group.rate = group.d * h.lr
    if h.use_bias_correction then group.rate = group.rate * math.sqrt(1 - b2 ^ h.step) / (1 - b1 ^ h.step) end
    group.moved, group.total = 0, 0
  end,
  update = function(p, g, s, h, group)
    if h.lr == 0 then return p end
    local b1, b2, b3, d, rate = h.betas[1], h.betas[2], memory(h), group.d, group.rate
    if h.weight_decay ~= 0 and not h.decouple then g = g + h.weight_decay * p end
    optim.group_add("moved", g * (s.p0 - p))
    s.s = b3 * s.s + d / h.d0 * (h.safeguard_warmup and d or rate) * g
    optim.group_add("total", optim.abs(s.s))
    s.exp_avg_sq = b2 * s.exp_avg_sq + d * d * (1 - b2) * g * g
    local direction = d * g
    if b1 > 0 then
      s.exp_avg = b1 * s.exp_avg + d * (1 - b1) * g
      direction = s.exp_avg
    end
    local kept = h.decouple and 1 - rate * h.weight_decay or 1
    return kept * p - rate * (direction / (optim.sqrt(s.exp_avg_sq) + d * h.eps))
  end,
  after = function(group, h)
    if h.lr > 0 and group.total > 0 then estimate(group, h) end
  end,
}
