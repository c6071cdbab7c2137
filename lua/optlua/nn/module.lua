--- module: classes of layers, and what every layer can do.
--
-- A module is a table. Fields are plain Lua fields; those that hold a parameter, a buffer or another
-- module are *members*: their names are kept in the order of definition, and everything that walks a
-- model (parameters, state_dict, printing …) follows that order.
local blame = require "optlua.blame"
local optlua = require "optlua"
local options = require "optlua.options"
local guard = require "optlua.nn.guard"
local kinds = require "optlua.nn.kind"
local members = require "optlua.nn.members"
local state = require "optlua.nn.state"
local file = require "optlua.nn.file"

--- What every layer and model is: a table with members, and a forward pass. Classes are made by
--- nn.class.
---@class nn.Module
---@field training boolean whether the module is in training mode
local Module = {}

for _, methods in ipairs { state, file } do
  for name, method in pairs(methods) do Module[name] = method end
end

-- Members ---------------------------------------------------------------------------------------------

local function contains(module, wanted)
  for _, below in members.each(members.modules(module)) do
    if below == wanted then return true end
  end
  return false
end

--- Called for every first assignment to a field.
local function assign(self, key, value)
  local kind = kinds.of(value)
  if kinds.holds_module(value) then
    blame(("%s: a plain table of modules would hide their parameters; use nn.ModuleList or nn.Sequential")
      :format(members.describe(self, key)))
  end
  if kind == "module" and contains(value, self) then
    blame(("%s: a module cannot contain itself"):format(members.describe(self, key)))
  end
  if kind then
    if Module[key] ~= nil then
      blame(("%s: a member cannot bear the name of a module's method"):format(members.describe(self, key)))
    end
    if type(key) == "string" and key:find("%.") then
      blame(("%s: the name of a member cannot contain a dot"):format(members.describe(self, key)))
    end
    members.note(self, key, kind)
  end
  rawset(self, key, value)
end

--- Adds a tensor to the module's parameters, whether it requires a gradient or not.
---@param name string
---@param tensor optlua.Tensor|nil nil: the parameter is absent
function Module:register_parameter(name, tensor)
  if tensor ~= nil then
    rawset(self, name, nil)
    self[name] = kinds.parameter(tensor, { requires_grad = tensor.requires_grad })
  end
end

--- Adds a tensor that is saved with the module but not trained, such as running statistics.
---@param name string
---@param tensor optlua.Tensor
---@param opts? { persistent?: boolean } persistent = false: not part of the state_dict
function Module:register_buffer(name, tensor, opts)
  opts = options.check("register_buffer", opts, { persistent = true })
  if not optlua.is_tensor(tensor) then
    blame(("%s: tensor expected, got %s"):format(members.describe(self, name), type(tensor)))
  end
  if Module[name] ~= nil then
    blame(("%s: a member cannot bear the name of a module's method"):format(members.describe(self, name)))
  end
  members.note(self, name, opts.persistent and "buffer" or "transient")
  rawset(self, name, tensor)
end

-- Walking -----------------------------------------------------------------------------------------

--- Iterates over the module itself ("") and all modules below it, parents first: full name, module.
--- A module that occurs twice is visited once, under its first name.
---@return fun(): string, nn.Module
function Module:named_modules() return members.each(members.modules(self)) end

--- Iterates over all parameters in the order of definition: full name, parameter, owning module. A
--- tied parameter comes once, under its first name.
---@return fun(): string, optlua.Tensor, nn.Module
function Module:named_parameters() return members.each(members.tensors(self, { parameter = true })) end

--- Iterates over all buffers: full name, buffer, owning module.
---@return fun(): string, optlua.Tensor, nn.Module
function Module:named_buffers() return members.each(members.tensors(self, { buffer = true, transient = true })) end

