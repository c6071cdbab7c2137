--- normalization: layers that standardise their input.
local optlua = require "optlua"
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"
local shape_text = require("optlua.shape").text

--- The sizes of the last dimensions.
local normalized_shape = {
  required = true, type = "integer|list", integer = true, min = 0, doc = "the sizes of the last dimensions",
}

local function as_list(sizes) return type(sizes) == "table" and sizes or { sizes } end

--- Standardises over the last dimensions, then scales and shifts (Ba, Kiros & Hinton, 2016).
---@class nn.LayerNorm: nn.Module
---@field weight optlua.Tensor|nil
---@field bias optlua.Tensor|nil
---@overload fun(normalized_shape: integer|integer[], eps?: number|table, elementwise_affine?: boolean, bias?: boolean, dtype?: string): nn.LayerNorm
local LayerNorm = module.class "LayerNorm"
LayerNorm.role = "norm"

LayerNorm.signature = signature.new("nn.LayerNorm", {
  { "normalized_shape", normalized_shape }, { "eps", { default = 1e-5, min = 0 } }, { "elementwise_affine", true },
  { "bias", true }, { "dtype", "float32" },
})

function LayerNorm:init(...)
  local opts = self.signature:read(...)
  self.normalized_shape = as_list(opts.normalized_shape)
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
  return ("%s, eps=%.14g, elementwise_affine=%s"):format(shape_text(self.normalized_shape), self.eps,
    self.weight ~= nil)
end

--- Divides the last dimensions by the root of their mean square, then scales (Zhang & Sennrich, 2019).
--- Parameter weight, of normalized_shape.
---@class nn.RMSNorm: nn.Module
---@field weight optlua.Tensor|nil
local RMSNorm = module.class "RMSNorm"
RMSNorm.role = "norm"
RMSNorm.samples = [[
  { { 4 }, t(3, 4) },
  { { { 3, 4 }, 0.1 }, t(2, 3, 4) },
  { { 4, { elementwise_affine = false, eps = 0.1 } }, t(3, 4) },
  { { 4, 0.1 }, t(4, 3):t() },
  { { 4 }, t(0, 4) },
]]

RMSNorm.signature = signature.new("nn.RMSNorm", {
  { "normalized_shape", normalized_shape },
  { "eps", { required = false, type = "number", min = 0, doc = "else the epsilon of the input's dtype" } },
  { "elementwise_affine", true }, { "dtype", "float32" },
})

function RMSNorm:init(...)
  local opts = self.signature:read(...)
  self.normalized_shape = as_list(opts.normalized_shape)
  self.eps = opts.eps
  if not opts.elementwise_affine then return end
  self.weight = module.Parameter(optlua.ones(self.normalized_shape, { dtype = opts.dtype }))
end

function RMSNorm:forward(x) return optlua.rms_norm(x, self.normalized_shape, self.weight, self.eps) end

function RMSNorm:extra_repr()
  return ("%s, eps=%s, elementwise_affine=%s"):format(shape_text(self.normalized_shape),
    self.eps and ("%.14g"):format(self.eps), self.weight ~= nil)
end

--- Standardises groups of channels of each item, then scales and shifts each channel (Wu & He, 2018): (N, C, …) ->
--- the same. Parameters weight (C), bias (C).
---@class nn.GroupNorm: nn.Module
---@field weight optlua.Tensor|nil
---@field bias optlua.Tensor|nil
local GroupNorm = module.class "GroupNorm"
GroupNorm.role = "norm"
GroupNorm.samples = [[
  { { 2, 8 }, t(3, 8) },
  { { 2, 4, 0.1 }, t(2, 4, 3) },
  { { 3, 6, { affine = false } }, t(2, 6, 2, 2) },
  { { 1, 3, { bias = false } }, t(2, 4, 3):transpose(2, 3) },
  { { 2, 4 }, t(0, 4, 2) },
]]

GroupNorm.signature = signature.new("nn.GroupNorm", {
  { "num_groups", { required = true, type = "integer", min = 1 } }, { "num_channels", module.size },
  { "eps", { default = 1e-5, min = 0 } }, { "affine", true }, { "dtype", "float32" }, { "bias", true },
})

function GroupNorm:init(...)
  local opts = self.signature:read(...)
  local form = { dtype = opts.dtype }
  self.num_groups = opts.num_groups
  self.num_channels = opts.num_channels
  if self.num_channels % self.num_groups ~= 0 then
    blame(("nn.GroupNorm: %d channels cannot be cut into %d groups"):format(self.num_channels, self.num_groups))
  end
  self.eps = opts.eps
  if not opts.affine then return end
  self.weight = module.Parameter(optlua.ones({ self.num_channels }, form))
  if opts.bias then self.bias = module.Parameter(optlua.zeros({ self.num_channels }, form)) end
end

function GroupNorm:forward(x) return optlua.group_norm(x, self.num_groups, self.weight, self.bias, self.eps) end

function GroupNorm:extra_repr()
  return ("%d, %d, eps=%.14g, affine=%s, bias=%s"):format(self.num_groups, self.num_channels, self.eps,
    self.weight ~= nil, self.bias ~= nil)
end

return { LayerNorm = LayerNorm, RMSNorm = RMSNorm, GroupNorm = GroupNorm }
