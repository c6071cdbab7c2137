--- factory: registries of things that are made from checked arguments: schedules, losses, models, data.
local options = require "optlua.options"
local registry = require "optlua.registry"
local blame = require "optlua.blame"

---@class optlua.Factory
---@field kind string what is made: "schedule" …
local Factory = {}
Factory.__index = Factory

---@class optlua.Constructor
---@field name string
---@field args table<string, any> what it takes, as `options` describes it
---@field doc? string a sentence
local Constructor = {}
Constructor.__index = Constructor

--- Checks arguments and makes the thing.
function Constructor:__call(args)
  local what = ("%s.%s"):format(self.kind, self.name)
  local hint = self.hint and self.hint(self.name, args)
  if hint then blame(what .. ": " .. hint) end
  local checked, problems = options.collect(args, self.args)
  if #problems > 0 then blame(what .. ": " .. table.concat(problems, "\n" .. what .. ": ")) end
  return self.make(checked, function(problem) blame(what .. ": " .. problem) end)
end

function Constructor:__tostring() return ("%s.%s"):format(self.kind, self.name) end

--- Makes an empty factory.
---@param kind string
---@return optlua.Factory
local function new(kind)
  return setmetatable({ kind = kind, known = registry.new(kind) }, Factory)
end

--- Adds a kind of things under a name.
---@param name string
---@param args table<string, any> what it takes: defaults, or descriptions { default =, min =, doc = … }
---@param make fun(args: table, fail: fun(problem: string)): any
function Factory:register(name, args, make)
  if type(args) ~= "table" or type(make) ~= "function" then
    blame(self.kind .. ".register: a name, a table of arguments and a function expected")
  end
  for key in pairs(args) do
    if type(key) ~= "string" then blame(("%s.register: arguments have names, not %s"):format(self.kind, tostring(key))) end
  end
  local problem = self.known:add(name, setmetatable({ kind = self.kind, name = name, args = args, make = make, hint = self.hint }, Constructor))
  if problem then blame(("%s.register: %s"):format(self.kind, problem)) end
end

--- Forgets what was registered under a name.
---@param name string
function Factory:unregister(name)
  local problem = self.known:remove(name)
  if problem then blame(("%s.unregister: %s"):format(self.kind, problem)) end
end

--- The names, sorted.
---@return string[]
function Factory:list() return self.known:names() end

--- The constructor of a name, or nil and what is wrong.
---@param name any
---@return optlua.Constructor?
---@return string? problem
function Factory:find(name)
  if type(name) ~= "string" then return nil, ("the name of a %s expected, got a %s"):format(self.kind, type(name)) end
  local found = self.known:lookup(name)
  if found then return found end
  return nil, options.unknown(self.kind, name, self:list())
end

--- The constructor of a name, to be called with a table of arguments. An unknown name raises.
---@param name string
---@return optlua.Constructor
function Factory:resolve(name)
  local found, problem = self:find(name)
  if not found then blame(("%s.resolve: %s"):format(self.kind, problem)) end
  return found
end

--- A module that registers and makes things of a kind: `module.register`, `unregister`, `list`, `resolve`, and each
--- thing by its name: `module.NAME { … }`.
---@param kind string
---@param module? table further functions
---@return table module
---@return optlua.Factory
local function module_of(kind, module)
  local factory = new(kind)
  module = module or {}
  for _, name in ipairs { "register", "unregister", "list", "resolve" } do
    module[name] = function(...) return factory[name](factory, ...) end
  end
  setmetatable(module, {
    __index = function(_, name)
      if type(name) ~= "string" or name:find "^_" then return nil end
      local found, problem = factory:find(name)
      if not found then blame(("%s.%s does not exist: %s"):format(kind, name, problem)) end
      return found
    end,
  })
  return module, factory
end

return { new = new, module = module_of }
