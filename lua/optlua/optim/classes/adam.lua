--- Adam (Kingma & Ba, 2015, "Adam: a method for stochastic optimization", algorithm 1); amsgrad as in
--- Reddi et al., 2018. The weight decay is the penalty's gradient; AdamW's is apart from it.
local optim = require "optlua.optim"

return optim.define {
  name = "Adam",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    eps = { default = 1e-8, min = 0 },
    weight_decay = { default = 0, min = 0 },
    amsgrad = false,
    maximize = false,
    decoupled_weight_decay = false,
  },
  state = function(_, h)
    return { exp_avg = 0, exp_avg_sq = { positive = true }, max_exp_avg_sq = h.amsgrad and { positive = true } or nil }
  end,
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then
      if h.decoupled_weight_decay then p = p * (1 - h.lr * h.weight_decay) else g = g + h.weight_decay * p end
    end
    local m = b1 * s.exp_avg + (1 - b1) * g
    local v = b2 * s.exp_avg_sq + (1 - b2) * g * g
    s.exp_avg, s.exp_avg_sq = m, v
    if h.amsgrad then
      v = optim.max(s.max_exp_avg_sq, v)
      s.max_exp_avg_sq = v
    end
    local denominator = 1 / math.sqrt(1 - b2 ^ h.step) * optim.sqrt(v) + h.eps
    return p - h.lr / (1 - b1 ^ h.step) * (m / denominator)
  end,
}
