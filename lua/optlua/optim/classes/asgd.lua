--- ASGD: averaged stochastic gradient descent (Polyak & Juditsky, 1992, "Acceleration of stochastic approximation by averaging");
--- options and defaults as in PyTorch 2.13. The average is the state `ax`.
local optim = require "optlua.optim"

return optim.define {
  name = "ASGD",
  hyper = {
    lr = { default = 1e-2, min = 0 },
    lambd = { default = 1e-4, min = 0, doc = "decay of weights, by which the rate falls too" },
    alpha = { default = 0.75, min = 0, doc = "power by which the rate falls" },
    t0 = { default = 1e6, min = 0, doc = "updates after which the average begins" },
    weight_decay = { default = 0, min = 0 },
    maximize = false,
  },
  state = { ax = { exact = true } },
  update = function(p, g, s, h)
    local before = h.step - 1
    local eta = h.lr / (1 + h.lambd * h.lr * before) ^ h.alpha
    local mu = 1 / math.max(1, before - h.t0)
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then g = g + h.weight_decay * p end
    local new = (1 - h.lambd * eta) * p - eta * g
    s.ax = mu == 1 and new or s.ax + mu * (new - s.ax)
    return new
  end,
}
