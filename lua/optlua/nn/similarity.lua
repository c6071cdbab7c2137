--- similarity: how alike two tensors are, as layers.
local measure = require "optlua.nn.measure"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"

--- The cosine of the angle between x1 and x2 along a dimension; norms are at least eps.
---@class nn.CosineSimilarity: nn.Module
local CosineSimilarity = module.class "CosineSimilarity"

CosineSimilarity.signature = signature.new("nn.CosineSimilarity", measure.cosine_similarity.options)

function CosineSimilarity:init(...)
  local args = self.signature:read(...)
  self.dim = args.dim
  self.eps = args.eps
end

CosineSimilarity.inputs = measure.cosine_similarity.inputs
CosineSimilarity.samples = [[
  { {}, t(4, 3), t(4, 3) },
  { { { dim = 1 } }, t(3, 4):t(), t(4, 3) },
  { { -1, { eps = 2.5 } }, t(2, 3, 4), t(2, 3, 4), without_differences = "a norm below eps keeps its gradient" },
]]

function CosineSimilarity:forward(x1, x2) return measure.cosine_similarity.run(x1, x2, self.dim, self.eps) end

--- The p-norm of x1 - x2 + eps over the last dimension: (…, D) -> (…).
---@class nn.PairwiseDistance: nn.Module
local PairwiseDistance = module.class "PairwiseDistance"

PairwiseDistance.signature = signature.new("nn.PairwiseDistance", measure.pairwise_distance.options)

function PairwiseDistance:init(...)
  local args = self.signature:read(...)
  self.p = args.p
  self.eps = args.eps
  self.keepdim = args.keepdim
end

PairwiseDistance.inputs = measure.pairwise_distance.inputs
PairwiseDistance.samples = [[
  { {}, t(4, 3), t(4, 3) },
  { { 1, { keepdim = true } }, t(3, 4):t(), t(4, 3) },
  { { { p = 3 } }, t(3), t(3) },
]]

function PairwiseDistance:forward(x1, x2)
  return measure.pairwise_distance.run(x1, x2, self.p, self.eps, self.keepdim)
end

return { CosineSimilarity = CosineSimilarity, PairwiseDistance = PairwiseDistance }
