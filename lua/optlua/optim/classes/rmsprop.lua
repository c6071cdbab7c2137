--- RMSprop (Hinton, 2012, lecture 6 of "Neural networks for machine learning"; centred: Graves, 2013); options and defaults
--- as in PyTorch 2.13. A centred variance that rounding makes negative counts as 0.
local optim = require "optlua.optim"

return optim.define {
  name = "RMSprop",
  hyper = {
    lr = { default = 1e-2, min = 0 },
    alpha = { default = 0.99, min = 0, max = 1, doc = "decay of the average of squares" },
    eps = { default = 1e-8, min = 0 },
    weight_decay = { default = 0, min = 0 },
    momentum = { default = 0, min = 0 },
    centered = { default = false, doc = "whether the mean of gradients is taken off the squares" },
    maximize = false,
  },
  state = function(_, h)
    return { square_avg = { positive = true }, grad_avg = h.centered and 0 or nil, momentum_buffer = h.momentum ~= 0 and 0 or nil }
  end,
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then g = g + h.weight_decay * p end
    s.square_avg = h.alpha * s.square_avg + (1 - h.alpha) * g * g
    local variance = s.square_avg
    if h.centered then
      s.grad_avg = h.alpha * s.grad_avg + (1 - h.alpha) * g
      variance = optim.max(variance - s.grad_avg * s.grad_avg, 0)
    end
    local direction = g / (optim.sqrt(variance) + h.eps)
    if h.momentum ~= 0 then
      s.momentum_buffer = h.momentum * s.momentum_buffer + direction
      direction = s.momentum_buffer
    end
    return p - h.lr * direction
  end,
}
