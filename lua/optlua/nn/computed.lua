--- computed: fields of one module that are computed whenever they are read, such as a weight of other
--- parameters. The module gets a class of its own, derived from its class and of the same name.
local blame = require "optlua.blame"
local module = require "optlua.nn.module"

local computed = {}

local functions = setmetatable({}, { __mode = "k" }) -- of derived classes: by field

--- Makes a class whose instances compute some fields.
local function derive(class, fields)
  local derived = module.class(class.name, class)
  functions[derived] = fields
  derived.__index = function(self, key)
    local compute = fields[key]
    if compute then return compute(self) end
    return derived[key]
  end
  derived.__newindex = function(self, key, value)
    if fields[key] then blame(("%s.%s is computed from other parameters, and cannot be assigned"):format(class.name, key)) end
    class.__newindex(self, key, value)
  end
  return derived
end

--- The class a module had before fields of it were computed, and those fields.
local function split(self)
  local class, fields = getmetatable(self), {}
  for key, compute in pairs(functions[class] or {}) do fields[key] = compute end
  return functions[class] and class.super or class, fields
end

--- The function that computes a field of a module, or nil.
---@param self nn.Module
---@param key string
---@return (fun(self: nn.Module): any)?
function computed.get(self, key)
  local fields = functions[getmetatable(self)]
  return fields and fields[key]
end

--- Lets a field be computed; nil: no longer. What it held is gone.
---@param self nn.Module
---@param key string
---@param compute (fun(self: nn.Module): any)?
function computed.set(self, key, compute)
  local class, fields = split(self)
  fields[key] = compute
  rawset(self, key, nil)
  setmetatable(self, next(fields) and derive(class, fields) or class)
end

return computed
