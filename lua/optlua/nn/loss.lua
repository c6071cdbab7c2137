--- loss: criteria as modules: loss_fn(output, target) -> a 0-d tensor, or one loss an item.
local optlua = require "optlua"
local measure = require "optlua.nn.measure"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"

local reduction = { "reduction", { default = "mean", choices = { "none", "mean", "sum" } } }
local weight = { "weight", { required = false, type = "tensor" } }
local ignore_index = { "ignore_index", { default = -100, integer = true } }

--- A class of losses whose arguments become fields, tensors buffers.
---@param name string
---@param list { [1]: string, [2]: any }[] the arguments, in PyTorch's order
local function loss(name, list)
  local class = module.class(name)
  class.signature = signature.new("nn." .. name, list)
  class.inputs = { "input", "target" }
  function class:init(...)
    local opts = self.signature:read(...)
    for _, key in ipairs { "weight", "pos_weight" } do
      if opts[key] then self:register_buffer(key, opts[key]) end
      opts[key] = nil
    end
    for key, value in pairs(opts) do self[key] = value end
  end
  return class
end

--- Cross-entropy of logits (N, C) or (N, C, …) with classes (int64, from 0) or class probabilities.
--- Options: weight (of each class), ignore_index, label_smoothing, reduction.
---@class nn.CrossEntropyLoss: nn.Module
---@overload fun(opts?: { weight?: optlua.Tensor, ignore_index?: integer, label_smoothing?: number, reduction?: string }): nn.CrossEntropyLoss
local CrossEntropyLoss = loss("CrossEntropyLoss",
  { weight, ignore_index, reduction, { "label_smoothing", { default = 0, min = 0, max = 1 } } })

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

--- Negative log-likelihood of classes (int64, from 0), for log-probabilities (N, C), (N, C, …) or (C).
--- Options: weight (of each class), ignore_index, reduction.
---@class nn.NLLLoss: nn.Module
---@overload fun(opts?: { weight?: optlua.Tensor, ignore_index?: integer, reduction?: string }): nn.NLLLoss
local NLLLoss = loss("NLLLoss", { weight, ignore_index, reduction })

NLLLoss.samples = [[
  { {}, t(4, 3), i({ 4 }, 3) },
  { { { weight = c(3):abs() } }, t(2, 3, 4), i({ 2, 4 }, 3) },
  { { { ignore_index = 1, reduction = "sum" } }, t(3, 4):t(), i({ 4 }, 3) },
  { { { reduction = "none" } }, t(3), i({}, 3) },
]]

function NLLLoss:forward(input, target)
  return optlua.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)
end

--- Mean of squared differences. Option: reduction.
---@class nn.MSELoss: nn.Module
---@overload fun(opts?: { reduction?: string }): nn.MSELoss
local MSELoss = loss("MSELoss", { reduction })

MSELoss.samples = [[
  { {}, t(2, 3), c(2, 3) },
  { { { reduction = "sum" } }, t(3, 2):t(), t(2, 3) },
  { { { reduction = "none" } }, t(2, 3), c(2, 3) },
  { {}, t(), c() },
]]

function MSELoss:forward(input, target) return optlua.mse_loss(input, target, self.reduction) end

--- Mean of absolute differences. Option: reduction.
---@class nn.L1Loss: nn.Module
---@overload fun(opts?: { reduction?: string }): nn.L1Loss
local L1Loss = loss("L1Loss", { reduction })

L1Loss.samples = MSELoss.samples

function L1Loss:forward(input, target) return optlua.l1_loss(input, target, self.reduction) end

--- Absolute differences less beta / 2; below beta squares over 2 beta (Girshick, 2015). Options: beta (1),
--- reduction.
---@class nn.SmoothL1Loss: nn.Module
---@overload fun(opts?: { beta?: number, reduction?: string }): nn.SmoothL1Loss
local SmoothL1Loss = loss("SmoothL1Loss", { reduction, { "beta", { default = 1, min = 0 } } })

SmoothL1Loss.samples = MSELoss.samples .. "{ { { beta = 0.5 } }, t(2, 3), t(2, 3) },"

function SmoothL1Loss:forward(input, target)
  return optlua.smooth_l1_loss(input, target, self.reduction, self.beta)
end

--- Half the squared differences up to delta, and from there straight on (Huber, 1964). Options: delta
--- (1), reduction.
---@class nn.HuberLoss: nn.Module
---@overload fun(opts?: { delta?: number, reduction?: string }): nn.HuberLoss
local HuberLoss = loss("HuberLoss", { reduction, { "delta", { default = 1, above = 0 } } })

HuberLoss.samples = MSELoss.samples .. "{ { { delta = 0.5 } }, t(2, 3), t(2, 3) },"

function HuberLoss:forward(input, target) return optlua.huber_loss(input, target, self.reduction, self.delta) end

--- Binary cross-entropy of probabilities and targets from 0 to 1. Options: weight (of each loss;
--- broadcasts), reduction.
---@class nn.BCELoss: nn.Module
---@overload fun(opts?: { weight?: optlua.Tensor, reduction?: string }): nn.BCELoss
local BCELoss = loss("BCELoss", { weight, reduction })

