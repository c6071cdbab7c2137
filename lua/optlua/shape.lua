--- shape: shapes and dtypes in messages, and in bytes.
local core = require "optlua.core"

local shape = {}

--- The bytes of an element of each dtype, by name.
---@type table<string, integer>
shape.element_bytes = core.hidden.dtypes()

--- A shape as it stands in messages: "(2, 3)"; "()" of a scalar.
---@param of optlua.Tensor|integer[] a tensor or its sizes
---@return string
function shape.text(of)
  return "(" .. table.concat(core.is_tensor(of) and of.shape or of, ", ") .. ")"
end

--- A dtype and a shape as they stand in messages: "float32 (2, 3)".
---@param dtype string
---@param sizes integer[]
---@return string
function shape.describe(dtype, sizes) return dtype .. " " .. shape.text(sizes) end

--- Whether two tensors have the same shape.
---@param a optlua.Tensor
---@param b optlua.Tensor
---@return boolean
function shape.same(a, b) return shape.text(a) == shape.text(b) end

--- The number of elements of a shape.
---@param sizes integer[]
---@return integer
function shape.count(sizes)
  local count = 1
  for _, size in ipairs(sizes) do count = count * size end
  return count
end

--- The bytes of the elements of a tensor.
---@param tensor optlua.Tensor
---@return integer
function shape.bytes(tensor) return tensor:numel() * shape.element_bytes[tensor.dtype] end

return shape
