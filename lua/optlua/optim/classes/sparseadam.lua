--- SparseAdam: Adam (Kingma & Ba, 2015) for embeddings: rows that had no gradient keep weights and moments as they are;
--- options and defaults as in PyTorch 2.13. There a sparse gradient lists the rows that were looked up; gradients here are dense,
--- and a row (all that has the same place in the first dimension) counts as looked up where one of its elements is not zero:
--- one that was, and whose gradient is zero throughout, stays, where PyTorch decays its moments.
local optim = require "optlua.optim"

-- 1 for the rows (everything that the first dimension numbers) that have a gradient, else 0.
local function touched_rows(g, ndim)
  local size = optim.abs(g)
  for d = 2, ndim do size = optim.amax(size, d) end
  return optim.ne(size, 0)
end

return optim.define {
  name = "SparseAdam",
  doc = "Adam that leaves rows without a gradient alone; for embeddings",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    betas = { default = { 0.9, 0.999 }, min = 0, below = 1 },
    eps = { default = 1e-8, min = 0 },
    maximize = false,
  },
  state = { exp_avg = 0, exp_avg_sq = { positive = true } },
  update = function(p, g, s, h)
    local b1, b2 = h.betas[1], h.betas[2]
    local touched = touched_rows(g, p.ndim)
    if h.maximize then g = -g end
    local m = s.exp_avg + (1 - b1) * (g - s.exp_avg)
    local v = s.exp_avg_sq + (1 - b2) * (g * g - s.exp_avg_sq)
    s.exp_avg, s.exp_avg_sq = optim.where(touched, m, s.exp_avg), optim.where(touched, v, s.exp_avg_sq)
    local step_size = h.lr * math.sqrt(1 - b2 ^ h.step) / (1 - b1 ^ h.step)
    return optim.where(touched, p - step_size * (m / (optim.sqrt(v) + h.eps)), p)
  end,
}