--- Collects the second values of an iterator.
local function list(iterator)
  local result = {}
  for _, value in iterator do result[#result + 1] = value end
  return result
end

--- All parameters, as a list.
---@return optlua.Tensor[]
function Module:parameters() return list(self:named_parameters()) end

--- All buffers, as a list.
---@return optlua.Tensor[]
function Module:buffers() return list(self:named_buffers()) end

--- The module and all modules below it, as a list.
---@return nn.Module[]
function Module:modules() return list(self:named_modules()) end

--- Iterates over the modules directly below: name, module.
---@return fun(): string, nn.Module
function Module:named_children()
  local next_member = members.of(self)
  return function()
    for key, value, kind in next_member do
      if kind == "module" then return members.name_of(key), value end
    end
  end
end

--- The modules directly below, as a list.
---@return nn.Module[]
function Module:children() return list(self:named_children()) end

--- Finds the second value of the tuple that begins with name.
local function find(self, what, name, tuples)
  local names = {}
  for i, tuple in ipairs(tuples) do
    if tuple[1] == name then return tuple[2] end
    names[i] = tuple[1]
  end
  blame(("%s: no %s is named %q; the nearest is %q"):format(self:type(), what, tostring(name),
    options.nearest(tostring(name), names) or ""))
end

--- The module of a full name ("" is the module itself).
---@param name string
---@return nn.Module
function Module:get_submodule(name) return find(self, "module", name, members.modules(self, true)) end

--- The parameter of a full name; a tied one answers to all its names.
---@param name string
---@return optlua.Tensor
function Module:get_parameter(name)
  return find(self, "parameter", name, members.tensors(self, { parameter = true }, true))
end

--- Calls fn on every module below, and then on the module itself.
---@param fn fun(module: nn.Module)
---@return nn.Module self
function Module:apply(fn)
  for _, child in self:named_children() do child:apply(fn) end
  fn(self)
  return self
end

-- Modes and gradients ---------------------------------------------------------------------------------

--- Switches the module and all below it to training mode (or, with false, to evaluation).
---@param mode? boolean
---@return nn.Module self
function Module:train(mode)
  for _, module in self:named_modules() do rawset(module, "training", mode ~= false) end
  return self
end

--- Switches the module and all below it to evaluation.
---@return nn.Module self
function Module:eval() return self:train(false) end

--- Lets all parameters want a gradient, or (false) freezes them.
---@param on? boolean
---@return nn.Module self
function Module:requires_grad_(on)
  for _, tensor in self:named_parameters() do tensor.requires_grad = on ~= false end
  return self
end

--- Makes the gradients of all parameters absent.
function Module:zero_grad()
  for _, tensor in self:named_parameters() do tensor.grad = nil end
end

-- Printing --------------------------------------------------------------------------------------------

--- The name of the module's class.
---@return string
function Module:type() return getmetatable(self).name end

--- What stands between the parentheses when the module is printed; layers override it.
---@return string
function Module:extra_repr() return "" end

local function to_string(self)
  local lines = {}
  for name, child in self:named_children() do
    lines[#lines + 1] = ("  (%s): %s"):format(name, tostring(child):gsub("\n", "\n  "))
  end
  if #lines == 0 then return ("%s(%s)"):format(self:type(), self:extra_repr()) end
  return ("%s(\n%s\n)"):format(self:type(), table.concat(lines, "\n"))
end

-- Classes ---------------------------------------------------------------------------------------------

--- The forward pass; classes define it. Calling a module calls it.
function Module:forward()
  blame(("%s has no forward"):format(self:type()))
end

-- A class that would have no members, because what makes them bears a name of other libraries.
local function check_init(class)
  for _, name in ipairs { "__init", "__init__", "new" } do
    if rawget(class, name) ~= nil and (name ~= "new" or class.init == nil) then
      blame(("class %s: its members are made by %s:init(…), not by %s"):format(class.name, class.name, name))
    end
  end
end

local function new(class, ...)
  if not rawget(class, "init") then check_init(class) end
  local self = setmetatable({ training = true, _members = {} }, class)
  if class.init then class.init(self, ...) end
  return self
end

--- Makes a class of modules. `init(self, …)` builds an instance, `forward(self, …)` is the model;
--- `Class(…)` makes an instance and `instance(…)` runs forward. `Class.super` is the parent.
---
--- Assign one member a line: Lua assigns `self.a, self.b = x, y` from right to left, and parameters
--- are named in the order of assignment.
---@param name string
---@param parent? table a class; default nn.Module
---@return table
local function class(name, parent)
  parent = parent or Module
  if type(name) ~= "string" then blame("nn.class: name (string) expected, got " .. type(name)) end
  if not kinds.is_class(parent) then blame("nn.class: the parent of " .. name .. " is not a class") end
  local result = { name = name, super = parent }
  result.__index = result
  result.__newindex = assign
  result.__tostring = to_string
  result.__call = function(self, ...)
    guard.check(self, ...)
    return self:forward(...)
  end
  kinds.declare_class(result)
  return setmetatable(result, {
    __index = parent,
    __call = new,
    __tostring = function() return "class " .. name end,
  })
end

for name, method in pairs(Module) do
  if type(method) == "function" then Module[name] = guard.method(name, method) end
end

Module.name = "Module"
kinds.declare_class(Module)

return {
  size = { required = true, type = "integer", min = 0 }, -- a number of features, rows …
  Module = Module,
  Parameter = kinds.parameter,
  class = class,
  is_class = kinds.is_class,
  is_module = kinds.is_module,
}
