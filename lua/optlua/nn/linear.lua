--- linear: affine maps.
local optlua = require "optlua"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"

--- y = x Wᵀ + b: (…, in_features) -> (…, out_features). Parameters weight (out, in) and bias (out),
--- uniform in ±1/√in at first, as PyTorch has them (He et al., 2015, with a = √5).
---@class nn.Linear: nn.Module
---@field weight optlua.Tensor
---@field bias optlua.Tensor|nil
---@overload fun(in_features: integer, out_features: integer, bias?: boolean|table, dtype?: string): nn.Linear
local Linear = module.class "Linear"

Linear.signature = signature.new("nn.Linear", {
  { "in_features", module.size }, { "out_features", module.size }, { "bias", true }, { "dtype", "float32" },
})

function Linear:init(...)
  local opts = self.signature:read(...)
  self.in_features = opts.in_features
  self.out_features = opts.out_features
  local bound = self.in_features > 0 and 1 / math.sqrt(self.in_features) or 0
  local function uniform(...)
    return module.Parameter(optlua.zeros({ ... }, { dtype = opts.dtype }):uniform_(-bound, bound))
  end
  self.weight = uniform(self.out_features, self.in_features)
  if opts.bias then self.bias = uniform(self.out_features) end
end

Linear.samples = [[
  { { 3, 2 }, t(4, 3) },
  { { 3, 2, { bias = false } }, t(2, 4, 3) },
  { { 3, 2 }, t(3) },
  { { 3, 2 }, t(3, 4):t() },
  { { 3, 2 }, t(0, 3) },
]]

function Linear:forward(x) return optlua.linear(x, self.weight, self.bias) end

function Linear:extra_repr()
  return ("in_features=%d, out_features=%d, bias=%s"):format(self.in_features, self.out_features, self.bias ~= nil)
end

--- Hands its input on. Arguments are ignored, so that it can stand for any other layer.
---@class nn.Identity: nn.Module
local Identity = module.class "Identity"

Identity.inputs = {} -- anything
Identity.samples = "{ {}, t(2, 3) }"

function Identity:forward(x) return x end

return { Linear = Linear, Identity = Identity }