BCELoss.samples = [[
  { {}, u(2, 3):abs(), u(2, 3):abs():round():detach() },
  { { { weight = p(3):detach(), reduction = "none" } }, u(3, 2):abs():t(), u(2, 3):abs() },
  { { { reduction = "sum" } }, u():abs(), u():abs() },
]]

function BCELoss:forward(input, target)
  return optlua.binary_cross_entropy(input, target, self.weight, self.reduction)
end

--- Binary cross-entropy of sigmoid(input) and targets from 0 to 1, exact for large inputs. Options:
--- weight (of each loss), pos_weight (of targets that are 1); both broadcast; reduction.
---@class nn.BCEWithLogitsLoss: nn.Module
---@overload fun(opts?: { weight?: optlua.Tensor, pos_weight?: optlua.Tensor, reduction?: string }): nn.BCEWithLogitsLoss
local BCEWithLogitsLoss = loss("BCEWithLogitsLoss", { weight, reduction, { "pos_weight", weight[2] } })

BCEWithLogitsLoss.samples = [[
  { {}, t(2, 3), u(2, 3):abs():round():detach() },
  { { { pos_weight = p(3):detach(), reduction = "sum" } }, t(2, 3), u(2, 3):abs() },
  { { { weight = p(3):detach(), pos_weight = p(3):detach(), reduction = "none" } }, t(3, 2):t(), u(2, 3):abs() },
  { {}, t(), u():abs() },
]]

function BCEWithLogitsLoss:forward(input, target)
  return optlua.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)
end

--- Divergence of log-probabilities from a target distribution: target (log target - input). Options:
--- log_target (the target is log-probabilities too), reduction, which may be "batchmean": the sum over
--- the first dimension's size, as the divergence is defined.
---@class nn.KLDivLoss: nn.Module
---@overload fun(opts?: { log_target?: boolean, reduction?: string }): nn.KLDivLoss
local KLDivLoss = loss("KLDivLoss",
  { { "reduction", { default = "mean", choices = { "none", "mean", "sum", "batchmean" } } }, { "log_target", false } })

KLDivLoss.samples = [[
  { {}, t(2, 3), p(2, 3) },
  { { { reduction = "batchmean" } }, t(3, 2):t(), p(2, 3) },
  { { { log_target = true, reduction = "sum" } }, t(2, 3), t(2, 3) },
  { { { reduction = "none" } }, t(), p() },
]]

function KLDivLoss:forward(input, target)
  return optlua.kl_div(input, target, self.reduction, self.log_target)
end

