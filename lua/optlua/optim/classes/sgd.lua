--- SGD: stochastic gradient descent with momentum (Sutskever et al., 2013, "On the importance of
--- initialization and momentum in deep learning", in PyTorch's form: the rate is outside the momentum).
local optim = require "optlua.optim"

return optim.define {
  name = "SGD",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    momentum = { default = 0, min = 0 },
    dampening = 0,
    weight_decay = { default = 0, min = 0 },
    nesterov = false,
    maximize = false,
  },
  check = function(h)
    return h.nesterov and (h.momentum == 0 or h.dampening ~= 0) and "nesterov needs a momentum and no dampening" or nil
  end,
  state = function(_, h) return h.momentum ~= 0 and { momentum_buffer = 0 } or {} end,
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then g = g + h.weight_decay * p end
    if h.momentum ~= 0 then
      local first = h.step == 1
      s.momentum_buffer = first and g or h.momentum * s.momentum_buffer + (1 - h.dampening) * g
      g = h.nesterov and g + h.momentum * s.momentum_buffer or s.momentum_buffer
    end
    return p - h.lr * g
  end,
}
