--- LAMB (You et al., 2020, "Large batch optimization for deep learning: training BERT in 76 minutes", algorithm 2):
--- Adam's direction, as long as the parameter is. Defaults as in the paper's training of BERT; without
--- `bias_correction` it is the third version of the paper's preprint.
local optim = require "optlua.optim"

-- By what the direction is multiplied: the ratio of the lengths, 1 where one of them is 0.
local function trust(p, direction, limit)
  local length, step = optim.norm(p), optim.norm(direction)
  return optim.where(optim.min(length, step), optim.min(length, limit) / step, 1)
end

return optim.define {
  name = "LAMB",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    eps = { default = 1e-6, min = 0 },
    weight_decay = { default = 1e-2, min = 0 },
    bias_correction = { default = true, doc = "whether averages are corrected for their beginning at 0" },
    clamp_value = { default = math.huge, min = 0, doc = "the most that the length of a parameter counts (phi in the paper)" },
    maximize = false,
  },
  state = { exp_avg = 0, exp_avg_sq = { positive = true } },
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    if h.maximize then g = -g end
    s.exp_avg = b1 * s.exp_avg + (1 - b1) * g
    s.exp_avg_sq = b2 * s.exp_avg_sq + (1 - b2) * g * g
    local c1, c2 = 1, 1
    if h.bias_correction then c1, c2 = 1 - b1 ^ h.step, math.sqrt(1 - b2 ^ h.step) end
    local direction = 1 / c1 * s.exp_avg / (1 / c2 * optim.sqrt(s.exp_avg_sq) + h.eps) + h.weight_decay * p
    return p - h.lr * trust(p, direction, h.clamp_value) * direction
  end,
}