--- A class of losses from one of measure.lua: its options are those of the function.
local function measured(name, entry)
  local class, inputs = loss(name, entry.options), #entry.inputs
  class.inputs, class.also = entry.inputs, entry.also
  function class:forward(...)
    local arguments = { ... }
    for k, option in ipairs(entry.options) do arguments[inputs + k] = self[option[1]] end
    return entry.run(table.unpack(arguments, 1, inputs + #entry.options))
  end
  return class
end

--- Pulls pairs (N, D) together where target (N) is 1, and apart where it is -1, by their cosine. Options:
--- margin (0), reduction.
---@class nn.CosineEmbeddingLoss: nn.Module
---@overload fun(opts?: { margin?: number, reduction?: string }): nn.CosineEmbeddingLoss
local CosineEmbeddingLoss = measured("CosineEmbeddingLoss", measure.cosine_embedding_loss)

CosineEmbeddingLoss.samples = [[
  { {}, t(4, 3), t(4, 3), i({ 4 }, 2) * 2 - 1 },
  { { { margin = -0.5, reduction = "none" } }, t(3, 4):t(), t(4, 3), i({ 4 }, 2) * 2 - 1 },
  { { { reduction = "sum" } }, t(3), t(3), optlua.tensor(-1.0) },
]]

--- Keeps an anchor (N, D) nearer to a positive than to a negative, by a margin (Balntas et al., 2016).
--- Options: margin (1), p (2), eps, swap, reduction.
---@class nn.TripletMarginLoss: nn.Module
---@overload fun(opts?: { margin?: number, p?: number, eps?: number, swap?: boolean, reduction?: string }): nn.TripletMarginLoss
local TripletMarginLoss = measured("TripletMarginLoss", measure.triplet_margin_loss)

TripletMarginLoss.samples = [[
  { {}, t(4, 3), t(4, 3), t(4, 3) },
  { { { margin = 2.5, swap = true, reduction = "none" } }, t(3, 4):t(), t(4, 3), t(4, 3) },
  { { { p = 1, reduction = "sum" } }, t(3), t(3), t(3) },
]]

--- Wants input1 above input2 by a margin where target is 1, below it where it is -1. Options: margin
--- (0), reduction.
---@class nn.MarginRankingLoss: nn.Module
---@overload fun(opts?: { margin?: number, reduction?: string }): nn.MarginRankingLoss
local MarginRankingLoss = measured("MarginRankingLoss", measure.margin_ranking_loss)

MarginRankingLoss.samples = [[
  { {}, t(5), t(5), i({ 5 }, 2) * 2 - 1 },
  { { { margin = 0.7, reduction = "none" } }, t(3, 2):t(), t(2, 3), i({ 2, 3 }, 2) * 2 - 1 },
  { { { reduction = "sum" } }, t(), t(), i({}, 2) * 2 - 1 },
]]

--- The input where target is 1, max(0, margin - input) where it is -1. Options: margin (1), reduction.
---@class nn.HingeEmbeddingLoss: nn.Module
---@overload fun(opts?: { margin?: number, reduction?: string }): nn.HingeEmbeddingLoss
local HingeEmbeddingLoss = measured("HingeEmbeddingLoss", measure.hinge_embedding_loss)

HingeEmbeddingLoss.samples = [[
  { {}, t(5), i({ 5 }, 2) * 2 - 1 },
  { { { margin = 0.7, reduction = "none" } }, t(3, 2):t(), i({ 2, 3 }, 2) * 2 - 1 },
]]

--- Minus the log-likelihood of counts under Poisson distributions of rate exp(input), or input. Options:
--- log_input (true), full (false), eps, reduction.
---@class nn.PoissonNLLLoss: nn.Module
---@overload fun(opts?: { log_input?: boolean, full?: boolean, eps?: number, reduction?: string }): nn.PoissonNLLLoss
local PoissonNLLLoss = measured("PoissonNLLLoss", measure.poisson_nll_loss)

PoissonNLLLoss.samples = [[
  { {}, t(2, 3), p(2, 3) },
  { { { log_input = false, full = true } }, p(2, 3), p(2, 3) * 3 },
  { { { full = true, reduction = "none" } }, t(3, 2):t(), optlua.tensor { { 0.0, 1, 2 }, { 3, 0, 7 } } },
]]

--- Minus the log-likelihood of targets under normal distributions of mean input and variance var (of the
--- input's shape, or one for each row; or a number). Options: full (false), eps, reduction.
---@class nn.GaussianNLLLoss: nn.Module
---@overload fun(opts?: { full?: boolean, eps?: number, reduction?: string }): nn.GaussianNLLLoss
local GaussianNLLLoss = measured("GaussianNLLLoss", measure.gaussian_nll_loss)

GaussianNLLLoss.samples = [[
  { {}, t(2, 3), t(2, 3), p(2, 3) },
  { { { full = true, reduction = "none" } }, t(3, 2):t(), c(2, 3), p(2) },
  { { { reduction = "sum" } }, t(2, 3), c(2, 3), p(2, 1) },
  { { { eps = 0.5 } }, t(2, 3), c(2, 3), p(2, 3), without_differences = "a variance below eps keeps its gradient" },
]]

--- Connectionist temporal classification (Graves et al., 2006): minus the log-probability of all ways to
--- emit the targets in order, with repeats and blanks between. Takes log-probabilities (T, N, C) or (T, C),
--- targets (N, S), (S), or those of all samples in a row, and how many steps and targets of each sample
--- count. Options: blank (0), zero_infinity (samples that cannot be emitted count 0), reduction; the mean
--- divides each loss by the length of its target first.
---@class nn.CTCLoss: nn.Module
---@overload fun(opts?: { blank?: integer, zero_infinity?: boolean, reduction?: string }): nn.CTCLoss
local CTCLoss = measured("CTCLoss", measure.ctc_loss)

CTCLoss.samples = [[
  { {}, t(5, 2, 4):log_softmax(3), i({ 2, 2 }, 3) + 1, { 5, 4 }, { 2, 1 },
    without_differences = "the gradient is that behind log_softmax; see ctc_spec" },
  { { { blank = 2, reduction = "none", zero_infinity = true } }, t(2, 3, 3):log_softmax(3), i({ 6 }, 2), { 2, 2, 1 },
    { 2, 1, 3 }, without_differences = "as above" },
  { { { reduction = "sum" } }, t(5, 4):log_softmax(2), i({ 2 }, 3) + 1, { 5 }, { 2 }, without_differences = "as above" },
]]

return {
  CrossEntropyLoss = CrossEntropyLoss,
  NLLLoss = NLLLoss,
  MSELoss = MSELoss,
  L1Loss = L1Loss,
  SmoothL1Loss = SmoothL1Loss,
  HuberLoss = HuberLoss,
  BCELoss = BCELoss,
  BCEWithLogitsLoss = BCEWithLogitsLoss,
  KLDivLoss = KLDivLoss,
  CosineEmbeddingLoss = CosineEmbeddingLoss,
  TripletMarginLoss = TripletMarginLoss,
  MarginRankingLoss = MarginRankingLoss,
  HingeEmbeddingLoss = HingeEmbeddingLoss,
  PoissonNLLLoss = PoissonNLLLoss,
  GaussianNLLLoss = GaussianNLLLoss,
  CTCLoss = CTCLoss,
}
