--- AdEMAMix (Pagliardini et al., 2024, "The AdEMAMix optimizer: better, faster, older", algorithm 1): Adam with a second,
--- slow average of the gradient; a first beta of 0 keeps only that. Options and defaults as in the authors' ml-ademamix, but
--- that 0 means no warm-up.
local optim = require "optlua.optim"

-- beta3 on its way from beta1: its half-life grows linearly (section 3).
local function warm_beta(from, to, progress)
  return progress < 1 and math.exp(1 / ((1 - progress) / math.log(from) + progress / math.log(to))) or to
end

return optim.define {
  name = "AdEMAMix",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    betas = { default = { 0.9, 0.999, 0.9999 }, min = 0, below = 1 },
    alpha = { default = 2.0, min = 0, doc = "the weight of the slow average" },
    alpha_warmup = { default = 0, integer = true, min = 0, doc = "steps in which alpha grows from 0" },
    beta3_warmup = { default = 0, integer = true, min = 0, doc = "steps in which the third beta grows from the first" },
    eps = { default = 1e-8, min = 0 },
    weight_decay = { default = 0, min = 0 },
    maximize = false,
  },
  state = function(_, h)
    return { exp_avg_fast = h.betas[1] ~= 0 and 0 or nil, exp_avg_slow = { rounding = "stochastic" }, exp_avg_sq = { positive = true } }
  end,
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    local b3 = warm_beta(b1, h.betas[3], h.step / h.beta3_warmup)
    local alpha = h.alpha * math.min(1, h.step / h.alpha_warmup)
    if h.maximize then g = -g end
    local fast = g
    if b1 ~= 0 then
      fast = b1 * s.exp_avg_fast + (1 - b1) * g
      s.exp_avg_fast = fast
    end
    s.exp_avg_slow = b3 * s.exp_avg_slow + (1 - b3) * g
    s.exp_avg_sq = b2 * s.exp_avg_sq + (1 - b2) * g * g
    local mixed = 1 / (1 - b1 ^ h.step) * fast + alpha * s.exp_avg_slow
    local denominator = 1 / math.sqrt(1 - b2 ^ h.step) * optim.sqrt(s.exp_avg_sq) + h.eps
    return p * (1 - h.lr * h.weight_decay) - h.lr * (mixed / denominator)
  end,
}
