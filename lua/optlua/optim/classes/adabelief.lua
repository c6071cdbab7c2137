--- AdaBelief (Zhuang et al., 2020, "AdaBelief optimizer: adapting stepsizes by the belief in observed gradients", algorithm
--- 2); options and defaults as in the authors' adabelief-pytorch 0.2.1, but that amsgrad holds for rectified steps too.
local optim = require "optlua.optim"

-- RAdam's factor; nothing while the variance is not tractable.
local function rectification(b2, step)
  local rho_inf = 2 / (1 - b2) - 1
  local rho = rho_inf - 2 * step * b2 ^ step / (1 - b2 ^ step)
  if rho < 5 then return nil end
  return math.sqrt((1 - b2 ^ step) * (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
end

return optim.define {
  name = "AdaBelief",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    eps = { default = 1e-16, min = 0 },
    weight_decay = { default = 0, min = 0 },
    amsgrad = false,
    weight_decouple = { default = true, doc = "decay apart from the gradient, as in AdamW" },
    fixed_decay = { default = false, doc = "the decay is not multiplied with lr; with weight_decouple" },
    rectify = { default = true, doc = "as in RAdam" },
    degenerated_to_sgd = { default = true, doc = "with rectify: steps of SGD, not none, while the variance is not tractable" },
    maximize = false,
  },
  state = function(_, h)
    return { exp_avg = 0, exp_avg_var = { positive = true }, max_exp_avg_var = h.amsgrad and { positive = true } or nil }
  end,
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then
      local decay = h.fixed_decay and h.weight_decay or h.lr * h.weight_decay
      if h.weight_decouple then p = p * (1 - decay) else g = g + h.weight_decay * p end
    end
    s.exp_avg = b1 * s.exp_avg + (1 - b1) * g
    local surprise = g - s.exp_avg
    local v = b2 * s.exp_avg_var + (1 - b2) * surprise * surprise + h.eps
    s.exp_avg_var = v
    if h.amsgrad then
      v = optim.max(s.max_exp_avg_var, v)
      s.max_exp_avg_var = v
    end
    local rate, factor = h.lr / (1 - b1 ^ h.step), 1 / math.sqrt(1 - b2 ^ h.step)
    if h.rectify then
      local rect = rectification(b2, h.step)
      if not rect then return h.degenerated_to_sgd and p - rate * s.exp_avg or p end
      rate, factor = rate * rect, 1
    end
    return p - rate * (s.exp_avg / (factor * optim.sqrt(v) + h.eps))
  end,
}
