--- bernoulli: 0 or 1.
local optlua = require "optlua"
local distribution = require "optlua.distributions.distribution"

local fields = {}

--- 1 with probability `probs`, else 0: Bernoulli(probs) or Bernoulli { logits = x }, the logarithms of
--- the odds. Samples are floats.
---@class optlua.Bernoulli: optlua.Distribution
---@field probs optlua.Tensor
---@field logits optlua.Tensor
local Bernoulli = distribution.class("Bernoulli", distribution.probs_or_logits, fields)

function Bernoulli:init(...)
  local which, value = distribution.either(Bernoulli, ...)
  if which == "probs" then
    distribution.demand("Bernoulli", "probs", value:ge(0):logical_and(value:le(1)), "from 0 to 1")
  else
    distribution.demand("Bernoulli", "logits", value:eq(value), "a number")
  end
  self[which] = value
  self._dtype = value.dtype
  self.batch_shape = value.shape
end

function fields:probs() return self.logits:sigmoid() end

function fields:logits()
  local epsilon = distribution.epsilon(self._dtype)
  local probs = self.probs:clamp(epsilon, 1 - epsilon)
  return probs:log() - (-probs):log1p()
end

function fields:mean() return self.probs end

function fields:variance() return self.probs * (1 - self.probs) end

function Bernoulli:_draw(shape) return self.probs:detach():expand(shape):bernoulli() end

--- Minus the cross-entropy of a share of ones.
local function log_likelihood(logits, share)
  return (share - 1) * logits - (-logits):softplus(1, 40)
end

--- The logarithm of the probability of zeros and ones; -infinity of other values.
---@param value optlua.Tensor|number broadcasts with the batch shape
---@return optlua.Tensor
function Bernoulli:log_prob(value)
  value = self:_value(value)
  return optlua.where(value:mul(value - 1):ne(0), -math.huge, log_likelihood(self.logits, value))
end

--- The entropy, in nats.
---@return optlua.Tensor
function Bernoulli:entropy() return -log_likelihood(self.logits, self.probs) end

--- p (log p - log q), 0 where p is 0.
local function share(p, log_p, log_q)
  return optlua.where(p:eq(0), 0, p * (log_p - log_q))
end

--- The divergence of another Bernoulli.
function Bernoulli:_kl(other)
  local function log_one(x) return -(-x.logits):softplus(1, 40) end
  local function log_zero(x) return -x.logits:softplus(1, 40) end
  local result = share(self.probs, log_one(self), log_one(other))
    + share(1 - self.probs, log_zero(self), log_zero(other))
  local impossible = other.probs:eq(0):logical_and(self.probs:ne(0))
    :logical_or(other.probs:eq(1):logical_and(self.probs:ne(1)))
  return optlua.where(impossible, math.huge, result)
end

return Bernoulli
