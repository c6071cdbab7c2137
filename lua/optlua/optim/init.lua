--- optim: optimizers, which are rules; the container; schedules.
--
-- The operations of rules (optim.sqrt …) come from the core, the classes (optim.AdamW …) from one file
-- each, loaded when first used.
local core = require("optlua.core").hidden.optim
local blame = require "optlua.optim.blame"
local classes = require "optlua.optim.classes"
local clip_grad_norm_ = require "optlua.optim.clip"
local Container = require "optlua.optim.container"
local definition = require "optlua.optim.class"
local Optimizer = require "optlua.optim.optimizer"
local params = require "optlua.optim.params"
local scheduler = require "optlua.optim.scheduler"
local transform = require "optlua.optim.transform"

local optim = {}
for name, operation in pairs(core.operations) do optim[name] = operation end

definition.Class.__call = Optimizer.new

optim.define = definition.define
optim.is_class = definition.is_class
optim.transform = transform
optim.container = Container
optim.Container = Container
optim.Optimizer = Optimizer
optim.lr_scheduler = scheduler.lr_scheduler
optim.scheduler = scheduler.scheduler
optim.clip_grad_norm_ = clip_grad_norm_
optim.role = params.role

--- Registers a class under a name: from here on it can be chosen by it.
---@param name string
---@param class optlua.optim.Class
---@return optlua.optim.Class class
function optim.register(name, class)
  local problem = classes.add(name, class)
  if problem then blame("optim.register: " .. problem) end
  return class
end

--- Forgets a class that was registered.
---@param name string
function optim.unregister(name)
  local problem = classes.remove(name)
  if problem then blame("optim.unregister: " .. problem) end
end

--- The class of a name; a class itself is returned as it is. An unknown name raises, naming the nearest.
---@param what string|optlua.optim.Class
---@return optlua.optim.Class
function optim.resolve(what)
  local class, problem = classes.resolve(what)
  if not class then blame("optim.resolve: " .. problem) end
  return class
end

optim.get = optim.resolve

--- The names of all classes, sorted.
---@return string[]
function optim.list() return classes.names() end

return setmetatable(optim, { __index = function(_, name) return classes.builtin(name) end })
