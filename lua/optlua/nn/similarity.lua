--- similarity: how alike two tensors are, as layers.
local measure = require "optlua.nn.measure"
local module = require "optlua.nn.module"

--- The cosine of the angle between x1 and x2 along a dimension; norms are at least eps.
---@class nn.CosineSimilarity: nn.Module
local CosineSimilarity = module.class "CosineSimilarity"

---@param dim? integer|table default 2; or the options
---@param opts? { dim?: integer, eps?: number } eps: 1e-8
function CosineSimilarity:init(dim, opts)
  if type(dim) == "table" then dim, opts = nil, dim end
  opts = module.options("nn.CosineSimilarity", opts, {
    dim = { default = dim or 2, integer = true }, eps = { default = 1e-8, min = 0 },
  })
  self.dim = module.argument("nn.CosineSimilarity", "dim", opts.dim, { default = 2, integer = true })
  self.eps = opts.eps
end

CosineSimilarity.samples = [[
  { {}, t(4, 3), t(4, 3) },
  { { { dim = 1 } }, t(3, 4):t(), t(4, 3) },
  { { -1, { eps = 2.5 } }, t(2, 3, 4), t(2, 3, 4), without_differences = "a norm below eps keeps its gradient" },
]]

function CosineSimilarity:forward(x1, x2) return measure.cosine_similarity.run(x1, x2, self.dim, self.eps) end

--- The p-norm of x1 - x2 + eps over the last dimension: (…, D) -> (…).
---@class nn.PairwiseDistance: nn.Module
local PairwiseDistance = module.class "PairwiseDistance"

---@param p? number|table default 2; or the options
---@param opts? { p?: number, eps?: number, keepdim?: boolean } eps: 1e-6
function PairwiseDistance:init(p, opts)
  if type(p) == "table" then p, opts = nil, p end
  opts = module.options("nn.PairwiseDistance", opts, {
    p = { default = p or 2, min = 0 }, eps = 1e-6, keepdim = false,
  })
  self.p = module.argument("nn.PairwiseDistance", "p", opts.p, { default = 2, min = 0 })
  self.eps = opts.eps
  self.keepdim = opts.keepdim
end

PairwiseDistance.samples = [[
  { {}, t(4, 3), t(4, 3) },
  { { 1, { keepdim = true } }, t(3, 4):t(), t(4, 3) },
  { { { p = 3 } }, t(3), t(3) },
]]

function PairwiseDistance:forward(x1, x2)
  return measure.pairwise_distance.run(x1, x2, self.p, self.eps, self.keepdim)
end

return { CosineSimilarity = CosineSimilarity, PairwiseDistance = PairwiseDistance }
