--- Muon: momentum, made orthogonal. Keller Jordan et al., "Muon: An optimizer for hidden layers in neural
--- networks" (2024); options and defaults as in PyTorch 2.13. For matrices of hidden layers only.
--
-- PyTorch iterates in bfloat16, this in the parameter's own type.
local optim = require "optlua.optim"

-- The orthogonal matrix nearest to x, nearly: a quintic Newton-Schulz iteration on x / |x|.
local function orthogonalise(x, h, tall)
  local a, b, c = h.ns_coefficients[1], h.ns_coefficients[2], h.ns_coefficients[3]
  if tall then x = optim.t(x) end
  x = x / optim.max(optim.norm(x), h.eps)
  for _ = 1, h.ns_steps do
    local gram = optim.matmul(x, optim.t(x))
    x = a * x + optim.matmul(b * gram + c * optim.matmul(gram, gram), x)
  end
  return tall and optim.t(x) or x
end

-- How the step is scaled for a matrix of this size.
local adjust = {
  original = function(rows, columns) return math.sqrt(math.max(1, rows / columns)) end,
  match_rms_adamw = function(rows, columns) return 0.2 * math.sqrt(math.max(rows, columns)) end,
  none = function() return 1 end,
}

return optim.define {
  name = "Muon",
  doc = "momentum, made orthogonal; for matrices of hidden layers",
  hyper = {
    lr = { default = 1e-3, min = 0 },
    weight_decay = { default = 0.1, min = 0 },
    momentum = { default = 0.95, min = 0, below = 1 },
    nesterov = true,
    ns_coefficients = { default = { 3.4445, -4.775, 2.0315 }, doc = "of the polynomial that makes a matrix orthogonal" },
    eps = { default = 1e-7, min = 0 },
    ns_steps = { default = 5, min = 1, max = 99, integer = true, doc = "how often it is applied" },
    adjust_lr_fn = { default = "original", choices = { "original", "match_rms_adamw", "none" },
      doc = "how the rate follows the shape of a matrix: Jordan's, that of AdamW's updates, or not" },
  },
  accepts = { ndim = 2 },
  state = { momentum_buffer = 0 },
  update = function(p, g, s, h)
    local rows, columns = p.shape[1], p.shape[2]
    s.momentum_buffer = h.momentum * s.momentum_buffer + (1 - h.momentum) * g
    local direction = s.momentum_buffer
    if h.nesterov then direction = (1 - h.momentum) * g + h.momentum * direction end
    local lr = h.lr * adjust[h.adjust_lr_fn](rows, columns)
    return (1 - h.lr * h.weight_decay) * p - lr * orthogonalise(direction, h, rows > columns)
  end,
}
