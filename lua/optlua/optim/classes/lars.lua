--- LARS (You et al., 2017, "Large batch training of convolutional networks", algorithm 1, in PyTorch's form: the rate is
--- outside the momentum): the step of a tensor is in proportion to its length. Momentum, decay and trust as in the paper.
--- Biases and norms usually belong in a group of SGD.
local optim = require "optlua.optim"

return optim.define {
  name = "LARS",
  hyper = {
    lr = { default = 1.0, min = 0 },
    momentum = { default = 0.9, min = 0 },
    dampening = 0,
    weight_decay = { default = 5e-4, min = 0 },
    nesterov = false,
    trust_coefficient = { default = 1e-3, min = 0, doc = "how long a step is in proportion to the weights" },
    eps = { default = 1e-8, min = 0 },
    maximize = false,
  },
  check = function(h)
    return h.nesterov and (h.momentum == 0 or h.dampening ~= 0) and "nesterov needs a momentum and no dampening" or nil
  end,
  state = function(_, h) return h.momentum ~= 0 and { momentum_buffer = 0 } or {} end,
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    local length, slope = optim.norm(p), optim.norm(g)
    local trust = h.trust_coefficient * length / (slope + h.weight_decay * length + h.eps)
    g = optim.where(optim.min(length, slope), trust, 1) * (g + h.weight_decay * p)
    if h.momentum ~= 0 then
      local first = h.step == 1
      s.momentum_buffer = first and g or h.momentum * s.momentum_buffer + (1 - h.dampening) * g
      g = h.nesterov and g + h.momentum * s.momentum_buffer or s.momentum_buffer
    end
    return p - h.lr * g
  end,
}
