--- ScheduleFreeSGD (Defazio et al., 2024, "The road less scheduled", algorithm 1); options and defaults as in the authors'
--- package schedulefree 1.4. Rates need no schedule; a warm-up is built in.
---
--- Parameters hold one form while training and another for evaluation: optimizer:eval() before what evaluates or saves and
--- optimizer:train() after it, or both by optimizer:with_eval(fn). Specs and checkpoint.save do so by themselves.
local optim = require "optlua.optim"
local schedulefree = require "optlua.optim.classes.schedulefree"

local shared = schedulefree.hyper

return optim.define {
  name = "ScheduleFreeSGD",
  doc = "SGD with an average in place of a schedule; eval() and train() give the parameters their forms",
  hyper = {
    lr = { default = 1.0, min = 0 },
    momentum = { default = 0.9, above = 0, below = 1 },
    weight_decay = shared.weight_decay,
    warmup_steps = shared.warmup_steps,
    r = shared.r,
    weight_lr_power = shared.weight_lr_power,
  },
  state = { z = { init = "param", exact = true } },
  group = schedulefree.group,
  before = schedulefree.before,
  update = function(p, g, s, h, group)
    if h.weight_decay ~= 0 then g = g + h.weight_decay * p end
    return schedulefree.move(p, g, s, h.momentum, group)
  end,
  eval = function(p, s, h) return schedulefree.eval(p, s, h.momentum) end,
  train = function(p, s, h) return schedulefree.train(p, s, h.momentum) end,
}
