--- saved: what can be saved: numbers, strings, booleans, tensors, and tables of them.
local optlua = require "optlua"
local blame = require "optlua.blame"

local plain = { boolean = true, ["nil"] = true, number = true, string = true }

--- Raises for what could not be saved, and would be lost: a function, say. Returns the value.
---@param name string of the value
---@param value any
---@param above? table<table, true> tables that it stands in
---@return any value
local function check(name, value, above)
  if plain[type(value)] or optlua.is_tensor(value) then return value end
  if type(value) ~= "table" then
    blame(("%s is a %s, which cannot be saved; save what it is made of"):format(name, type(value)))
  end
  above = above or {}
  if above[value] then blame(("%s contains itself, and cannot be saved"):format(name)) end
  above[value] = true
  for key, item in pairs(value) do
    if type(key) ~= "string" and math.type(key) ~= "integer" then
      blame(("%s has a %s for a key, which cannot be saved"):format(name, type(key)))
    end
    check(("%s.%s"):format(name, key), item, above)
  end
  above[value] = nil
  return value
end

return check
