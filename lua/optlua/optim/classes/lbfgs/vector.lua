--- vector: lists of tensors that are taken as one vector: the parameters of a group, or their gradients.
local optlua = require "optlua"

local vector = {}

--- The gradients of parameters, copied; zeros where one is absent.
---@param params optlua.Tensor[]
---@return optlua.Tensor[]
function vector.gradients(params)
  local result = {}
  for i, p in ipairs(params) do result[i] = p.grad and p.grad:clone() or optlua.zeros_like(p) end
  return result
end

--- Copies.
---@param x optlua.Tensor[]
---@return optlua.Tensor[]
function vector.clone(x)
  local result = {}
  for i, tensor in ipairs(x) do result[i] = tensor:detach():clone() end
  return result
end

--- c * x.
---@param c number
---@param x optlua.Tensor[]
---@return optlua.Tensor[]
function vector.scale(c, x)
  local result = {}
  for i, tensor in ipairs(x) do result[i] = c * tensor end
  return result
end

--- x - y.
---@param x optlua.Tensor[]
---@param y optlua.Tensor[]
---@return optlua.Tensor[]
function vector.difference(x, y)
  local result = {}
  for i, tensor in ipairs(x) do result[i] = tensor - y[i] end
  return result
end

--- Adds c * y to x, in place.
---@param x optlua.Tensor[]
---@param c number
---@param y optlua.Tensor[]
function vector.add(x, c, y)
  for i, tensor in ipairs(x) do tensor:add_(y[i], { alpha = c }) end
end

--- Gives x the elements of y.
---@param x optlua.Tensor[]
---@param y optlua.Tensor[]
function vector.assign(x, y)
  for i, tensor in ipairs(x) do tensor:copy_(y[i]) end
end

--- The sum of the products of the elements.
---@param x optlua.Tensor[]
---@param y optlua.Tensor[]
---@return number
function vector.dot(x, y)
  local sum = 0
  for i, tensor in ipairs(x) do sum = sum + tensor:reshape(-1):dot(y[i]:reshape(-1)):item() end
  return sum
end

--- The sum of the absolute values.
---@param x optlua.Tensor[]
---@return number
function vector.norm1(x)
  local sum = 0
  for _, tensor in ipairs(x) do sum = sum + tensor:abs():sum():item() end
  return sum
end

--- The largest absolute value; 0 where there is none.
---@param x optlua.Tensor[]
---@return number
function vector.largest(x)
  local result = 0
  for _, tensor in ipairs(x) do
    local most = tensor:numel() > 0 and tensor:abs():max():item() or 0
    if most > result or most ~= most then result = most end
  end
  return result
end

return vector
