--- RAdam (Liu et al., 2020, "On the variance of the adaptive learning rate and beyond", algorithm 2); options and defaults
--- as in PyTorch 2.13.
local optim = require "optlua.optim"

-- The factor by which the variance of the adaptive rate is rectified; nothing while it is not tractable.
local function rectification(b2, step)
  local rho_inf = 2 / (1 - b2) - 1
  local rho = rho_inf - 2 * step * b2 ^ step / (1 - b2 ^ step)
  if rho <= 5 then return nil end
  return math.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
end

return optim.define {
  name = "RAdam",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    eps = { default = 1e-8, min = 0 },
    weight_decay = { default = 0, min = 0 },
    decoupled_weight_decay = false,
    maximize = false,
  },
  state = { exp_avg = 0, exp_avg_sq = { positive = true } },
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then
      if h.decoupled_weight_decay then p = p * (1 - h.lr * h.weight_decay) else g = g + h.weight_decay * p end
    end
    s.exp_avg = b1 * s.exp_avg + (1 - b1) * g
    s.exp_avg_sq = b2 * s.exp_avg_sq + (1 - b2) * g * g
    local rate, rect = h.lr / (1 - b1 ^ h.step), rectification(b2, h.step)
    if not rect then return p - rate * s.exp_avg end
    return p - rate * rect * math.sqrt(1 - b2 ^ h.step) * (s.exp_avg / (optim.sqrt(s.exp_avg_sq) + h.eps))
  end,
}
