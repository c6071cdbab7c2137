--- parts: the parts of a model, and all their parameters by full name.
local options = require "optlua.options"
local params = require "optlua.optim.params"

local parts = {}

local function read_part(item, i)
  if params.is_module(item) then return { module = item } end
  if type(item) == "table" and type(item[1]) == "string" and item[1] ~= "" and params.is_module(item[2]) then
    return { name = item[1], module = item[2] }
  end
  return nil, ("part %d of the model is no module and no pair { name, module }"):format(i)
end

--- Reads what a script hands over as a model: a module, a list of modules, or a list of { name, module }.
---@param given any
---@return { name?: string, module: table }[]? list
---@return string? problem
function parts.read(given)
  if params.is_module(given) then return { { module = given } } end
  if type(given) ~= "table" or #given == 0 then
    return nil, "a module, a list of modules, or a list of { name, module } expected"
  end
  local hole = options.hole(given)
  if hole then return nil, ("part %d of the model is nil"):format(hole) end
  local list = {}
  for i, item in ipairs(given) do
    local part, problem = read_part(item, i)
    if problem then return nil, problem end
    list[i] = part
  end
  return list
end

--- All parameters of all parts, { name, tensor, module } each; one that occurs again, tied, keeps its
--- first name.
---@param list { name?: string, module: table }[]
---@return table[]? entries
---@return string? problem
function parts.parameters(list)
  local entries, seen, part_of = {}, {}, {}
  for i, part in ipairs(list) do
    for name, tensor, module in part.module:named_parameters() do
      if part.name then name = part.name .. "." .. name end
      if not seen[tensor] then
        if part_of[name] then
          return nil, ("parts %d and %d both have a parameter '%s'; give the parts names: { { \"name\", part }, … }")
            :format(part_of[name], i, name)
        end
        seen[tensor], part_of[name] = true, i
        entries[#entries + 1] = { name, tensor, module }
      end
    end
  end
  return entries
end

return parts
