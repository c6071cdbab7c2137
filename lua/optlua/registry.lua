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

local renewing = false -- while a script that has run already runs again

--- Adds a thing. A name can be taken once; within `renew`, what was added may be added anew.
---@param name string
---@param item any
---@return string? problem
function Registry:add(name, item)
  if type(name) ~= "string" or not name:find "^%a[%w_.]*$" then
    return ("the name of a registered %s is a word, not %s"):format(self.kind, tostring(name))
  end
  if self:lookup(name) ~= nil and not (renewing and self.items[name] ~= nil) then return ("%s is already a registered %s"):format(name, self.kind) end
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

--- Calls fn, which may add again what has been added; whatever it raises comes back.
---@param fn function
---@return boolean ok, any ... as of pcall
local function renew(fn, ...)
  renewing = true
  local results = table.pack(pcall(fn, ...))
  renewing = false
  return table.unpack(results, 1, results.n)
end

return { new = new, renew = renew }
