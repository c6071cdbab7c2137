--- classes: the classes of optimizers by name: those that come with the library, one file each, those
--- that scripts register, and those in files of their own. Wrappers stand for classes.
local definition = require "optlua.optim.class"
local options = require "optlua.options"
local blame = require "optlua.blame"
local match = require "optlua.optim.match"
local registry = require "optlua.registry"
local transforms = require "optlua.optim.transforms"
local wrapper = require "optlua.optim.wrapper"

local classes = {}

--- Whether a value is a class or a wrapper.
---@param value any
---@return boolean
function classes.is_class(value) return definition.is_class(value) or wrapper.is(value) end

-- Those that come with the library; each in the file of its name in small letters.
local builtin = {
  "ASGD", "AdEMAMix", "AdaBelief", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Adan", "LAMB", "LARS", "LBFGS",
  "Lion", "Muon", "NAdam", "Prodigy", "RAdam", "RMSprop", "Rprop", "SGD", "ScheduleFreeAdamW", "ScheduleFreeSGD", "Signum",
  "SparseAdam",
}
local is_builtin = {}
for _, name in ipairs(builtin) do is_builtin[name] = true end

--- The class of the library with that name, or nil.
---@param name string
---@return optlua.optim.Class?
function classes.builtin(name)
  return is_builtin[name] and require("optlua.optim.classes." .. name:lower()) or nil
end

local known = registry.new("optimizer", classes.builtin, builtin)

--- Adds a class, or a transform of classes, under a name; returns what is wrong.
---@param name string
---@param what optlua.optim.Class|fun(inner: optlua.optim.Class): optlua.optim.Class
---@return string? problem
function classes.add(name, what)
  local is_transform = type(what) == "function"
  if not is_transform and not classes.is_class(what) then
    return "a class expected, as optim.define makes it, or a transform, a function that makes a class from a class, got a " .. type(what)
  end
  if is_transform and known:lookup(name) then return ("%s is already a registered optimizer"):format(name) end
  if not is_transform and transforms.is_known(name) then return ("%s is already a registered transform"):format(name) end
  if is_transform then return transforms.add(name, what) end
  return known:add(name, what)
end

--- Removes a class or a transform that was added; returns what is wrong.
---@param name string
---@return string? problem
function classes.remove(name)
  if is_builtin[name] then return name .. " comes with the library" end
  if transforms.is_known(name) then return transforms.remove(name) end
  return known:remove(name)
end

local function select(names, glob)
  if glob == nil then return names end
  local test, problem = match.compile(glob)
  if problem or type(glob) ~= "string" then blame("a glob expected: " .. (problem or type(glob))) end
  local list = {}
  for _, name in ipairs(names) do
    if test(name) then list[#list + 1] = name end
  end
  return list
end

--- All names, or those that a glob matches, sorted.
---@param glob? string
---@return string[]
function classes.names(glob) return select(known:names(), glob) end

--- The names that were added and that a glob matches.
---@param glob string
---@return string[]
function classes.added(glob)
  local names = {}
  for _, name in ipairs(known:names()) do
    if not is_builtin[name] then names[#names + 1] = name end
  end
  return select(names, glob)
end

-- The class that a file of its own returns, by the name of the module: "optimizers.mine".
local function from_module(name)
  if not package.searchpath(name, package.path) then return nil end
  local loaded, result = pcall(require, name)
  if not loaded then return nil, ("class: the module %s cannot be loaded: %s"):format(name, tostring(result)) end
  if classes.is_class(result) then return result end
  if type(result) == "function" then return nil, transforms.alone(name) end
  return nil, ("class: the module %s returns no class and no wrapper"):format(name)
end

-- Says that a name is neither known nor that of a module.
local function unknown(name)
  local module = name:gsub("^%./", ""):gsub("%.lua$", ""):gsub("/", ".")
  local found = module ~= name and package.searchpath(module, package.path)
  local other = found and ("a module is named without .lua: %q"):format(module)
    or ("there is no module of that name either (%s.lua beside the script)"):format((module:gsub("%.", "/")))
  return ("%s; %s"):format(options.unknown("optimizer", name, known:names()), other)
end

--- The class that is meant by a class or a wrapper, by a registered name (also as "torch.optim.NAME"), by that of a transform
--- around one ("Lookahead(AdamW)", also of a module that returns one), or by the name of a module that returns one.
---@param what any
---@return optlua.optim.Class|optlua.optim.Wrapper|nil class
---@return string? problem
function classes.resolve(what)
  if classes.is_class(what) then return what end
  if what == nil then return nil, "class: a class or its name is required" end
  if type(what) ~= "string" then return nil, ("class: a class or its name expected, got a %s"):format(type(what)) end
  local class = known:lookup(what:match "^torch%.optim%.(.*)$" or what)
  if class then return class end
  local problem
  class, problem = transforms.resolve(what, classes.resolve)
  if class or problem then return class, problem end
  class, problem = from_module(what)
  return class, not class and (problem or unknown(what)) or nil
end

return classes
