--- ScheduleFreeAdamW (Defazio et al., 2024, "The road less scheduled", algorithm 2); options and defaults as in the authors'
--- package schedulefree 1.4, whose rate is not lowered by the second moment's bias correction. Rates need no schedule; a warm-up
--- is built in.
---
--- Parameters hold one form while training and another for evaluation: optimizer:eval() before what evaluates or saves and
--- optimizer:train() after it, or both by optimizer:with_eval(fn). Specs and checkpoint.save do so by themselves.
local optim = require "optlua.optim"
local schedulefree = require "optlua.optim.classes.schedulefree"

local shared = schedulefree.hyper

return optim.define {
  name = "ScheduleFreeAdamW",
  doc = "AdamW with an average in place of a schedule; eval() and train() give the parameters their forms",
  hyper = {
    lr = { default = 0.0025, min = 0 },
    betas = { default = { 0.9, 0.999 }, above = 0, below = 1 },
    eps = { default = 1e-8, min = 0 },
    weight_decay = shared.weight_decay,
    warmup_steps = shared.warmup_steps,
    r = shared.r,
    weight_lr_power = shared.weight_lr_power,
  },
  state = { z = { init = "param", exact = true }, exp_avg_sq = { positive = true } },
  group = schedulefree.group,
  before = schedulefree.before,
  update = function(p, g, s, h, group)
    local b2 = h.betas[2]
    s.exp_avg_sq = b2 * s.exp_avg_sq + (1 - b2) * g * g
    local d = g / (1 / math.sqrt(1 - b2 ^ h.step) * optim.sqrt(s.exp_avg_sq) + h.eps)
    if h.weight_decay ~= 0 then d = d + h.weight_decay * p end
    return schedulefree.move(p, d, s, h.betas[1], group)
  end,
  eval = function(p, s, h) return schedulefree.eval(p, s, h.betas[1]) end,
  train = function(p, s, h) return schedulefree.train(p, s, h.betas[1]) end,
}
