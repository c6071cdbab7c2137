-- Everything that modules, optimizers and tables of tensors hold, as one text that tells any two bits apart.
local optlua = require "optlua"

local function add(list, name, value)
  if optlua.is_tensor(value) then value = value:detach():contiguous():reshape(-1):totable() end
  if type(value) == "table" then
    for key, item in pairs(value) do add(list, ("%s/%s"):format(name, key), item) end
  else
    list[#list + 1] = ("%s=%s"):format(name, math.type(value) == "float" and ("%a"):format(value) or tostring(value))
  end
end

--- The text of what is given.
---@param ... table with a method state_dict, or values by name
---@return string
return function(...)
  local list = {}
  for k, given in ipairs { ... } do
    local state = given.state_dict and given:state_dict() or given
    for name, value in pairs(state) do add(list, ("%d:%s"):format(k, name), value) end
  end
  table.sort(list)
  return table.concat(list, "\n")
end
