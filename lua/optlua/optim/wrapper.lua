--- wrapper: an "optimizer" that sees the names of parameters and builds others from them.
--
-- Wherever a class can stand, a wrapper can: it is called with parameters and arguments, checks the
-- arguments, and hands named parameters to a function of the script that returns optimizers.
local options = require "optlua.options"
local blame = require "optlua.blame"
local hyper = require "optlua.optim.hyper"
local params = require "optlua.optim.params"

---@class optlua.optim.Wrapper
---@field name string
---@field hyper table<string, optlua.Option> the schema of its own arguments
local Wrapper = {}
Wrapper.__index = Wrapper
Wrapper.__name = "optimizer wrapper"

local wrapper = {}

--- Whether a value is a wrapper.
---@param value any
---@return boolean
function wrapper.is(value) return getmetatable(value) == Wrapper end

local fields = {
  name = { required = true, type = "string" }, build = { required = true, type = "function" },
  hyper = { default = {}, type = "table" }, extra = false, doc = { required = false, type = "string" },
}

-- Arguments of type "class" are checked by the registry of classes, the others by their schema.
local function split(what, declared)
  local plain, class_of = {}, {}
  for name, entry in pairs(declared) do
    if type(entry) == "table" and entry.type == "class" then
      class_of[name] = { default = entry.default }
      if entry.default == nil then blame(("%s: hyper.%s: a default is required"):format(what, name)) end
    else
      plain[name] = entry
    end
  end
  return hyper.schema(what, plain), class_of
end

--- Makes a wrapper: something that stands where a class can, sees named parameters, and builds
--- optimizers from them, of any class. Its arguments are checked like hyperparameters, those of the
--- classes that it builds by them.
---
---     local optlua = require "optlua"
---     local nn, optim = optlua.nn, optlua.optim
---     local Split = optim.wrapper {
---       name = "Split",
---       hyper = { lr = { default = 0.1, min = 0 } },
---       build = function(named_params, args)
---         local weights, others = {}, {}
---         for name, param in named_params do
---           table.insert(name:find "weight" and weights or others, { name, param })
---         end
---         return optim.SGD {
---           { name = "weights", params = weights, lr = args.lr }, { name = "others", params = others, lr = 2 * args.lr },
---         }
---       end,
---     }
---     local optimizer = optim.container(nn.Linear(2, 2), Split, { lr = 0.5 })
---     print(optimizer.groups.others.lr) --> 1.0
---
--- Fields: name; hyper, the schema of its arguments as in optim.define, and besides { default = "AdamW",
--- type = "class" }: a class, its name or another wrapper; extra = true: other arguments are allowed, and
--- handed on as a table; build(named_params, args, extra): named_params is an iterator (name, parameter,
--- module) in the model's order; it returns an optimizer (a class called with a list of groups, say), a list of
--- them, or anything with step, zero_grad, state_dict and load_state_dict. Every parameter must be in it.
---@param definition table
---@return optlua.optim.Wrapper
function wrapper.define(definition)
  local checked, problems = options.collect(definition, fields)
  if type(definition) == "table" and definition.name == "" then problems[#problems + 1] = "name: a word expected, got \"\"" end
  if #problems > 0 then blame("optim.wrapper: " .. table.concat(problems, "\noptim.wrapper: ")) end
  local self = setmetatable(checked, Wrapper)
  self.hyper, self.class_of = split(self.name, checked.hyper)
  return self
end

-- Sorts what was given into checked arguments and the rest.
local function read_arguments(self, given)
  local classes = require "optlua.optim.classes" -- which knows wrappers
  local own, args_classes, extra, problems = {}, {}, {}, {}
  for name, value in pairs(given) do
    if self.class_of[name] then args_classes[name] = value
    elseif self.hyper[name] or not self.extra then own[name] = value
    else extra[name] = value end
  end
  local args, wrong = hyper.values(own, self.hyper, options.names(self.class_of))
  table.move(wrong, 1, #wrong, 1, problems)
  for name, entry in pairs(self.class_of) do
    local problem
    args[name], problem = classes.resolve(args_classes[name] or entry.default)
    if problem then problems[#problems + 1] = ("%s: %s"):format(name, problem) end
  end
  return args, extra, problems
end

local methods = { "step", "zero_grad", "state_dict", "load_state_dict" }

local function is_optimizer(value)
  if type(value) ~= "table" then return false end
  for _, method in ipairs(methods) do
    if type(value[method]) ~= "function" then return false end
  end
  return true
end

-- What build returned, as a list.
local function read_result(self, result)
  local list = is_optimizer(result) and { result } or result
  if type(list) ~= "table" or #list == 0 then
    return nil, ("%s: build returns an optimizer or a list of them, not %s"):format(self.name,
      type(result) == "table" and "an empty table" or type(result))
  end
  for i, one in ipairs(list) do
    if not is_optimizer(one) then
      return nil, ("%s: item %d that build returned is no optimizer: it lacks %s"):format(self.name, i,
        table.concat(methods, ", "))
    end
  end
  return list
end

-- Parameters that the optimizers leave out or have twice; what is not of this library is believed.
local function check_complete(self, entries, list)
  local found = {}
  for _, one in ipairs(list) do
    if not one._groups then return nil end
    for _, group in ipairs(one._groups) do
      for i, tensor in ipairs(group.params) do
        if found[tensor] then return ("%s: build put the parameter '%s' into two optimizers"):format(self.name, group.names[i]) end
        found[tensor] = true
      end
    end
  end
  local left = {}
  for _, entry in ipairs(entries) do
    if not found[entry[2]] then left[#left + 1] = "'" .. entry[1] .. "'" end
  end
  if #left > 0 then return ("%s: build left out the parameters %s"):format(self.name, table.concat(left, ", ")) end
end

--- Builds the optimizers for some parameters.
---@param self optlua.optim.Wrapper
---@param entries table[] { name, tensor, module } each
---@param given table<string, any> arguments
---@return table[] optimizers
---@return string[] problems
function wrapper.build(self, entries, given)
  local args, extra, problems = read_arguments(self, given)
  if #problems > 0 then return {}, problems end
  local list, problem = read_result(self, self.build(params.iterate(entries), args, extra))
  problem = problem or check_complete(self, entries, list)
  return list or {}, { problem }
end

--- Builds the optimizer: one, or a container of several.
function Wrapper:__call(given, opts)
  local entries, problem = params.list(given, 1)
  if problem then blame(("%s: %s"):format(self.name, problem)) end
  local list, problems = wrapper.build(self, entries, opts or {})
  if #problems > 0 then blame(("%s: %s"):format(self.name, table.concat(problems, "\n"))) end
  if #list == 1 then return list[1] end
  return require("optlua.optim.container").combine(self.name, list)
end

function Wrapper:__tostring() return "optimizer wrapper " .. self.name end

return wrapper
