--- Rprop (Riedmiller & Braun, 1993, "A direct adaptive method for faster backpropagation learning"); options and defaults as in
--- PyTorch 2.13. For gradients of the whole data.
local optim = require "optlua.optim"

return optim.define {
  name = "Rprop",
  hyper = {
    lr = { default = 1e-2, min = 0 },
    etas = { default = { 0.5, 1.2 }, above = 0,
      doc = "factors of a step size where the gradient has changed its sign, and where not" },
    step_sizes = { default = { 1e-6, 50 }, min = 0, doc = "the smallest and the largest" },
    maximize = false,
  },
  check = function(h)
    return not (h.etas[1] < 1 and h.etas[2] > 1) and "etas: the first shrinks, below 1, and the second grows, above 1" or nil
  end,
  state = function(_, h) return { prev = 0, step_size = { init = h.lr, positive = true } } end,
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    local agreement = g * s.prev
    local turned = optim.lt(agreement, 0)
    local factor = optim.where(turned, h.etas[1], optim.where(optim.gt(agreement, 0), h.etas[2], 1))
    s.step_size = optim.clamp(s.step_size * factor, h.step_sizes[1], h.step_sizes[2])
    s.prev = optim.where(turned, 0, g)
    return p - optim.sign(s.prev) * s.step_size
  end,
}
