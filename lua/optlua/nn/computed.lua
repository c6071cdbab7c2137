--- computed: fields of one module that are computed whenever they are read, such as a weight of other
--- parameters. The functions lie in the module, in the field _computed; the module's class is derived from the
--- one that it had, once for each class, and has its name.
local blame = require "optlua.blame"
local module = require "optlua.nn.module"

local computed = {}

local derived = setmetatable({}, { __mode = "kv" }) -- classes whose instances may compute fields, by their parents

--- Makes a class whose instances compute the fields in _computed.
local function derive(class)
  local result = module.class(class.name, class)
  result.__index = function(self, key)
    local compute = rawget(self, "_computed")[key]
    if compute then return compute(self) end
    return result[key]
  end
  result.__newindex = function(self, key, value)
    if rawget(self, "_computed")[key] then
      blame(("%s.%s is computed from other parameters, and cannot be assigned"):format(class.name, key))
    end
    class.__newindex(self, key, value)
  end
  derived[class] = result
  return result
end

--- The function that computes a field of a module, or nil.
---@param self nn.Module
---@param key string
---@return (fun(self: nn.Module): any)?
function computed.get(self, key)
  local functions = rawget(self, "_computed")
  return functions and functions[key]
end

--- Lets a field be computed; nil: no longer. What it held is gone.
---@param self nn.Module
---@param key string
---@param compute (fun(self: nn.Module): any)?
function computed.set(self, key, compute)
  local functions, class = rawget(self, "_computed"), getmetatable(self)
  if not functions then
    functions = {}
    rawset(self, "_computed", functions)
    setmetatable(self, derived[class] or derive(class))
  end
  functions[key] = compute
  rawset(self, key, nil)
  if next(functions) ~= nil then return end
  rawset(self, "_computed", nil)
  setmetatable(self, getmetatable(self).super)
end

return computed
