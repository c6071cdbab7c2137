--- Adan (Xie et al., 2022, "Adan: adaptive Nesterov momentum algorithm for faster optimizing deep models", algorithm 1, in
--- the authors' form: its betas are one minus the paper's); options and defaults as in their sail-sg/Adan; its max_grad_norm
--- is the container's max_norm.
local optim = require "optlua.optim"

return optim.define {
  name = "Adan",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    betas = { default = { 0.98, 0.92, 0.99 }, min = 0, below = 1 },
    eps = { default = 1e-8, min = 0 },
    weight_decay = { default = 0, min = 0 },
    no_prox = { default = false, doc = "decay as in AdamW, ahead of the step" },
    maximize = false,
  },
  state = { exp_avg = 0, exp_avg_diff = 0, exp_avg_sq = { positive = true }, previous_grad = 0 },
  update = function(p, g, s, h)
    local b1, b2, b3 = h.betas[1], h.betas[2], h.betas[3]
    if h.maximize then g = -g end
    local difference = g - (h.step == 1 and g or s.previous_grad)
    local ahead = g + b2 * difference
    s.exp_avg = b1 * s.exp_avg + (1 - b1) * g
    s.exp_avg_diff = b2 * s.exp_avg_diff + (1 - b2) * difference
    s.exp_avg_sq = b3 * s.exp_avg_sq + (1 - b3) * ahead * ahead
    s.previous_grad = g
    local direction = 1 / (1 - b1 ^ h.step) * s.exp_avg + b2 / (1 - b2 ^ h.step) * s.exp_avg_diff
    local denominator = 1 / math.sqrt(1 - b3 ^ h.step) * optim.sqrt(s.exp_avg_sq) + h.eps
    local decay = h.lr * h.weight_decay
    if decay == 0 or h.no_prox then return p * (1 - decay) - h.lr * (direction / denominator) end
    return (p - h.lr * (direction / denominator)) / (1 + decay)
  end,
}
