--- uniform: the uniform distribution over an interval.
local optlua = require "optlua"
local distribution = require "optlua.distributions.distribution"

--- Uniform(low, high): from low to below high, tensors that broadcast, or numbers.
---@class optlua.Uniform: optlua.Distribution
---@field low optlua.Tensor
---@field high optlua.Tensor
local Uniform = distribution.class("Uniform", { "low", "high" }, {
  mean = function(self) return (self.high + self.low) / 2 end,
  variance = function(self) return (self.high - self.low):square() / 12 end,
  stddev = function(self) return (self.high - self.low) / math.sqrt(12) end,
})
Uniform._differentiable = true

function Uniform:init(...)
  distribution.parameters(self, Uniform, ...)
  distribution.demand("Uniform", "high", self.high:gt(self.low), "above low")
end

function Uniform:_draw(shape)
  return self.low + optlua.rand(shape, { dtype = self._dtype }) * (self.high - self.low)
end

--- The logarithm of the density: -infinity outside.
---@param value optlua.Tensor|number broadcasts with the batch shape
---@return optlua.Tensor
function Uniform:log_prob(value)
  value = self:_value(value)
  local inside = value:ge(self.low):logical_and(value:lt(self.high))
  return inside:to(self._dtype):log() - (self.high - self.low):log()
end

--- The differential entropy, in nats.
---@return optlua.Tensor
function Uniform:entropy() return (self.high - self.low):log() end

--- The divergence of another Uniform: infinite where that does not cover this.
function Uniform:_kl(other)
  local result = ((other.high - other.low) / (self.high - self.low)):log()
  return optlua.where(other.low:gt(self.low):logical_or(other.high:lt(self.high)), math.huge, result)
end

return Uniform
