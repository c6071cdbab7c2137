--- window: arguments of layers that slide windows over lines or images: by position as in PyTorch, then
--- named ones in a last table; one integer for all dimensions or a list of one each.
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"

local window = {}

--- An integer, or a list of integers, of at least `min`.
---@param min integer
---@param default? integer
function window.sizes(min, default)
  return { type = "integer|list", integer = true, min = min, default = default, required = false }
end

--- The same, which must be given.
function window.wanted(min) return { type = "integer|list", integer = true, min = min, required = true } end

--- Whether a value is a table of named arguments.
---@param value any
---@return boolean
function window.is_named(value)
  if type(value) ~= "table" or optlua.is_tensor(value) or #value > 0 then return false end
  local key = next(value)
  return key == nil or type(key) == "string"
end

--- Reads the arguments of a layer.
---@param what string whose arguments they are
---@param schema table<string, any> what each takes
---@param names string[] the order of those that may be given by position
---@return table checked by name
function window.arguments(what, schema, names, ...)
  local given, named = table.pack(...), {}
  if window.is_named(given[given.n]) then
    for key, value in pairs(given[given.n]) do named[key] = value end
    given.n = given.n - 1
  end
  if given.n > #names then
    blame(("%s: at most %d arguments expected, got %d"):format(what, #names, given.n))
  end
  for k = 1, given.n do
    local name = names[k]
    if given[k] ~= nil and named[name] ~= nil then
      blame(("%s: %s: is given twice, by position and by name"):format(what, name))
    end
    if given[k] ~= nil then named[name] = given[k] end
  end
  local checked, problems = options.collect(named, schema)
  if #problems > 0 then blame(("%s: %s"):format(what, table.concat(problems, "\n" .. what .. ": "))) end
  return checked
end

--- A list of one number for each dimension.
---@param what string
---@param name string
---@param value integer|integer[]
---@param spatial integer how many dimensions
---@return integer[]
function window.each(what, name, value, spatial)
  local list = {}
  if type(value) == "table" and #value ~= 1 and #value ~= spatial then
    blame(("%s: %s: expected %s, got %d"):format(what, name, spatial == 1 and "1 number" or "1 or 2 numbers", #value))
  end
  for d = 1, spatial do list[d] = type(value) == "table" and (value[d] or value[1]) or value end
  return list
end

--- "3", "(3, 5)", "(3,)", as PyTorch prints numbers and tuples.
---@param value any
---@return string
function window.text(value)
  if type(value) ~= "table" then return tostring(value) end
  return ("(%s%s)"):format(table.concat(value, ", "), #value == 1 and "," or "")
end

return window
