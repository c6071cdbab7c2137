--- weightnorm: weights that are computed from other parameters: weight normalisation and spectral
--- normalisation, in PyTorch's two forms. A layer's weight is computed whenever it is read; what is
--- trained and saved are the parameters that it is computed from.
---
--- The classic form keeps them in the layer (weight_g, weight_v; weight_orig, weight_u, weight_v), the
--- parametrizations in children of it (parametrizations.weight.original0 …).
local optlua = require "optlua"
local blame = require "optlua.blame"
local closing = require "optlua.closing"
local computed = require "optlua.nn.computed"
local containers = require "optlua.nn.containers"
local module = require "optlua.nn.module"
local signature = require "optlua.signature"
local shape_text = require("optlua.shape").text

local weightnorm = { parametrizations = {}, parametrize = {} }

--- The parameter of a layer that is to be computed.
local function parameter_of(what, layer, name)
  if not module.is_module(layer) then blame(("%s: module expected, got %s"):format(what, type(layer))) end
  local weight = rawget(layer, name)
  if computed.get(layer, name) then blame(("%s: %s.%s is computed already"):format(what, layer:type(), name)) end
  if not optlua.is_tensor(weight) then blame(("%s: %s has no parameter %q"):format(what, layer:type(), name)) end
  return weight
end

--- A parameter of its own, that wants a gradient where another does.
local function parameter_like(weight, tensor)
  return module.Parameter(tensor:detach():clone(), { requires_grad = weight.requires_grad })
end

--- A dimension, counted from the end where negative, as 1 … ndim.
local function dimension(what, weight, dim)
  local d = dim < 0 and dim + weight.ndim + 1 or dim
  if d < 1 or d > math.max(1, weight.ndim) then
    blame(("%s: dimension %d of a tensor of shape %s"):format(what, dim, shape_text(weight)))
  end
  return d
end

--- The child of a layer that holds the parts of a weight; made where it is not there.
local function part_of(layer, name)
  if not rawget(layer, "parametrizations") then layer.parametrizations = containers.ModuleDict() end
  local list = containers.ModuleList()
  layer.parametrizations[name] = list
  return list
end

--- The value that a computed weight has while not training, when nothing of it moves.
local function resting(layer, name)
  local training = layer.training
  local _ <close> = closing(function() rawset(layer, "training", training) end)
  rawset(layer, "training", false)
  return computed.get(layer, name)(layer):detach()
end

--- Ends the computing of a weight: it becomes a parameter, with the value that it has; calls forget to drop its
--- parts.
local function settle(layer, name, requires_grad, forget)
  local value = resting(layer, name)
  computed.set(layer, name, nil)
  forget()
  layer[name] = module.Parameter(value, { requires_grad = requires_grad })
end

local function drop_part(layer, name)
  rawset(layer.parametrizations, name, nil)
  if #layer.parametrizations:children() == 0 then rawset(layer, "parametrizations", nil) end
end

-- Weight normalisation ----------------------------------------------------------------------------------

