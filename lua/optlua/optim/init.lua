--- optim: optimizers, which are rules; the container; schedules.
--
-- The operations of rules (optim.sqrt …) come from the core, the classes (optim.AdamW …) from one file
-- each, loaded when first used.
local core = require("optlua.core").hidden.optim
local blame = require "optlua.blame"
local classes = require "optlua.optim.classes"
local clip_grad_norm_ = require "optlua.optim.clip"
local Container = require "optlua.optim.container"
local definition = require "optlua.optim.class"
local Optimizer = require "optlua.optim.optimizer"
local options = require "optlua.options"
local groups = require "optlua.optim.groups"
local params = require "optlua.optim.params"
local scheduler = require "optlua.optim.scheduler"
local statistics = require "optlua.optim.statistics"
local transform = require "optlua.optim.transform"
local wrapper = require "optlua.optim.wrapper"

---@class optlua.Symbol what rules compute with: a parameter, a gradient, a state, or made of them
---@field shape integer[] reading it makes the rule run once for each shape
---@field ndim integer
---@field numel integer

---@alias optlua.Operand optlua.Symbol|number

---@class optlua.optim
---@field ASGD optlua.optim.Class
---@field AdEMAMix optlua.optim.Class
---@field AdaBelief optlua.optim.Class
---@field Adadelta optlua.optim.Class
---@field Adafactor optlua.optim.Class
---@field Adagrad optlua.optim.Class
---@field Adam optlua.optim.Class
---@field AdamW optlua.optim.Class
---@field Adamax optlua.optim.Class
---@field Adan optlua.optim.Class
---@field LAMB optlua.optim.Class
---@field LARS optlua.optim.Class
---@field LBFGS optlua.optim.Class
---@field Lion optlua.optim.Class
---@field Muon optlua.optim.Class
---@field NAdam optlua.optim.Class
---@field Prodigy optlua.optim.Class
---@field RAdam optlua.optim.Class
---@field RMSprop optlua.optim.Class
---@field Rprop optlua.optim.Class
---@field SGD optlua.optim.Class
---@field ScheduleFreeAdamW optlua.optim.Class
---@field ScheduleFreeSGD optlua.optim.Class
---@field Signum optlua.optim.Class
---@field SparseAdam optlua.optim.Class
---@field sqrt fun(x: optlua.Operand): optlua.Operand
---@field rsqrt fun(x: optlua.Operand): optlua.Operand 1 / sqrt(x)
---@field abs fun(x: optlua.Operand): optlua.Operand
---@field sign fun(x: optlua.Operand): optlua.Operand -1, 0 or 1
---@field exp fun(x: optlua.Operand): optlua.Operand
---@field log fun(x: optlua.Operand): optlua.Operand
---@field tanh fun(x: optlua.Operand): optlua.Operand
---@field min fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand elementwise; that of one tensor is amin
---@field max fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand elementwise; that of one tensor is amax
---@field clamp fun(x: optlua.Operand, low: optlua.Operand, high: optlua.Operand): optlua.Operand
---@field lerp fun(x: optlua.Operand, y: optlua.Operand, w: optlua.Operand): optlua.Operand x + w * (y - x)
---@field where fun(c: optlua.Operand, x: optlua.Operand, y: optlua.Operand): optlua.Operand x where c is not 0, else y
---@field lt fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand 1 where x < y, else 0
---@field le fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand
---@field gt fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand
---@field ge fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand
---@field eq fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand
---@field ne fun(x: optlua.Operand, y: optlua.Operand): optlua.Operand
---@field sum fun(x: optlua.Symbol, dim?: integer): optlua.Symbol over the tensor, or a dimension that stays with size 1
---@field mean fun(x: optlua.Symbol, dim?: integer): optlua.Symbol
---@field norm fun(x: optlua.Symbol, dim?: integer): optlua.Symbol
---@field amax fun(x: optlua.Symbol, dim?: integer): optlua.Symbol
---@field amin fun(x: optlua.Symbol, dim?: integer): optlua.Symbol
---@field matmul fun(x: optlua.Symbol, y: optlua.Symbol): optlua.Symbol
---@field t fun(x: optlua.Symbol): optlua.Symbol a matrix, transposed
---@field group_add fun(name: string, x: optlua.Operand) adds the sum of x to a number of the group
local optim = {}
for name, operation in pairs(core.operations) do optim[name] = operation end

definition.Class.__call = Optimizer.new

optim.define = definition.define
optim.is_class = classes.is_class
optim.wrapper = wrapper.define
optim.transform = transform
optim.centralize = require "optlua.optim.transforms.centralize"
optim.lookahead = require "optlua.optim.transforms.lookahead"
optim.sam = require "optlua.optim.transforms.sam"
optim.swa = require "optlua.optim.transforms.swa"
optim.container = Container
optim.Container = Container
optim.Optimizer = Optimizer
optim.lr_scheduler = scheduler.lr_scheduler
optim.scheduler = scheduler.scheduler
optim.clip_grad_norm_ = clip_grad_norm_
optim.check = require "optlua.optim.check"
optim.update_bn = statistics.update_bn
optim.role = params.role
optim.groups = groups

--- Registers a class under a name: from here on it can be chosen by it. A transform, a function that makes a class from a class,
--- is chosen by its name around that of a class:
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     optim.register("Halved", function(inner)
---       return optim.transform(inner, { name = "Halved(" .. inner.name .. ")",
---         update = function(p, g, s, h, inner_update) return inner_update(p, 0.5 * g) end })
---     end)
---     print(optim.container(optlua.nn.Linear(1, 1), "Halved(SGD)", { lr = 1 }).groups.default.class)
---     --> optimizer class Halved(SGD) { dampening = 0, lr = 0.001, maximize = false, momentum = 0, nesterov = false, weight_decay = 0 }
---@param name string
---@param class optlua.optim.Class|fun(inner: optlua.optim.Class): optlua.optim.Class
---@return optlua.optim.Class|function class
function optim.register(name, class)
  local problem = classes.add(name, class)
  if problem then blame("optim.register: " .. problem) end
  return class
end

--- Forgets the class or transform that was registered under a name, or all classes that a glob matches.
---@param glob string "*" stands for any characters
function optim.unregister(glob)
  if type(glob) ~= "string" then blame("optim.unregister: a name or a glob expected, got a " .. type(glob)) end
  local names = glob:find "[*|]" and classes.added(glob) or { glob }
  for _, name in ipairs(names) do
    local problem = classes.remove(name)
    if problem then blame("optim.unregister: " .. problem) end
  end
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

--- The names of all classes, or of those that a glob matches, sorted.
---@param glob? string "Adam*"
---@return string[]
function optim.list(glob) return classes.names(glob) end

return setmetatable(optim, {
  __index = function(_, name)
    if type(name) ~= "string" or name:find "^_" then return nil end
    local class = classes.builtin(name)
    if class then return class end
    local names = options.names(optim)
    blame(options.missing("optim", name, table.move(classes.names(), 1, #classes.names(), #names + 1, names)))
  end,
})
