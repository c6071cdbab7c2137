--- choice: sections of a config that choose something by name and give its arguments: an optimizer, a schedule,
--- a loss, a model, data. In them `class` is the name, and the other keys are arguments.
local options = require "optlua.options"
local classes = require "optlua.optim.classes"
local Container = require "optlua.optim.container"
local Group = require "optlua.optim.group"
local grouping = require "optlua.optim.grouping"
local text = require "optlua.config.text"
local wrapper = require "optlua.optim.wrapper"

local choice = {}

-- What PyTorch's optimizers take and this library does not need.
local ignored = { capturable = true, differentiable = true, foreach = true, fused = true }

-- The arguments of a wrapper: its own, and where it hands others on those of the classes that it builds.
local function wrapper_arguments(class, given, legal, above)
  above = above or {}
  if above[class] then return end -- a wrapper around itself
  above[class] = true
  for name, entry in pairs(class.hyper) do legal[name] = entry end
  for name, entry in pairs(class.class_of) do
    legal[name] = { required = false, type = "any", is_class = true, doc = entry.doc or "a class, its name, or a wrapper" }
    local inner = classes.resolve(given[name] or entry.default)
    if class.extra and inner then
      if wrapper.is(inner) then
        wrapper_arguments(inner, given, legal, above)
      else
        for key, own in pairs(inner.hyper) do legal[key] = legal[key] or own end
      end
    end
  end
end

-- The loop of a spec can go back, which an optimizer alone cannot.
local nonfinite = { default = "error", choices = { "off", "error", "skip", "rollback" },
  doc = "what happens when a loss or a gradient is not finite" }

local function optimizer_arguments(given)
  local class, problem = classes.resolve(given.class)
  if not class then return nil, problem end
  local legal = {}
  if wrapper.is(class) then
    wrapper_arguments(class, given, legal)
  else
    for name, entry in pairs(class.hyper) do legal[name] = entry end
  end
  for name, entry in pairs(Container.settings) do legal[name] = entry end
  legal.nonfinite = nonfinite
  return legal, nil, class.doc
end

-- The arguments of what a factory makes; `more` are legal besides.
local factories = {
  lr_scheduler = function() return require("optlua.schedule")._factory end,
  loss = function() return require("optlua.losses")._factory end,
  model = function() return require("optlua.models")._factory end,
  data = function() return require("optlua.datasets")._factory end,
}

local modules = { lr_scheduler = "schedule", loss = "losses", model = "models", data = "datasets" }

local function factory_arguments(kind, more)
  local factory = factories[kind]
  return function(given)
    if type(given.class) ~= "string" and type(given.class) ~= "number" and type(given.class) ~= "boolean"
      and (type(given.class) ~= "table" or getmetatable(given.class)) then
      return more or {} -- a thing of the script itself
    end
    local found, problem = factory():find(given.class)
    if not found then
      local none = kind == "lr_scheduler" and "null is none, " or ""
      return nil, ("%s; %soptlua.%s.register adds one"):format(problem, none, modules[kind])
    end
    local legal = {}
    for name, entry in pairs(found.args) do legal[name] = entry end
    for name, entry in pairs(more or {}) do legal[name] = entry end
    return legal, nil, found.doc
  end
end

local interval = { default = "step", choices = { "step", "epoch" }, doc = "what the schedule counts: updates, or epochs; one that waits for a metric is told that of validation, or else the loss, after each epoch" }

local kinds = {
  optimizer = optimizer_arguments,
  lr_scheduler = factory_arguments("lr_scheduler", { interval = interval }),
  loss = factory_arguments "loss",
  model = factory_arguments "model",
  data = factory_arguments "data",
}

local plural = { optimizers = "optimizer", lr_schedulers = "lr_scheduler" }

--- Options of an optimizer that have another default in a spec.
choice.spec_defaults = { nonfinite = "error" }

--- What a spec tells a schedule where its section does not: how many updates the run has.
choice.is_length = { total_steps = true, steps = true, T_max = true }

--- The kind of choice that a place of the config is, or nil.
---@param path string[]
---@return string?
function choice.kind(path)
  if #path == 1 and kinds[path[1]] then return path[1] end
  return #path == 2 and plural[path[1]] or nil
end

--- The kinds of choices, and the names that can be chosen.
---@return table<string, string[]>
function choice.names()
  local names = { optimizer = classes.names() }
  for kind, factory in pairs(factories) do names[kind] = factory():list() end
  return names
