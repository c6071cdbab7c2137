--- Lion (Chen et al., 2023, "Symbolic discovery of optimization algorithms", algorithm 2).
local optim = require "optlua.optim"

return optim.define {
  name = "Lion",
  hyper = {
    lr = { default = 1e-4, min = 0 },
    betas = { default = { 0.9, 0.99 }, min = 0, below = 1 },
    weight_decay = { default = 0, min = 0 },
    maximize = false,
  },
  state = { exp_avg = 0 },
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    if h.maximize then g = -g end
    local direction = optim.sign(b1 * s.exp_avg + (1 - b1) * g)
    s.exp_avg = b2 * s.exp_avg + (1 - b2) * g
    return p * (1 - h.lr * h.weight_decay) - h.lr * direction
  end,
}
