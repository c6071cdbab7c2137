--- registry: things by name, such as the classes of optimizers.
local options = require "optlua.options"

---@class optlua.Registry
---@field kind string what is registered, for messages
local Registry = {}
Registry.__index = Registry

--- Makes an empty registry. `find`, where given, is asked for names that are not registered, and
--- `names` lists those that it knows.
---@param kind string what is registered: "optimizer" …
---@param find? fun(name: string): any
---@param names? string[]
---@return optlua.Registry
local function new(kind, find, names)
  return setmetatable({ kind = kind, items = {}, find = find, known = names or {} }, Registry)
end

--- The thing of a name, or nil.
---@param name string
---@return any
function Registry:lookup(name)
  local item = self.items[name]
  if item == nil and self.find then return self.find(name) end
  return item
end

--- Adds a thing. A name can be taken once.
---@param name string
---@param item any
---@return string? problem
function Registry:add(name, item)
  if type(name) ~= "string" or not name:find "^%a[%w_.]*$" then
    return ("the name of a registered %s is a word, not %s"):format(self.kind, tostring(name))
  end
  if self:lookup(name) ~= nil then return ("%s is already a registered %s"):format(name, self.kind) end
  self.items[name] = item
end

--- Removes a thing that was added.
---@param name string
---@return string? problem
function Registry:remove(name)
  if self.items[name] == nil then return options.unknown(self.kind, name, self:names()) end
  self.items[name] = nil
end

--- All names, sorted.
---@return string[]
function Registry:names()
  local names = table.move(self.known, 1, #self.known, 1, {})
  for name in pairs(self.items) do names[#names + 1] = name end
  table.sort(names)
  return names
end

return { new = new }
