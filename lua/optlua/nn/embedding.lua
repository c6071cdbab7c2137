--- embedding: rows looked up by number.
local optlua = require "optlua"
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"

--- ids (…) of int64, from 0 -> (…, embedding_dim): rows of weight (num_embeddings, embedding_dim),
--- standard normal at first. The row of padding_idx is zero at first and gets no gradient.
---@class nn.Embedding: nn.Module
---@field weight optlua.Tensor
---@overload fun(num_embeddings: integer, embedding_dim: integer, padding_idx?: integer|table, dtype?: string): nn.Embedding
local Embedding = module.class "Embedding"
Embedding.role = "embedding"

Embedding.signature = signature.new("nn.Embedding", {
  { "num_embeddings", module.size }, { "embedding_dim", module.size },
  { "padding_idx", { required = false, type = "integer", doc = "counts from 0, as ids do" } }, { "dtype", "float32" },
})

function Embedding:init(...)
  local opts = self.signature:read(...)
  self.num_embeddings = opts.num_embeddings
  self.embedding_dim = opts.embedding_dim
  local weight = optlua.randn({ self.num_embeddings, self.embedding_dim }, { dtype = opts.dtype })
  if opts.padding_idx then
    local id = opts.padding_idx
    if id < -self.num_embeddings or id >= self.num_embeddings then
      blame(("nn.Embedding: padding_idx %d is not one of the ids 0 … %d"):format(id, self.num_embeddings - 1))
    end
    self.padding_idx = id % self.num_embeddings
    weight[self.padding_idx + 1] = 0
  end
  self.weight = module.Parameter(weight)
end

Embedding.samples = [[
  { { 5, 3 }, i({ 2, 4 }, 5) },
  { { 5, 3, { padding_idx = 1 } }, i({ 6 }, 5), without_differences = "the row of padding_idx gets no gradient" },
  { { 5, 3 }, i({ 0 }, 5) },
]]

function Embedding:forward(ids)
  return optlua.embedding(ids, self.weight, { padding_idx = self.padding_idx })
end

function Embedding:extra_repr()
  return ("%d, %d%s"):format(self.num_embeddings, self.embedding_dim,
    self.padding_idx and ", padding_idx=" .. self.padding_idx or "")
end

return { Embedding = Embedding }
