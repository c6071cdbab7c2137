--- exponential: the exponential distribution.
local optlua = require "optlua"
local distribution = require "optlua.distributions.distribution"

--- Exponential(rate): the time between events of which `rate` happen in a unit; a tensor or a number.
---@class optlua.Exponential: optlua.Distribution
---@field rate optlua.Tensor
local Exponential = distribution.class("Exponential", { "rate" }, {
  mean = function(self) return self.rate:reciprocal() end,
  stddev = function(self) return self.rate:reciprocal() end,
  variance = function(self) return self.rate:pow(-2) end,
})
Exponential._differentiable = true

function Exponential:init(...)
  distribution.parameters(self, Exponential, ...)
  distribution.demand("Exponential", "rate", self.rate:gt(0), "positive")
end

function Exponential:_draw(shape)
  return -(-optlua.rand(shape, { dtype = self._dtype })):log1p() / self.rate
end

--- The logarithm of the density, -infinity of negative values.
---@param value optlua.Tensor|number broadcasts with the batch shape
---@return optlua.Tensor
function Exponential:log_prob(value)
  value = self:_value(value)
  return optlua.where(value:lt(0), -math.huge, self.rate:log() - self.rate * value)
end

--- The differential entropy, in nats.
---@return optlua.Tensor
function Exponential:entropy() return 1 - self.rate:log() end

--- The divergence of another Exponential.
function Exponential:_kl(other)
  local ratio = other.rate / self.rate
  return ratio - 1 - ratio:log()
end

return Exponential
