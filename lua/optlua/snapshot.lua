--- snapshot: copies of states, tensors included.
local optlua = require "optlua"

--- A copy of a state: tables in depth, tensors cloned.
---@param value any
---@return any
local function snapshot(value)
  if optlua.is_tensor(value) then return value:detach():clone() end
  if type(value) ~= "table" then return value end
  local result = {}
  for key, item in pairs(value) do result[key] = snapshot(item) end
  return result
end

return snapshot
