--- categorical: one of K classes.
local optlua = require "optlua"
local blame = require "optlua.blame"
local distribution = require "optlua.distributions.distribution"

local fields = {}

--- One of the classes 0 … K-1 with probabilities `probs` (…, K), which are divided by their sum, or with
--- unnormalised log-probabilities `logits` (…, K): Categorical(probs) or Categorical { logits = x }.
--- Fields: probs and logits, both normalised; num_events is K; mean and variance are NaN.
---@class optlua.Categorical: optlua.Distribution
---@field probs optlua.Tensor
---@field logits optlua.Tensor
---@field num_events integer
local Categorical = distribution.class("Categorical", distribution.probs_or_logits, fields)

local lowest = { float32 = -0x1.fffffep127, float64 = -0x1.fffffffffffffp1023 }

function Categorical:init(...)
  local which, value = distribution.either(Categorical, ...)
  local shape = value.shape
  if #shape == 0 or shape[#shape] == 0 then blame(("Categorical: %s has no classes"):format(which)) end
  if which == "probs" then
    distribution.demand("Categorical", "probs", value:ge(0), "at least 0")
    value = value / value:sum(-1, true)
    distribution.demand("Categorical", "probs", value:le(1), "finite, and their sum positive")
  else
    distribution.demand("Categorical", "logits", value:lt(math.huge), "a number below infinity")
    value = value:log_softmax(-1)
    distribution.demand("Categorical", "logits", value:le(0), "a number, and not all of a row -infinity")
  end
  self[which] = value
  self._dtype, self.num_events = value.dtype, shape[#shape]
  self.batch_shape = table.move(shape, 1, #shape - 1, 1, {})
end

function fields:probs() return self.logits:softmax(-1) end

function fields:logits()
  local epsilon = distribution.epsilon(self._dtype)
  return self.probs:clamp(epsilon, 1 - epsilon):log()
end

function fields:mean() return optlua.full(self.batch_shape, 0 / 0, { dtype = self._dtype }) end

fields.variance = fields.mean

--- The most likely class.
function fields:mode() return self.probs:argmax(-1) end

function Categorical:_draw(shape)
  local batch, count = 1, 1
  for _, size in ipairs(self.batch_shape) do batch = batch * size end
  for d = 1, #shape - #self.batch_shape do count = count * shape[d] end
  if batch * count == 0 then return optlua.zeros(shape, { dtype = "int64" }) end
  local drawn = self.probs:detach():reshape(batch, self.num_events):multinomial(count, true) -- (batch, count)
  return drawn:t():reshape(shape)
end

--- The logarithm of the probability of classes.
---@param value optlua.Tensor|integer int64, from 0; broadcasts with the batch shape
---@return optlua.Tensor
function Categorical:log_prob(value)
  value = self:_value(value, "int64")
  if value:is_floating_point() then
    blame(('Categorical: value is %s; classes are int64 (value:to("int64"))'):format(value.dtype))
  end
  local shape = distribution.broadcast("Categorical: value and batch", { value.shape, self.batch_shape })
  local logits = self.logits:expand(table.move({ self.num_events }, 1, 1, #shape + 1, { table.unpack(shape) }))
  return logits:gather(-1, value:expand(shape):unsqueeze(-1)):squeeze(-1)
end

--- The entropy, in nats.
---@return optlua.Tensor
function Categorical:entropy()
  return -(self.logits:clamp(lowest[self._dtype]) * self.probs):sum(-1)
end

--- The divergence of another Categorical of as many classes.
function Categorical:_kl(other)
  local each = self.probs * (self.logits - other.logits)
  each = optlua.where(other.probs:eq(0), math.huge, each)
  return optlua.where(self.probs:eq(0), 0, each):sum(-1)
end

return Categorical
