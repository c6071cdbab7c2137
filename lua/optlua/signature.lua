--- signature: options of a function, by position or by name in a last table.
local blame = require "optlua.blame"
local core = require "optlua.core"
local options = require "optlua.options"

local signature = {}

--- Makes a function that reads the arguments which follow a function's tensors: it returns the value of
--- each option, in order. Errors begin with `what` and point at the script's line.
---@param what string
---@param list { [1]: string, [2]: any }[] name and description (see options) of each option, in order
---@return fun(...: any): ...
function signature.reader(what, list)
  local schema = {}
  for _, option in ipairs(list) do schema[option[1]] = option[2] end

  return function(...)
    local given, named = table.pack(...), {}
    while given.n > 0 and given[given.n] == nil do given.n = given.n - 1 end
    local last = given[given.n]
    if type(last) == "table" and not core.is_tensor(last) then
      for name, value in pairs(last) do named[name] = value end
      given.n = given.n - 1
    end
    if given.n > #list then blame(("%s: at most %d options expected, got %d"):format(what, #list, given.n)) end
    for k = 1, given.n do
      local name = list[k][1]
      if named[name] ~= nil and given[k] ~= nil then blame(("%s: %s is given twice"):format(what, name)) end
      if given[k] ~= nil then named[name] = given[k] end
    end
    local checked, problems = options.collect(named, schema)
    if #problems > 0 then blame(("%s: %s"):format(what, table.concat(problems, "\n" .. what .. ": "))) end
    local values = {}
    for k, option in ipairs(list) do values[k] = checked[option[1]] end
    return table.unpack(values, 1, #list)
  end
end

return signature
