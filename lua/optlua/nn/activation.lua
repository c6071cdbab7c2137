--- activation: elementwise nonlinearities as layers.
local module = require "optlua.nn.module"

--- A layer that calls one method of its input and has no options.
local function layer(name, method)
  local class = module.class(name)
  class.samples = "{ {}, t(2, 3) }, { {}, t(3, 2):t() }, { {}, t() }, { {}, t(0, 3) }"
  function class:init(opts) module.options("nn." .. name, opts, {}) end
  function class:forward(x) return x[method](x) end
  return class
end

--- Rectified linear unit: max(x, 0).
---@class nn.ReLU: nn.Module
local ReLU = layer("ReLU", "relu")

--- Hyperbolic tangent.
---@class nn.Tanh: nn.Module
local Tanh = layer("Tanh", "tanh")

--- Logistic function: 1 / (1 + exp(-x)).
---@class nn.Sigmoid: nn.Module
local Sigmoid = layer("Sigmoid", "sigmoid")

--- Sigmoid linear unit, also swish (Elfwing et al., 2017): x sigmoid(x).
---@class nn.SiLU: nn.Module
local SiLU = layer("SiLU", "silu")

--- Gaussian error linear unit (Hendrycks & Gimpel, 2016): x Φ(x), or its tanh approximation.
---@class nn.GELU: nn.Module
local GELU = module.class "GELU"

---@param opts? { approximate?: "none"|"tanh" }
function GELU:init(opts)
  opts = module.options("nn.GELU", opts, { approximate = { default = "none", choices = { "none", "tanh" } } })
  self.approximate = opts.approximate
end

GELU.samples = [[
  { {}, t(2, 3) }, { {}, t(3, 2):t() }, { {}, t() }, { {}, t(0, 3) },
  { { { approximate = "tanh" } }, t(2, 3) },
]]

function GELU:forward(x) return x:gelu(self.approximate) end

function GELU:extra_repr() return ("approximate='%s'"):format(self.approximate) end

return { ReLU = ReLU, Tanh = Tanh, Sigmoid = Sigmoid, SiLU = SiLU, GELU = GELU }
