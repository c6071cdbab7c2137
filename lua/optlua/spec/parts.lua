--- parts: a model of several parts as one module, to be saved, switched and run.
local nn = require "optlua.nn"
local blame = require "optlua.blame"
local params = require "optlua.optim.params"

-- Its children are the parts, under their names; what one gives is the input of the next.
local Parts = nn.class "Parts"

function Parts:init(list)
  for _, part in ipairs(list) do self[part[1]] = part[2] end
end

function Parts:forward(...)
  local values = table.pack(...)
  for _, part in self:named_children() do values = table.pack(part(table.unpack(values, 1, values.n))) end
  return table.unpack(values, 1, values.n)
end

local function is_named(part) return type(part) == "table" and type(part[1]) == "string" and params.is_module(part[2]) end

--- The module of what build_model returned: itself, or one that has the parts { { "name", module }, … } for children.
---@param built any
---@return nn.Module
local function join(built)
  if params.is_module(built) then return built end
  if type(built) ~= "table" or #built == 0 then
    blame(("build_model returns a module or a list of parts, not a %s"):format(type(built)))
  end
  if #built == 1 and params.is_module(built[1]) then return built[1] end
  for i, part in ipairs(built) do
    if not is_named(part) then
      blame(("build_model: part %d is no pair { \"name\", module }: parts have names, under which they are saved"):format(i))
    end
  end
  return Parts(built)
end

return join
