--- transforms: what can be put around any class, by name: "Lookahead(AdamW)" is optim.lookahead(optim.AdamW). Scripts register
--- others, and modules return them: functions that make a class from a class.
local blame = require "optlua.blame"
local definition = require "optlua.optim.class"
local options = require "optlua.options"
local registry = require "optlua.registry"
local transform = require "optlua.optim.transform"

local transforms = {}

-- The functions of optim by the names that classes bear; each stands in the file of its name.
local functions = { Centralize = "centralize", Lookahead = "lookahead", SAM = "sam", SWA = "swa" }

--- The names of all transforms, sorted.
transforms.names = options.names(functions)

local known = registry.new("transform", function(name)
  return functions[name] and require("optlua.optim.transforms." .. functions[name])
end, transforms.names)

local made = setmetatable({}, { __mode = "k" }) -- by inner class, and name or function

--- Makes a class from a class, once.
---@param name string of the transform
---@param outer table fields of `transform`
---@param class optlua.optim.Class|string what the script gave
---@param ... any and what else it gave: an error
---@return optlua.optim.Class
function transforms.around(name, outer, class, ...)
  if select("#", ...) > 0 then
    blame(("optim.%s: a class alone expected; hyperparameters stand where the class it makes is called: optim.%s(class)(parameters, "
      .. "{ lr = 0.1 })"):format(functions[name], functions[name]))
  end
  local inner, problem = require("optlua.optim.classes").resolve(class)
  if not inner then blame(("optim.%s: %s"):format(functions[name], problem)) end
  if inner.step and not outer.step then
    blame(("optim.%s: %s cannot stand around %s, which has a step of its own"):format(functions[name], name, inner.name))
  end
  made[inner] = made[inner] or {}
  if not made[inner][name] then
    local fields = { name = ("%s(%s)"):format(name, inner.name), doc = inner.doc }
    for field, value in pairs(outer) do fields[field] = value end
    made[inner][name] = transform(inner, fields)
  end
  return made[inner][name]
end

--- Adds a transform under a name; returns what is wrong.
---@param name string
---@param fn fun(inner: optlua.optim.Class): optlua.optim.Class
---@return string? problem
function transforms.add(name, fn) return known:add(name, fn) end

--- Removes a transform that was added; returns what is wrong.
---@param name string
---@return string? problem
function transforms.remove(name) return functions[name] and name .. " comes with the library" or known:remove(name) end

--- The names that were added, sorted.
---@return string[]
function transforms.added()
  local names = {}
  for _, name in ipairs(known:names()) do
    if not functions[name] then names[#names + 1] = name end
  end
  return names
end

--- Says that a name is that of a transform where a class is expected.
---@param name string
---@return string
function transforms.alone(name)
  return ("class: %s is a transform, which stands around a class: write \"%s(AdamW)\""):format(name, name)
end

--- Whether a name is that of a transform.
---@param name any
---@return boolean
function transforms.is_known(name) return known:lookup(name) ~= nil end

-- The transform that is registered, or that a module returns; nil and what is wrong.
local function find(name)
  local fn = known:lookup(name)
  if fn then return fn end
  if not package.searchpath(name, package.path) then return nil, options.unknown("transform", name, known:names()) end
  local loaded, result = pcall(require, name)
  if not loaded then return nil, ("class: the module %s cannot be loaded: %s"):format(name, tostring(result)) end
  if type(result) == "function" then return result end
  return nil, ("class: the module %s returns no transform, a function that makes a class from a class"):format(name)
end

-- What a transform makes of a class, once.
local function apply(name, fn, class)
  if functions[name] then return fn(class) end
  made[class] = made[class] or {}
  made[class][fn] = made[class][fn] or fn(class)
  if definition.is_class(made[class][fn]) then return made[class][fn] end
  error(("the transform %s returned no class, but a %s"):format(name, type(made[class][fn])), 0)
end

--- The class that is meant by "NAME(CLASS)"; nothing for other words.
---@param word string
---@param resolve fun(inner: string): any, string?
---@return optlua.optim.Class?
---@return string? problem
function transforms.resolve(word, resolve)
  if known:lookup(word) then return nil, transforms.alone(word) end
  local name, inner = word:match "^%s*([%a_][%w_.]*)%s*(%b())%s*$"
  if not name then return nil end
  local fn, problem = find(name)
  if not fn then return nil, problem end
  local class
  class, problem = resolve(inner:sub(2, -2):match "^%s*(.-)%s*$")
  if not class then return nil, problem end
  local ok, result = pcall(apply, name, fn, class)
  if ok then return result end
  return nil, (tostring(result):gsub(functions[name] and "^[^\n]-:%d+: " or "^$", "")) -- of ours without its place
end

return transforms
