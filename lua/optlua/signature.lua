--- signature: the one reader of arguments: by position, in an order, and then by name in a last table.
--
--     local signature = require("optlua.signature").new("nn.Linear", {
--       { "in_features", { required = true, type = "integer" } }, { "bias", true },
--     })
--     signature:read(3, { bias = false }) --> { in_features = 3, bias = false }
--     signature:read { in_features = 3 }  --> { in_features = 3, bias = true }
local blame = require "optlua.blame"
local core = require "optlua.core"
local options = require "optlua.options"

---@class optlua.Signature
---@field what string whose arguments they are; begins messages
---@field list { [1]: string, [2]: any }[] name and description (see options) of each argument, in order
---@field schema table<string, any> the descriptions by name
local Signature = {}
Signature.__index = Signature

--- Describes the arguments of a function or of a class.
---@param what string
---@param list { [1]: string, [2]: any }[]
---@return optlua.Signature
local function new(what, list)
  local schema = {}
  for _, argument in ipairs(list) do schema[argument[1]] = argument[2] end
  return setmetatable({ what = what, list = list, schema = schema }, Signature)
end

--- Whether a value of an argument may be a table; nil: there is no such argument.
local function takes_table(argument)
  if not argument then return false end
  local option = options.describe(argument[2])
  local types = option.type or type(option.default)
  return types:find "list" ~= nil or types:find "table" ~= nil or types == "any"
end

--- Whether a value is a table of named arguments, and not the value of an argument: no tensor, no object,
--- no list. An empty table is a list where the argument at its place may be one.
local function is_named(value, argument)
  if type(value) ~= "table" or core.is_tensor(value) or getmetatable(value) then return false end
  local key = next(value)
  if key == nil then return not takes_table(argument) end
  return type(key) == "string" and value[1] == nil
end

--- All that is given, by name, unchecked.
local function gather(self, ...)
  local given, named = table.pack(...), {}
  while given.n > 0 and given[given.n] == nil do given.n = given.n - 1 end
  if is_named(given[given.n], self.list[given.n]) then
    for name, value in pairs(given[given.n]) do named[name] = value end
    given.n = given.n - 1
  end
  if given.n > #self.list then
    blame(("%s: at most %d %s expected, got %d"):format(self.what, #self.list,
      #self.list == 1 and "argument" or "arguments", given.n))
  end
  for k = 1, given.n do
    local name = self.list[k][1]
    if given[k] ~= nil and named[name] ~= nil then
      blame(("%s: %s: is given twice, by position and by name"):format(self.what, name))
    end
    if given[k] ~= nil then named[name] = given[k] end
  end
  return named
end

--- Reads arguments; errors name them all, and point at the script's line.
---@param ... any
---@return table<string, any> # checked, with defaults
function Signature:read(...)
  local checked, problems = options.collect(gather(self, ...), self.schema)
  if #problems > 0 then
    blame(("%s: %s"):format(self.what, table.concat(problems, "\n" .. self.what .. ": ")))
  end
  return checked
end

--- As read, but returns the values, in order.
---@param ... any
---@return ...
function Signature:values(...)
  local checked, values = self:read(...), {}
  for k, argument in ipairs(self.list) do values[k] = checked[argument[1]] end
  return table.unpack(values, 1, #self.list)
end

--- A function that reads arguments and returns their values, in order.
---@param what string
---@param list { [1]: string, [2]: any }[]
---@return fun(...: any): ...
local function reader(what, list)
  local signature = new(what, list)
  return function(...) return signature:values(...) end
end

return { new = new, reader = reader }
