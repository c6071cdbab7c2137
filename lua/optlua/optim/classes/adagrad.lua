--- Adagrad (Duchi et al., 2011, "Adaptive subgradient methods for online learning and stochastic optimization"); options and
--- defaults as in PyTorch 2.13.
local optim = require "optlua.optim"

return optim.define {
  name = "Adagrad",
  hyper = {
    lr = { default = 1e-2, min = 0 },
    lr_decay = { default = 0, min = 0, doc = "how fast the rate falls with the updates" },
    weight_decay = { default = 0, min = 0 },
    initial_accumulator_value = { default = 0, min = 0, doc = "what the sum of squares begins with" },
    eps = { default = 1e-10, min = 0 },
    maximize = false,
  },
  state = function(_, h) return { sum = { init = h.initial_accumulator_value, positive = true } } end,
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then g = g + h.weight_decay * p end
    s.sum = s.sum + g * g
    return p - h.lr / (1 + (h.step - 1) * h.lr_decay) * (g / (optim.sqrt(s.sum) + h.eps))
  end,
}
