--- normalization: layers that standardise their input.
local optlua = require "optlua"
local module = require "optlua.nn.module"

--- Standardises over the last dimensions, then scales and shifts (Ba, Kiros & Hinton, 2016).
---@class nn.LayerNorm: nn.Module
---@field weight optlua.Tensor|nil
---@field bias optlua.Tensor|nil
local LayerNorm = module.class "LayerNorm"
LayerNorm.role = "norm"

---@param normalized_shape integer|integer[] the sizes of the last dimensions
---@param opts? { eps?: number, elementwise_affine?: boolean, bias?: boolean, dtype?: string }
function LayerNorm:init(normalized_shape, opts)
  opts = module.options("nn.LayerNorm", opts, {
    eps = { default = 1e-5, min = 0 }, elementwise_affine = true, bias = true, dtype = "float32",
  })
  if type(normalized_shape) == "number" then normalized_shape = { normalized_shape } end
  self.normalized_shape = module.argument("nn.LayerNorm", "normalized_shape", normalized_shape,
    { required = true, type = "list", integer = true, min = 0 })
  self.eps = opts.eps
  if not opts.elementwise_affine then return end
  self.weight = module.Parameter(optlua.ones(self.normalized_shape, { dtype = opts.dtype }))
  if opts.bias then self.bias = module.Parameter(optlua.zeros(self.normalized_shape, { dtype = opts.dtype })) end
end

LayerNorm.samples = [[
  { { 4 }, t(3, 4) },
  { { { 2, 3 } }, t(2, 2, 3) },
  { { 4, { eps = 1e-3, bias = false } }, t(2, 3, 4) },
  { { 4, { elementwise_affine = false } }, t(4, 3):t() },
  { { 4 }, t(0, 4) },
]]

function LayerNorm:forward(x)
  return optlua.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
end

function LayerNorm:extra_repr()
  return ("(%s), eps=%.14g, elementwise_affine=%s"):format(table.concat(self.normalized_shape, ", "), self.eps,
    self.weight ~= nil)
end

return { LayerNorm = LayerNorm }
