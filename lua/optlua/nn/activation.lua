--- activation: nonlinearities as layers.
local optlua = require "optlua"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"

local elementwise = "{ %s, t(3, 4) }, { %s, t(4, 3):t() }, { %s, t(0, 3) }"

--- A layer that calls an op on its input.
--
-- arguments: { name, schema entry } of each argument of the op after the input, in PyTorch's order; they
-- are fields of the layer. in_place: whether `inplace`, last, chooses the op's form that overwrites the
-- input. samples: default elementwise ones; given: arguments for them.
---@param name string the class
---@param op string
---@param form? { arguments?: table[], in_place?: boolean, given?: string, samples?: string }
---@return table class
local function layer(name, op, form)
  form = form or {}
  local arguments = form.arguments or {}
  local class, list, count = module.class(name), table.move(arguments, 1, #arguments, 1, {}), #arguments
  local first, second = list[1] and list[1][1], list[2] and list[2][1]
  if count > 2 then error(("layer %s: forward passes on at most 2 arguments, got %d"):format(name, count)) end
  if form.in_place then list[count + 1] = { "inplace", false } end
  class.signature = signature.new("nn." .. name, list)
  local plain, over = optlua[op], form.in_place and optlua[op .. "_"]
  class.samples = form.samples or elementwise:gsub("%%s", { ["%s"] = form.given or "{}" })

  function class:init(...)
    for name_, value in pairs(self.signature:read(...)) do self[name_] = value end
  end

  function class:forward(x)
    local fn = self.inplace and over or plain
    if count == 0 then return fn(x) elseif count == 1 then return fn(x, self[first]) end
    return fn(x, self[first], self[second])
  end

  function class:extra_repr()
    local words = {}
    for k = 1, count do
      local value = self[list[k][1]]
      words[k] = (type(value) == "number" and "%s=%.14g" or "%s='%s'"):format(list[k][1], value)
    end
    if self.inplace then words[#words + 1] = "inplace=true" end
    return table.concat(words, ", ")
  end

  return class
end

local function number(name, default) return { name, { default = default } } end

local classes = {}

--- Rectified linear unit: max(x, 0). Argument inplace.
---@class nn.ReLU: nn.Module
classes.ReLU = layer("ReLU", "relu", { in_place = true })

--- min(max(x, 0), 6). Argument inplace.
---@class nn.ReLU6: nn.Module
classes.ReLU6 = layer("ReLU6", "relu6", { in_place = true })

--- x where it is positive, else negative_slope x (Maas et al., 2013). Arguments negative_slope = 0.01, inplace.
---@class nn.LeakyReLU: nn.Module
classes.LeakyReLU = layer("LeakyReLU", "leaky_relu",
  { arguments = { number("negative_slope", 0.01) }, in_place = true, given = "{ 0.3 }" })

--- Exponential linear unit (Clevert et al., 2015): x where it is positive, else alpha (exp(x) - 1).
--- Arguments alpha = 1, inplace.
---@class nn.ELU: nn.Module
classes.ELU = layer("ELU", "elu", { arguments = { number("alpha", 1) }, in_place = true, given = "{ 0.5 }" })

--- ELU with a continuous slope (Barron, 2017): alpha (exp(x / alpha) - 1) below 0. Arguments alpha = 1, inplace.
---@class nn.CELU: nn.Module
classes.CELU = layer("CELU", "celu", { arguments = { number("alpha", 1) }, in_place = true, given = "{ 0.5 }" })

--- Scaled ELU (Klambauer et al., 2017). Argument inplace.
---@class nn.SELU: nn.Module
classes.SELU = layer("SELU", "selu", { in_place = true })

--- Hyperbolic tangent.
---@class nn.Tanh: nn.Module
classes.Tanh = layer("Tanh", "tanh")

--- Logistic function: 1 / (1 + exp(-x)).
---@class nn.Sigmoid: nn.Module
classes.Sigmoid = layer("Sigmoid", "sigmoid")

--- log(sigmoid(x)).
---@class nn.LogSigmoid: nn.Module
classes.LogSigmoid = layer("LogSigmoid", "logsigmoid")

--- Sigmoid linear unit, also swish (Elfwing et al., 2017): x sigmoid(x). Argument inplace.
---@class nn.SiLU: nn.Module
classes.SiLU = layer("SiLU", "silu", { in_place = true })

--- x tanh(softplus(x)) (Misra, 2019). Argument inplace.
---@class nn.Mish: nn.Module
classes.Mish = layer("Mish", "mish", { in_place = true })

--- Gaussian error linear unit (Hendrycks & Gimpel, 2016): x Φ(x), or its tanh approximation. Argument
--- approximate = "none" or "tanh".
---@class nn.GELU: nn.Module
classes.GELU = layer("GELU", "gelu", {
  arguments = { { "approximate", { default = "none", choices = { "none", "tanh" } } } },
  samples = [[
    { {}, t(3, 4) },
    { { { approximate = "tanh" } }, t(3, 4) },
    { {}, t(4, 3):t() },
    { {}, t(0, 4) },
  ]],
})

--- min(max(x, min_val), max_val). Arguments min_val = -1, max_val = 1, inplace.
---@class nn.Hardtanh: nn.Module
classes.Hardtanh = layer("Hardtanh", "hardtanh",
  { arguments = { number("min_val", -1), number("max_val", 1) }, in_place = true, given = "{ -0.5, 1.5 }" })

--- min(max(x + 3, 0), 6) / 6. Argument inplace.
---@class nn.Hardsigmoid: nn.Module
classes.Hardsigmoid = layer("Hardsigmoid", "hardsigmoid", {
  in_place = true,
  samples = [[
    { {}, t(3, 4):mul(5), without = "PyTorch's gradient in float64 holds 1/6 in float32" },
    { {}, c(3, 4):mul(5) },
    { {}, t(0, 3) },
  ]],
})

--- x hardsigmoid(x) (Howard et al., 2019). Argument inplace.
---@class nn.Hardswish: nn.Module
classes.Hardswish = layer("Hardswish", "hardswish", { in_place = true })

--- A smooth ReLU: log(1 + exp(beta x)) / beta; x itself where beta x is above threshold. Arguments beta = 1,
--- threshold = 20.
---@class nn.Softplus: nn.Module
classes.Softplus = layer("Softplus", "softplus",
  { arguments = { number("beta", 1), number("threshold", 20) }, given = "{ 2, 1.3 }" })

--- x / (1 + |x|).
---@class nn.Softsign: nn.Module
classes.Softsign = layer("Softsign", "softsign")

--- x - tanh(x).
---@class nn.Tanhshrink: nn.Module
classes.Tanhshrink = layer("Tanhshrink", "tanhshrink")

--- x where |x| is above lambd, else 0. Argument lambd = 0.5.
---@class nn.Hardshrink: nn.Module
classes.Hardshrink = layer("Hardshrink", "hardshrink", { arguments = { number("lambd", 0.5) } })

--- x moved by lambd towards 0, and 0 where |x| is not above it. Argument lambd = 0.5.
---@class nn.Softshrink: nn.Module
classes.Softshrink = layer("Softshrink", "softshrink", { arguments = { { "lambd", { default = 0.5, min = 0 } } } })

--- x where it is above threshold, else value. Arguments threshold, value, inplace.
---@class nn.Threshold: nn.Module
classes.Threshold = layer("Threshold", "threshold", {
  arguments = { { "threshold", { required = true, type = "number" } }, { "value", { required = true, type = "number" } } },
  in_place = true,
  given = "{ 0.5, 3 }",
})

--- The first half along a dimension, times the sigmoid of the second (Dauphin et al., 2016). Argument dim = -1.
---@class nn.GLU: nn.Module
classes.GLU = layer("GLU", "glu", {
  arguments = { { "dim", { default = -1, integer = true } } },
  samples = "{ {}, t(3, 4) }, { { 1 }, t(4, 3) }, { {}, t(4, 3):t() }, { {}, t(0, 4) }",
})

local along = { arguments = { { "dim", { required = true, type = "integer" } } }, samples = [[
  { { 2 }, t(3, 4) }, { { 1 }, t(3, 4) }, { { -1 }, t(4, 3):t() }, { { 2 }, t(0, 3) },
  { { 1 }, optlua.tensor({ 10000, 10001 }, { dtype = t().dtype }) },
]] }

--- exp(x) / sum(exp(x)) along a dimension; a row that is all -inf gives NaN. Argument dim.
---@class nn.Softmax: nn.Module
classes.Softmax = layer("Softmax", "softmax", along)

--- The logarithm of softmax along a dimension; a row that is all -inf gives NaN. Argument dim.
---@class nn.LogSoftmax: nn.Module
classes.LogSoftmax = layer("LogSoftmax", "log_softmax", along)

--- softmax of -x along a dimension; a row that is all inf gives NaN. Argument dim.
---@class nn.Softmin: nn.Module
classes.Softmin = layer("Softmin", "softmax", along)

function classes.Softmin:forward(x) return optlua.softmax(-x, self.dim) end

--- ReLU with a slope below 0 that is learned (He et al., 2015): x where it is positive, else weight x.
--- Parameter weight (num_parameters): one number, or one for each channel, dimension 2.
---@class nn.PReLU: nn.Module
---@field weight optlua.Tensor
local PReLU = module.class "PReLU"
classes.PReLU = PReLU
PReLU.samples = [[
  { {}, t(3, 4) }, { { 3, 0.5 }, t(2, 3, 4) }, { { 4 }, t(4, 3):t() }, { { 3 }, t(0, 3) },
]]

PReLU.signature = signature.new("nn.PReLU",
  { { "num_parameters", { default = 1, integer = true, min = 1 } }, number("init", 0.25), { "dtype", "float32" } })

function PReLU:init(...)
  local count, init, dtype = self.signature:values(...)
  self.num_parameters = count
  self.weight = module.Parameter(optlua.full({ count }, init, { dtype = dtype }))
end

function PReLU:forward(x) return optlua.prelu(x, self.weight) end

function PReLU:extra_repr() return ("num_parameters=%d"):format(self.num_parameters) end

return classes
