--- Adamax (Kingma & Ba, 2015, "Adam: a method for stochastic optimization", algorithm 2); options and defaults as in PyTorch
--- 2.13.
local optim = require "optlua.optim"

return optim.define {
  name = "Adamax",
  hyper = {
    lr = { default = 2e-3, min = 0 },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    eps = { default = 1e-8, min = 0 },
    weight_decay = { default = 0, min = 0 },
    maximize = false,
  },
  state = { exp_avg = 0, exp_inf = { positive = true } },
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then g = g + h.weight_decay * p end
    s.exp_avg = b1 * s.exp_avg + (1 - b1) * g
    s.exp_inf = optim.max(b2 * s.exp_inf, optim.abs(g) + h.eps)
    return p - h.lr / (1 - b1 ^ h.step) * (s.exp_avg / s.exp_inf)
  end,
}
