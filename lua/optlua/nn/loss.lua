--- loss: criteria as modules: loss_fn(output, target) -> a 0-d tensor, or one loss an item.
local optlua = require "optlua"
local module = require "optlua.nn.module"

local reduction = { default = "mean", choices = { "none", "mean", "sum" } }

--- Cross-entropy of logits (N, C) or (N, C, …) with classes (int64, from 0) or class probabilities.
---@class nn.CrossEntropyLoss: nn.Module
local CrossEntropyLoss = module.class "CrossEntropyLoss"

---@param opts? { weight?: optlua.Tensor, ignore_index?: integer, label_smoothing?: number, reduction?: string }
function CrossEntropyLoss:init(opts)
  opts = module.options("nn.CrossEntropyLoss", opts, {
    weight = { required = false, type = "tensor" },
    ignore_index = { default = -100, integer = true },
    label_smoothing = { default = 0, min = 0, max = 1 },
    reduction = reduction,
  })
  if opts.weight then self:register_buffer("weight", opts.weight) end
  self.ignore_index = opts.ignore_index
  self.label_smoothing = opts.label_smoothing
  self.reduction = opts.reduction
end

CrossEntropyLoss.samples = [[
  { {}, t(4, 3), i({ 4 }, 3) },
  { {}, t(3), i({}, 3) },
  { {}, t(2, 3, 4), i({ 2, 4 }, 3) },
  { {}, t(4, 3), c(4, 3):softmax(2) },
  { { { weight = c(3):abs(), reduction = "sum" } }, t(4, 3), i({ 4 }, 3) },
  { { { label_smoothing = 0.1, reduction = "none" } }, t(4, 3), i({ 4 }, 3) },
  { { { ignore_index = 1 } }, t(3, 4):t(), i({ 4 }, 3) },
]]

function CrossEntropyLoss:forward(input, target)
  return optlua.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)
end

--- Mean of squared differences.
---@class nn.MSELoss: nn.Module
local MSELoss = module.class "MSELoss"

---@param opts? { reduction?: string }
function MSELoss:init(opts) self.reduction = module.options("nn.MSELoss", opts, { reduction = reduction }).reduction end

MSELoss.samples = [[
  { {}, t(2, 3), c(2, 3) },
  { { { reduction = "sum" } }, t(3, 2):t(), t(2, 3) },
  { { { reduction = "none" } }, t(2, 3), c(2, 3) },
  { {}, t(), c() },
]]

function MSELoss:forward(input, target) return optlua.mse_loss(input, target, self.reduction) end

return { CrossEntropyLoss = CrossEntropyLoss, MSELoss = MSELoss }
