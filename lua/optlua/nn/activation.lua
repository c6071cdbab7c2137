--- activation: elementwise nonlinearities as layers.
local module = require "optlua.nn.module"

--- A layer that calls one method of its input.
local function layer(name, method)
  local class = module.class(name)
  function class:init(opts) module.options("nn." .. name, opts, {}) end
  function class:forward(x) return x[method](x) end
  return class
end

--- Gaussian error linear unit (Hendrycks & Gimpel, 2016): x Φ(x), or its tanh approximation.
---@class nn.GELU: nn.Module
local GELU = module.class "GELU"

---@param opts? { approximate?: "none"|"tanh" }
function GELU:init(opts)
  opts = module.options("nn.GELU", opts, { approximate = { default = "none", choices = { "none", "tanh" } } })
  self.approximate = opts.approximate
end

function GELU:forward(x) return x:gelu { approximate = self.approximate } end

function GELU:extra_repr() return ("approximate='%s'"):format(self.approximate) end

return {
  ReLU = layer("ReLU", "relu"),
  Tanh = layer("Tanh", "tanh"),
  Sigmoid = layer("Sigmoid", "sigmoid"),
  SiLU = layer("SiLU", "silu"),
  GELU = GELU,
}
