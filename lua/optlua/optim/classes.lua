--- classes: the classes of optimizers by name: those that come with the library, one file each, and
--- those that scripts register.
local definition = require "optlua.optim.class"
local options = require "optlua.options"
local registry = require "optlua.registry"

local classes = { is_class = definition.is_class }

-- Those that come with the library; each in the file of its name in small letters.
local builtin = { "Adam", "AdamW", "Lion", "SGD" }
local is_builtin = {}
for _, name in ipairs(builtin) do is_builtin[name] = true end

--- The class of the library with that name, or nil.
---@param name string
---@return optlua.optim.Class?
function classes.builtin(name)
  return is_builtin[name] and require("optlua.optim." .. name:lower()) or nil
end

local known = registry.new("optimizer", classes.builtin, builtin)

--- Adds a class under a name; returns what is wrong.
---@param name string
---@param class optlua.optim.Class
---@return string? problem
function classes.add(name, class)
  if not definition.is_class(class) then return "a class expected, as optim.define makes it, got a " .. type(class) end
  return known:add(name, class)
end

--- Removes a class that was added; returns what is wrong.
---@param name string
---@return string? problem
function classes.remove(name) return known:remove(name) end

--- All names, sorted.
---@return string[]
function classes.names() return known:names() end

--- The class that is meant by a class or by a name.
---@param what any
---@return optlua.optim.Class? class
---@return string? problem
function classes.resolve(what)
  if definition.is_class(what) then return what end
  if what == nil then return nil, "class: a class or its name is required" end
  if type(what) ~= "string" then return nil, ("class: a class or its name expected, got a %s"):format(type(what)) end
  local class = known:lookup(what)
  if class then return class end
  return nil, options.unknown("optimizer", what, known:names())
end

return classes
