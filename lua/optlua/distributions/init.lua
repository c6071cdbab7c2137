--- distributions: random numbers with parameters: samples, densities, entropies, divergences.
---
--- Parameters are tensors and broadcast to the batch shape; gradients flow to them through log_prob,
--- entropy, kl_divergence and rsample.
local blame = require "optlua.blame"
local options = require "optlua.options"
local distribution = require "optlua.distributions.distribution"

local classes = { "Categorical", "Normal", "Bernoulli", "Uniform", "Exponential" }

local distributions = {}
for _, name in ipairs(classes) do distributions[name] = require("optlua.distributions." .. name:lower()) end

--- The Kullback-Leibler divergence of p from q, two distributions of one class, in nats: the mean under p
--- of log p - log q.
---@param p optlua.Distribution
---@param q optlua.Distribution
---@return optlua.Tensor # of the shape that the batch shapes broadcast to
function distributions.kl_divergence(p, q)
  for _, name in ipairs(classes) do
    local class = distributions[name]
    if distribution.is(p, class) and distribution.is(q, class) then return p:_kl(q) end
  end
  blame(("kl_divergence: two distributions of one class expected, got %s and %s"):format(
    type(p) == "table" and p.name or type(p), type(q) == "table" and q.name or type(q)))
end

return options.strict("distributions", distributions)
