--- Adadelta (Zeiler, 2012, "ADADELTA: an adaptive learning rate method", algorithm 1); options and defaults as in PyTorch 2.13.
local optim = require "optlua.optim"

return optim.define {
  name = "Adadelta",
  hyper = {
    lr = { default = 1.0, min = 0 },
    rho = { default = 0.9, min = 0, max = 1, doc = "decay of the averages of squares" },
    eps = { default = 1e-6, min = 0 },
    weight_decay = { default = 0, min = 0 },
    maximize = false,
  },
  state = { square_avg = { positive = true }, acc_delta = { positive = true } },
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    if h.weight_decay ~= 0 then g = g + h.weight_decay * p end
    s.square_avg = h.rho * s.square_avg + (1 - h.rho) * g * g
    local delta = optim.sqrt((s.acc_delta + h.eps) / (s.square_avg + h.eps)) * g
    s.acc_delta = h.rho * s.acc_delta + (1 - h.rho) * delta * delta
    return p - h.lr * delta
  end,
}