end

--- The arguments that are legal where something was chosen, by name.
---@param kind string
---@param given table { class =, … }
---@return table<string, any>? legal
---@return string? problem
---@return string? doc of what was chosen
function choice.arguments(kind, given) return kinds[kind](given) end

--- The arguments that are legal in a group: what groups say of themselves, and the hyperparameters of its class.
---@param given table the group
---@param default_class any of groups that name none
---@return table<string, any>? legal
---@return string? problem
function choice.group_arguments(given, default_class)
  local class, problem = classes.resolve(given.class or default_class)
  if not class then return nil, problem end
  local legal = {}
  for name in pairs { name = 1, match = 1, class = 1, expect = 1, optional = 1 } do legal[name] = { required = false, type = "any" } end
  for name, entry in pairs(Group.settings) do legal[name] = entry end
  if wrapper.is(class) then
    wrapper_arguments(class, given, legal)
  else
    for name, entry in pairs(class.hyper) do legal[name] = entry end
  end
  return legal
end

choice.no_schedule = grouping.no_schedule

--- The classes of all groups, where each has another than the optimizer, which no group takes what it leaves out from then;
--- nil where one has it, or names none.
---@param section table of the optimizer
---@param groups table[]
---@return (optlua.optim.Class|optlua.optim.Wrapper)[]?
function choice.other_classes(section, groups)
  local own, others = classes.resolve(section.class), {}
  if not own or wrapper.is(own) then return nil end
  for i, group in ipairs(groups) do
    others[i] = type(group) == "table" and group.class ~= nil and classes.resolve(group.class) or own
    if others[i] == own then return nil end
  end
  return #others > 0 and others or nil
end

--- Says that no group takes what the optimizer says.
---@param name string
---@param section table of the optimizer
---@param others (optlua.optim.Class|optlua.optim.Wrapper)[] the classes of the groups
---@return string
function choice.untaken(name, section, others) return grouping.untaken(name, classes.resolve(section.class), others) end

--- Of the arguments of an optimizer those that groups take: hyperparameters, and no options of the container.
---@param section table
---@return string[]
function choice.hypers(section)
  local names = {}
  for _, key in ipairs(options.names(section)) do
    if key ~= "class" and Container.settings[key] == nil then names[#names + 1] = key end
  end
  return names
end

-- Puts arguments into a section; those of inner classes, written in the same words, too. Each has one name there.
local function flatten(section, args)
  if type(args) ~= "table" or args == text.null then return "init_args: a table expected" end
  for _, key in ipairs(options.names(args)) do
    local item = args[key]
    local inner = type(item) == "table" and item.class_path ~= nil
    if section[key] ~= nil then
      return ("%s: is given twice, to a class and to one inside it; arguments of nested classes need names of their own"):format(key)
    end
    section[key] = inner and item.class_path or item
    local problem = inner and item.init_args ~= nil and flatten(section, item.init_args)
    if problem then return problem end
  end
end

--- A section in the words of this library: { class = …, arguments }, from a name or from { class_path =, init_args = }. Of
--- a wrapper's arguments those that are classes may be written so too.
---@param value any
---@return table? section
---@return string? problem
function choice.normalise(value)
  if type(value) ~= "table" or getmetatable(value) then return { class = value } end
  local section = {}
  for key, item in pairs(value) do
    if type(key) ~= "string" then
      local slip = type(item) == "boolean" and "; an argument is given with =, not with ==" or ""
      return nil, "a name, or a table { class = …, arguments by name }, expected, got a list" .. slip
    end
    if key ~= "class_path" and key ~= "init_args" then section[key] = item end
  end
  if value.class_path == nil and value.init_args == nil then return section end
  if value.class ~= nil then return nil, "class and class_path stand side by side" end
  local problem = value.init_args ~= nil and flatten(section, value.init_args)
  if problem then return nil, problem end
  section.class = value.class_path
  return section
end

--- Takes away what PyTorch's optimizers take and this library does not need; returns their names.
---@param section table
---@param legal table<string, any>
---@return string[]
function choice.drop_ignored(section, legal)
  local names = {}
  for _, name in ipairs(options.names(ignored)) do
    if section[name] ~= nil and legal[name] == nil then
      section[name] = nil
      names[#names + 1] = name
    end
  end
  return names
end

return choice
