--- NAdam (Dozat, 2016, "Incorporating Nesterov momentum into Adam"); options and defaults as in PyTorch 2.13.
--
-- The product of the momenta is a number of the group, in double precision.
local optim = require "optlua.optim"

local function momentum_at(step, h) return h.betas[1] * (1 - 0.5 * 0.96 ^ (step * h.momentum_decay)) end

return optim.define {
  name = "NAdam",
  hyper = {
    lr = { default = 2e-3, min = 0 },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    eps = { default = 1e-8, min = 0 },
    weight_decay = { default = 0, min = 0 },
    momentum_decay = { default = 4e-3, min = 0, doc = "how fast the momentum approaches betas[1]" },
    decoupled_weight_decay = false,
    maximize = false,
  },
  state = { exp_avg = 0, exp_avg_sq = { positive = true } },
  group = { mu_product = 1 },
  before = function(group, h) group.mu_product = group.mu_product * momentum_at(h.step, h) end,
  update = function(p, g, s, h, group)
    local b1, b2 = h.betas[1], h.betas[2]
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then
      if h.decoupled_weight_decay then p = p * (1 - h.lr * h.weight_decay) else g = g + h.weight_decay * p end
    end
    local mu, next_mu = momentum_at(h.step, h), momentum_at(h.step + 1, h)
    s.exp_avg = b1 * s.exp_avg + (1 - b1) * g
    s.exp_avg_sq = b2 * s.exp_avg_sq + (1 - b2) * g * g
    local denominator = 1 / math.sqrt(1 - b2 ^ h.step) * optim.sqrt(s.exp_avg_sq) + h.eps
    local direction = (1 - mu) / (1 - group.mu_product) * g + next_mu / (1 - group.mu_product * next_mu) * s.exp_avg
    return p - h.lr * (direction / denominator)
  end,
}