--- The norm of v over all dimensions but dim, kept; over all where dim is false.
local function norm_of(v, dim)
  if not dim then return v:norm() end
  local others = {}
  for d = 1, v.ndim do
    if d ~= dim then others[#others + 1] = d end
  end
  if #others == 0 then return v:abs() end
  return v:norm(2, others, true)
end

local function weight_of(g, v, dim) return v * (g / norm_of(v, dim)) end

local dim_of_norm = { "dim", { default = 1, type = "number|boolean", integer = true } }

--- Reads the name and the dimension of weight_norm.
local function read_weight_norm(what, layer, ...)
  local name, dim = signature.reader(what, { { "name", "weight" }, dim_of_norm })(...)
  local weight = parameter_of(what, layer, name)
  if dim == true then blame(what .. ": dim: a dimension or false expected, got true") end
  return name, weight, dim and dimension(what, weight, dim)
end

--- Replaces a layer's weight by its length and its direction: weight = g v / ‖v‖, with one norm for each
--- position of dim (Salimans & Kingma, 2016). They are the parameters weight_g and weight_v.
---@generic M: nn.Module
---@param layer M
---@param name? string default "weight"
---@param dim? integer|false default 1; false: one norm for the whole weight
---@return M layer
function weightnorm.weight_norm(layer, name, dim)
  local key, weight, d = read_weight_norm("weight_norm", layer, name, dim)
  local g, v = key .. "_g", key .. "_v"
  local length, direction = parameter_like(weight, norm_of(weight, d)), parameter_like(weight, weight)
  computed.set(layer, key, function(self) return weight_of(self[g], self[v], d) end)
  layer[g] = length
  layer[v] = direction
  return layer
end

--- Undoes weight_norm: the weight becomes a parameter, with the value that it has.
---@generic M: nn.Module
---@param layer M
---@param name? string default "weight"
---@return M layer
function weightnorm.remove_weight_norm(layer, name)
  local key = name or "weight"
  local g, v = key .. "_g", key .. "_v"
  if not module.is_module(layer) or not computed.get(layer, key) or not rawget(layer, g) then
    blame(("remove_weight_norm: %s.%s has no weight norm"):format(module.is_module(layer) and layer:type() or type(layer), key))
  end
  settle(layer, key, layer[v].requires_grad, function()
    rawset(layer, g, nil)
    rawset(layer, v, nil)
  end)
  return layer
end

--- As weight_norm, with the parameters parametrizations.weight.original0 (g) and original1 (v).
---@generic M: nn.Module
---@param layer M
---@param name? string default "weight"
---@param dim? integer|false default 1; false: one norm for the whole weight
---@return M layer
function weightnorm.parametrizations.weight_norm(layer, name, dim)
  local key, weight, d = read_weight_norm("weight_norm", layer, name, dim)
  local length, direction = parameter_like(weight, norm_of(weight, d)), parameter_like(weight, weight)
  local part = part_of(layer, key)
  part.original0 = length
  part.original1 = direction
  computed.set(layer, key, function(self)
    local own = self.parametrizations[key]
    return weight_of(own.original0, own.original1, d)
  end)
  return layer
end

-- Spectral normalisation --------------------------------------------------------------------------------

--- A weight as a matrix with dim first.
local function as_matrix(weight, dim)
  return (dim == 1 and weight or weight:movedim(dim, 1)):flatten(2)
end

local function normalize_(x, eps) return x:div_(math.max(x:norm():item(), eps)) end

--- Steps of the power iteration for the greatest singular value; u and v are written.
local function iterate(matrix, u, v, steps, eps)
  optlua.no_grad(function()
    for _ = 1, steps do
      u:copy_(normalize_(matrix:mv(v), eps))
      v:copy_(normalize_(matrix:t():mv(u), eps))
    end
  end)
end

--- The weight over its greatest singular value; of a vector, over its norm.
local function over_norm(weight, u, v, settings, training)
  if weight.ndim == 1 then return weight / weight:norm():clamp(settings.eps) end
  local matrix = as_matrix(weight, settings.dim)
  if training then iterate(matrix, u, v, settings.steps, settings.eps) end
  return weight / u:clone():dot(matrix:mv(v:clone()))
end

local spectral_options = {
  { "name", "weight" }, { "n_power_iterations", { default = 1, integer = true, min = 1 } },
  { "eps", { default = 1e-12, min = 0 } }, { "dim", { required = false, type = "integer" } },
}
local read_spectral = signature.reader("spectral_norm", spectral_options)

--- Reads the arguments of spectral_norm, and makes u and v, which begin random and improved.
local function prepare(layer, ...)
  local name, steps, eps, dim = read_spectral(...)
  local weight = parameter_of("spectral_norm", layer, name)
  dim = dimension("spectral_norm", weight, dim or (layer:type():find "^ConvTranspose" and 2 or 1))
  local settings = { steps = steps, eps = eps, dim = dim }
  if weight.ndim == 1 then return name, weight, settings end
  local matrix = as_matrix(weight:detach(), dim)
  local u = normalize_(optlua.randn({ matrix.shape[1] }, { dtype = weight.dtype }), eps)
  local v = normalize_(optlua.randn({ matrix.shape[2] }, { dtype = weight.dtype }), eps)
  iterate(matrix, u, v, 15, eps)
  return name, weight, settings, u, v
end

--- Divides a layer's weight by its greatest singular value (Miyato et al., 2018), found by a step of the
--- power iteration whenever the weight is read in training. The parameter is weight_orig; weight_u and
--- weight_v are buffers.
---@generic M: nn.Module
---@param layer M
---@param name? string|table default "weight"; or the options
---@param n_power_iterations? integer default 1
---@param eps? number default 1e-12
---@param dim? integer default 1, and 2 of transposed convolutions
---@return M layer
function weightnorm.spectral_norm(layer, name, n_power_iterations, eps, dim)
  local key, weight, settings, u, v = prepare(layer, name, n_power_iterations, eps, dim)
  local original = parameter_like(weight, weight)
  computed.set(layer, key, function(self)
    return over_norm(self[key .. "_orig"], self[key .. "_u"], self[key .. "_v"], settings, self.training)
  end)
  layer[key .. "_orig"] = original
  if u then
    layer:register_buffer(key .. "_u", u)
    layer:register_buffer(key .. "_v", v)
  end
  return layer
end

--- Undoes spectral_norm: the weight becomes a parameter, with the value that it has.
---@generic M: nn.Module
---@param layer M
---@param name? string default "weight"
---@return M layer
function weightnorm.remove_spectral_norm(layer, name)
  local key = name or "weight"
  if not module.is_module(layer) or not computed.get(layer, key) or not rawget(layer, key .. "_orig") then
    blame(("remove_spectral_norm: %s.%s has no spectral norm"):format(module.is_module(layer) and layer:type() or type(layer), key))
  end
  settle(layer, key, layer[key .. "_orig"].requires_grad, function()
    for _, part in ipairs { "_orig", "_u", "_v" } do rawset(layer, key .. part, nil) end
  end)
  return layer
end

--- Holds the vectors of the iteration, as PyTorch's module of that name does.
local SpectralNorm = module.class "_SpectralNorm"

function SpectralNorm:init(u, v)
  if not u then return end
  self:register_buffer("_u", u)
  self:register_buffer("_v", v)
end

--- As spectral_norm, with the parameter parametrizations.weight.original and the buffers
--- parametrizations.weight.0._u and ._v.
---@generic M: nn.Module
---@param layer M
---@param name? string|table default "weight"; or the options
---@param n_power_iterations? integer default 1
---@param eps? number default 1e-12
---@param dim? integer default 1, and 2 of transposed convolutions
---@return M layer
function weightnorm.parametrizations.spectral_norm(layer, name, n_power_iterations, eps, dim)
  local key, weight, settings, u, v = prepare(layer, name, n_power_iterations, eps, dim)
  local original = parameter_like(weight, weight)
  local part = part_of(layer, key)
  part.original = original
  part[1] = SpectralNorm(u, v)
  computed.set(layer, key, function(self)
    local own = self.parametrizations[key]
    return over_norm(own.original, own[1]._u, own[1]._v, settings, self.training)
  end)
  return layer
end

--- Undoes a parametrization: the weight becomes a parameter, with the value that it has.
---@generic M: nn.Module
---@param layer M
---@param name string
---@return M layer
function weightnorm.parametrize.remove_parametrizations(layer, name)
  local parts = module.is_module(layer) and rawget(layer, "parametrizations")
  local part = parts and name and rawget(parts, name)
  if not part then
    blame(("remove_parametrizations: %s.%s has no parametrization"):format(
      module.is_module(layer) and layer:type() or type(layer), tostring(name)))
  end
  local requires_grad = (part.original or part.original1).requires_grad
  settle(layer, name, requires_grad, function() drop_part(layer, name) end)
  return layer
end

return weightnorm
