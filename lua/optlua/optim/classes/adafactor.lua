--- Adafactor (Shazeer & Stern, 2018, "Adafactor: adaptive learning rates with sublinear memory cost", algorithm 4); options and
--- defaults as in PyTorch 2.13, but that the first eps is float32's where PyTorch takes that of the parameter's type.
local optim = require "optlua.optim"

-- One over the root of the estimate of a matrix's squared gradient, which is the product of a row and a column of
-- means: roots of the two are few, and the root of each element is their product.
local function factored(g, s, keep, eps)
  local square = g * g
  s.row_var = keep * s.row_var + (1 - keep) * optim.mean(square, -1) -- (…, R, 1)
  s.col_var = keep * s.col_var + (1 - keep) * optim.mean(square, -2) -- (…, 1, C)
  local row = s.row_var / optim.max(optim.mean(s.row_var, -2), eps)
  return optim.rsqrt(row) * optim.rsqrt(s.col_var)
end

return optim.define {
  name = "Adafactor",
  hyper = {
    lr = { default = 1e-2, min = 0 },
    beta2_decay = { default = -0.8, max = 0, doc = "power of the update's number by which the second moment moves" },
    eps = { default = { 2.0 ^ -23, 1e-3 }, min = 0, doc = "added to squares of gradients; the least scale of a parameter" },
    d = { default = 1.0, min = 1, doc = "the root mean square that an update may have" },
    weight_decay = { default = 0, min = 0 },
    maximize = false,
  },
  state = function(shape)
    local n = #shape
    if n < 2 then return { variance = { positive = true } } end
    local row, col = { table.unpack(shape) }, { table.unpack(shape) }
    row[n], col[n - 1] = 1, 1
    return { row_var = { shape = row, positive = true }, col_var = { shape = col, positive = true } }
  end,
  update = function(p, g, s, h)
    if h.maximize then g = -g end
    local keep, size = 1 - h.step ^ h.beta2_decay, math.sqrt(p.numel)
    local rate = optim.max(1 / size * optim.norm(p), h.eps[2]) * math.min(h.lr, 1 / math.sqrt(h.step))
    local scale
    if p.ndim > 1 then
      scale = factored(g, s, keep, h.eps[1])
    else
      s.variance = keep * s.variance + (1 - keep) * (g * g)
      scale = optim.rsqrt(s.variance)
    end
    local update = g * optim.min(scale, 1 / h.eps[1]) -- of estimates below eps^2, as of eps^2
    local denominator = optim.max(1 / (size * h.d) * optim.norm(update), 1)
    if h.weight_decay ~= 0 then p = p * (1 - h.lr * h.weight_decay) end
    return p - rate / denominator * update
  end,
}
