--- measure: similarities and losses that are a few ops of Lua: the functions, and what they take.
---
--- `measure.NAME` is { inputs, options, run, also }: the names of its tensors, its options as { name,
--- description } in PyTorch's order, the function of both by position, which checks nothing, and what
--- else than a tensor an input may be, by its name.
--- nn.functional makes checked functions of them, and loss.lua layers.
local optlua = require "optlua"
local blame = require "optlua.blame"
local shape_text = require("optlua.shape").text

local measure = {}

local reduction = { "reduction", { default = "mean", choices = { "none", "mean", "sum" } } }

local function number(name, default) return { name, { default = default } } end
local function not_negative(name, default) return { name, { default = default, min = 0 } } end
local function positive(name, default) return { name, { default = default, above = 0 } } end

local function reduce(x, how)
  if how == "mean" then return x:mean() end
  return how == "sum" and x:sum() or x
end

--- x, at least floor; gradients flow as if it had not been raised.
local function raise(x, floor)
  local raised = x:clone()
  optlua.no_grad(function() raised:clamp_(floor) end)
  return raised
end

local function distance(x1, x2, p, eps, keepdim) return (x1 - x2 + eps):norm(p, -1, keepdim) end

--- The p-norm of x1 - x2 + eps over the last dimension: (…, D) and (…, D) -> (…).
measure.pairwise_distance = {
  inputs = { "x1", "x2" },
  options = { not_negative("p", 2), number("eps", 1e-6), { "keepdim", false } },
  run = distance,
}

--- The cosine of the angle between x1 and x2 along dim; norms are at least eps.
measure.cosine_similarity = {
  inputs = { "x1", "x2" },
  options = { { "dim", { default = 2, integer = true } }, not_negative("eps", 1e-8) },
  run = function(x1, x2, dim, eps)
    local function unit(x) return x / raise(x:norm(2, dim, true), eps) end
    return (unit(x1) * unit(x2)):sum(dim)
  end,
}

--- 1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1: (N, D), (N, D), (N),
--- or (D), (D), ().
measure.cosine_embedding_loss = {
  inputs = { "input1", "input2", "target" },
  options = { number("margin", 0), reduction },
  run = function(input1, input2, target, margin, how)
    local squares = (input1:square():sum(-1) + 1e-12) * (input2:square():sum(-1) + 1e-12)
    local cosine = (input1 * input2):sum(-1) / squares:sqrt()
    local near = optlua.where(target:eq(1), 1 - cosine, 0)
    return reduce(near + optlua.where(target:eq(-1), (cosine - margin):clamp(0), 0), how)
  end,
}

--- max(0, margin + d(anchor, positive) - d(anchor, negative)), with d the pairwise distance (Balntas et
--- al., 2016). swap: the negative's distance is the smaller of those to anchor and to positive.
measure.triplet_margin_loss = {
  inputs = { "anchor", "positive", "negative" },
  options = {
    positive("margin", 1), not_negative("p", 2), number("eps", 1e-6), { "swap", false }, reduction,
  },
  run = function(anchor, alike, negative, margin, p, eps, swap, how)
    local near, far = distance(anchor, alike, p, eps), distance(anchor, negative, p, eps)
    if swap then far = far:minimum(distance(alike, negative, p, eps)) end
    return reduce((near - far + margin):clamp(0), how)
  end,
}

--- max(0, margin - target (input1 - input2)): target 1 wants input1 greater, -1 input2.
measure.margin_ranking_loss = {
  inputs = { "input1", "input2", "target" },
  options = { number("margin", 0), reduction },
  run = function(input1, input2, target, margin, how)
    return reduce((target * (input2 - input1) + margin):clamp(0), how)
  end,
}

--- input where target is 1, max(0, margin - input) where it is -1.
measure.hinge_embedding_loss = {
  inputs = { "input", "target" },
  options = { number("margin", 1), reduction },
  run = function(input, target, margin, how)
    local near = optlua.where(target:ne(-1), input, 0)
    return reduce(near + optlua.where(target:ne(1), (margin - input):clamp(0), 0), how)
  end,
}

--- Stirling's approximation of log(y!), 0 up to y = 1.
local function stirling(y)
  local above = y:clamp(1)
  return optlua.where(y:gt(1), above * above:log() - above + (above * (2 * math.pi)):log() * 0.5, 0)
end

--- Minus the log-likelihood of counts: exp(input) - target input, or, with log_input = false, input -
--- target log(input + eps). full: with Stirling's approximation of log(target!).
measure.poisson_nll_loss = {
  inputs = { "input", "target" },
  options = { { "log_input", true }, { "full", false }, not_negative("eps", 1e-8), reduction },
  run = function(input, target, log_input, full, eps, how)
    local loss = log_input and input:exp() - target * input or input - target * (input + eps):log()
    return reduce(full and loss + stirling(target) or loss, how)
  end,
}

--- All sizes but the last.
local function front(shape) return shape_text { table.unpack(shape, 1, #shape - 1) } end

--- A variance as a tensor that fits the input: of its shape, without its last dimension, or with that of
--- size 1. It is at least eps.
local function variance(input, var, eps)
  if type(var) == "number" then var = optlua.full(input.shape, var, { dtype = input.dtype }) end
  local shape, own = input.shape, var.shape
  if #own == #shape - 1 and shape_text(own) == front(shape) then
    var = var:unsqueeze(-1)
  elseif #own ~= #shape or front(own) ~= front(shape) or (own[#own] ~= shape[#own] and own[#own] ~= 1) then
    blame(("gaussian_nll_loss: var of shape %s does not fit the input's shape %s"):format(
      shape_text(own), shape_text(shape)))
  end
  if var:lt(0):any():item() ~= 0 then blame "gaussian_nll_loss: var has a negative element" end
  return raise(var, eps)
end

--- Minus the log-likelihood under normal distributions (Nix & Weigend, 1994): ½ (log var + (input -
--- target)² / var); full: with the constant ½ log 2π.
measure.gaussian_nll_loss = {
  inputs = { "input", "target", "var" },
  also = { var = "number" },
  options = { { "full", false }, positive("eps", 1e-6), reduction },
  run = function(input, target, var, full, eps, how)
    var = variance(input, var, eps)
    local loss = (var:log() + (input - target):square() / var) * 0.5
    return reduce(full and loss + 0.5 * math.log(2 * math.pi) or loss, how)
  end,
}

local function integers(value)
  if optlua.is_tensor(value) then return value end
  return optlua.tensor(value, { dtype = "int64" })
end

--- Connectionist temporal classification (Graves et al., 2006) of log-probabilities (T, N, C) or (T, C),
--- and targets (N, S), (S), or those of all samples in a row: classes from 0, without blanks. Lengths are
--- (N): tensors, lists, or one number for a sample alone. See optlua.ctc_loss.
measure.ctc_loss = {
  inputs = { "log_probs", "targets", "input_lengths", "target_lengths" },
  also = { input_lengths = "number|table", target_lengths = "number|table" },
  options = { { "blank", { default = 0, integer = true, min = 0 } }, reduction, { "zero_infinity", false } },
  run = function(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)
    return optlua.ctc_loss(log_probs, targets, integers(input_lengths), integers(target_lengths), blank, how,
      zero_infinity)
  end,
}

return measure
