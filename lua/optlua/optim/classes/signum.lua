--- Signum, and signSGD with momentum = 0 (Bernstein et al., 2018, "signSGD: compressed optimisation for non-convex problems",
--- algorithms 1 and 2); defaults as in the authors' optimizer in MXNet, whose `wd_lh` is weight_decay with
--- decoupled_weight_decay.
local optim = require "optlua.optim"

return optim.define {
  name = "Signum",
  hyper = {
    lr = { default = 1e-2, min = 0 },
    momentum = { default = 0.9, min = 0, below = 1 },
    weight_decay = { default = 0, min = 0 },
    decoupled_weight_decay = false,
    maximize = false,
  },
  state = function(_, h) return h.momentum ~= 0 and { momentum_buffer = 0 } or {} end,
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then
      if h.decoupled_weight_decay then p = p * (1 - h.lr * h.weight_decay) else g = g + h.weight_decay * p end
    end
    if h.momentum ~= 0 then
      g = h.momentum * s.momentum_buffer + (1 - h.momentum) * g
      s.momentum_buffer = g
    end
    return p - h.lr * optim.sign(g)
  end,
}
