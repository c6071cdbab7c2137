--- normal: the normal distribution.
local optlua = require "optlua"
local distribution = require "optlua.distributions.distribution"

local half_log_2pi = 0.5 * math.log(2 * math.pi)

--- Normal(loc, scale): mean loc and standard deviation scale, tensors that broadcast, or numbers.
---@class optlua.Normal: optlua.Distribution
---@field loc optlua.Tensor
---@field scale optlua.Tensor
local Normal = distribution.class("Normal", { "loc", "scale" }, {
  mean = function(self) return self.loc end,
  stddev = function(self) return self.scale end,
  variance = function(self) return self.scale:square() end,
  mode = function(self) return self.loc end,
})
Normal._differentiable = true

function Normal:init(...)
  distribution.parameters(self, Normal, ...)
  distribution.demand("Normal", "loc", self.loc:isfinite(), "finite")
  distribution.demand("Normal", "scale", self.scale:gt(0), "positive")
end

function Normal:_draw(shape)
  return self.loc + optlua.randn(shape, { dtype = self._dtype }) * self.scale
end

--- The logarithm of the density.
---@param value optlua.Tensor|number broadcasts with the batch shape
---@return optlua.Tensor
function Normal:log_prob(value)
  local distance = (self:_value(value) - self.loc) / self.scale
  return distance:square() * -0.5 - self.scale:log() - half_log_2pi
end

--- The differential entropy, in nats.
---@return optlua.Tensor
function Normal:entropy() return self.scale:log() + (0.5 + half_log_2pi) end

--- The divergence of another Normal.
function Normal:_kl(other)
  local ratio = (self.scale / other.scale):square()
  local distance = ((self.loc - other.loc) / other.scale):square()
  return (ratio + distance - 1 - ratio:log()) * 0.5
end

return Normal
