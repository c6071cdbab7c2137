--- module: classes of layers, and what every layer can do.
--
-- A module is a table. Fields are plain Lua fields; those that hold a parameter, a buffer or another
-- module are *members*: their names are kept in the order of definition, and everything that walks a
-- model (parameters, state_dict, printing …) follows that order.
local optlua = require "optlua"
local options = require "optlua.options"

--- What every layer and model is: a table with members, and a forward pass. Classes are made by
--- nn.class.
---@class nn.Module
---@field training boolean whether the module is in training mode
local Module = {}

local classes = setmetatable({}, { __mode = "k" }) -- every class
local declared = setmetatable({}, { __mode = "k" }) -- tensors that nn.Parameter made

--- Whether a value is a module.
---@param value any
---@return boolean
local function is_module(value)
  return type(value) == "table" and classes[getmetatable(value)] == true
end

--- Whether a value is a class of modules.
---@param value any
---@return boolean
local function is_class(value) return classes[value] == true end

--- Whether a value is a tensor that a module would take as its parameter: one made by nn.Parameter,
--- or any leaf that requires a gradient.
local function is_parameter(value)
  return optlua.is_tensor(value) and (declared[value] or (value.requires_grad and value.is_leaf)) or false
end

--- Makes a tensor a parameter: a leaf that requires a gradient (unless told otherwise) and that a
--- module it is assigned to counts among its parameters.
---@param tensor optlua.Tensor
---@param opts? { requires_grad?: boolean }
---@return optlua.Tensor # the same tensor, or a detached one where it has a history
local function parameter(tensor, opts)
  opts = options.check("nn.Parameter", opts, { requires_grad = true })
  if not optlua.is_tensor(tensor) then
    error("nn.Parameter: tensor expected, got " .. type(tensor), 2)
  end
  if not tensor.is_leaf then tensor = tensor:detach() end
  tensor.requires_grad = opts.requires_grad
  declared[tensor] = true
  return tensor
end

-- Members ---------------------------------------------------------------------------------------

--- Children of lists are reached as model[1] and named "0", as in PyTorch.
local function name_of(key)
  return math.type(key) == "integer" and tostring(key - 1) or key
end

local function describe(self, key)
  return ("%s.%s"):format(self:type(), name_of(key))
end

--- Notes a member; one that was there before keeps its place.
local function note(self, key, kind)
  local members = rawget(self, "_members")
  for _, member in ipairs(members) do
    if member.key == key then
      member.kind = kind
      return
    end
  end
  members[#members + 1] = { key = key, kind = kind }
end

local function holds_module(value)
  if type(value) ~= "table" or is_module(value) then return false end
  for _, item in pairs(value) do
    if is_module(item) then return true end
  end
  return false
end

--- The kind of member that a value is, or nil for a plain field.
local function kind_of(value)
  if is_module(value) then return "module" end
  if is_parameter(value) then return "parameter" end
end

--- Called for every first assignment to a field.
local function assign(self, key, value)
  local kind = kind_of(value)
  if holds_module(value) then
    error(("%s: a plain table of modules would hide their parameters; use nn.ModuleList or nn.Sequential")
      :format(describe(self, key)), 2)
  end
  if kind then
    if Module[key] ~= nil then
      error(("%s: a member cannot bear the name of a module's method"):format(describe(self, key)), 2)
    end
    if type(key) == "string" and key:find("%.") then
      error(("%s: the name of a member cannot contain a dot"):format(describe(self, key)), 2)
    end
    note(self, key, kind)
  end
  rawset(self, key, value)
end

--- Iterates over the members of one module: key, value, kind. Fields that were assigned anew are
--- seen as they are now.
local function members(self)
  local list, at = rawget(self, "_members"), 0
  return function()
    while at < #list do
      at = at + 1
      local key, kind = list[at].key, list[at].kind
      local value = rawget(self, key)
      if kind == "module" and is_module(value) then return key, value, kind end
      if kind ~= "module" and optlua.is_tensor(value) then return key, value, kind end
      if value ~= nil then
        error(("%s: was a %s, and is now a %s"):format(describe(self, key), kind, type(value)), 0)
      end
    end
  end
end

--- Adds a tensor to the module's parameters, whether it requires a gradient or not.
---@param name string
---@param tensor optlua.Tensor|nil nil: the parameter is absent
function Module:register_parameter(name, tensor)
  if tensor ~= nil then
    rawset(self, name, nil)
    self[name] = parameter(tensor, { requires_grad = tensor.requires_grad })
  end
end

--- Adds a tensor that is saved with the module but not trained, such as running statistics.
---@param name string
---@param tensor optlua.Tensor
---@param opts? { persistent?: boolean } persistent = false: not part of the state_dict
function Module:register_buffer(name, tensor, opts)
  opts = options.check("register_buffer", opts, { persistent = true })
  if not optlua.is_tensor(tensor) then
    error(("%s: tensor expected, got %s"):format(describe(self, name), type(tensor)), 2)
  end
  if Module[name] ~= nil then
    error(("%s: a member cannot bear the name of a module's method"):format(describe(self, name)), 2)
  end
  note(self, name, opts.persistent and "buffer" or "transient")
  rawset(self, name, tensor)
end

-- Walking -----------------------------------------------------------------------------------------

local function join(prefix, key)
  return prefix == "" and name_of(key) or prefix .. "." .. name_of(key)
end

--- Iterates over a list of tuples { a, b, c }.
local function each(tuples)
  local at = 0
  return function()
    at = at + 1
    if tuples[at] then return table.unpack(tuples[at]) end
  end
end

--- Lists { name, module } for a module and all below it, parents first. `every`: also those that were
--- seen under another name.
local function list_modules(self, every)
  local found, seen = {}, {}
  local function visit(module, name)
    if seen[module] and not every then return end
    seen[module] = true
    found[#found + 1] = { name, module }
    for key, value, kind in members(module) do
      if kind == "module" then visit(value, join(name, key)) end
    end
  end
  visit(self, "")
  return found
end

--- Lists { name, tensor, module } for the tensors of some kinds.
local function list_tensors(self, kinds, every)
  local found, seen = {}, {}
  for name, module in each(list_modules(self, every)) do
    for key, value, kind in members(module) do
      if kinds[kind] and (every or not seen[value]) then
        seen[value] = true
        found[#found + 1] = { join(name, key), value, module }
      end
    end
  end
  return found
end

--- Iterates over the module itself ("") and all modules below it, parents first: full name, module.
--- A module that occurs twice is visited once, under its first name.
---@return fun(): string, nn.Module
function Module:named_modules() return each(list_modules(self)) end

--- Iterates over all parameters in the order of definition: full name, parameter, owning module. A
--- tied parameter comes once, under its first name.
---@return fun(): string, optlua.Tensor, nn.Module
function Module:named_parameters() return each(list_tensors(self, { parameter = true })) end

--- Iterates over all buffers: full name, buffer, owning module.
---@return fun(): string, optlua.Tensor, nn.Module
function Module:named_buffers() return each(list_tensors(self, { buffer = true, transient = true })) end

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
  local next_member = members(self)
  return function()
    for key, value, kind in next_member do
      if kind == "module" then return name_of(key), value end
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
  error(("%s: no %s is named %q; the nearest is %q"):format(self:type(), what, tostring(name),
    options.nearest(tostring(name), names) or ""), 3)
end

--- The module of a full name ("" is the module itself).
---@param name string
---@return nn.Module
function Module:get_submodule(name) return find(self, "module", name, list_modules(self, true)) end

--- The parameter of a full name; a tied one answers to all its names.
---@param name string
---@return optlua.Tensor
function Module:get_parameter(name)
  return find(self, "parameter", name, list_tensors(self, { parameter = true }, true))
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

-- State ---------------------------------------------------------------------------------------------

local saved = { parameter = true, buffer = true }

--- All parameters and persistent buffers by full name, sharing memory with the module. A tied
--- parameter stands under each of its names, as in PyTorch.
---@return table<string, optlua.Tensor>
function Module:state_dict()
  local state = {}
  for name, tensor in each(list_tensors(self, saved, true)) do state[name] = tensor:detach() end
  return state
end

local function shape_text(tensor)
  return ("%s (%s)"):format(tensor.dtype, table.concat(tensor.shape, ", "))
end

--- Compares a state with a module: missing names in the module's order, others sorted.
local function compare(self, state)
  local missing, differing, unexpected, known = {}, {}, {}, {}
  for name, tensor in each(list_tensors(self, saved, true)) do
    local other = state[name]
    known[name] = true
    if other == nil then
      missing[#missing + 1] = name
    elseif not optlua.is_tensor(other) then
      differing[#differing + 1] = ("%s: tensor expected, got %s"):format(name, type(other))
    elseif table.concat(tensor.shape, ",") ~= table.concat(other.shape, ",") then
      differing[#differing + 1] = ("%s: %s expected, got %s"):format(name, shape_text(tensor), shape_text(other))
    end
  end
  for name in pairs(state) do
    if not known[name] then unexpected[#unexpected + 1] = tostring(name) end
  end
  table.sort(unexpected)
  return missing, unexpected, differing
end

local function report(self, missing, unexpected, differing)
  local lines = { ("%s: the state does not fit; nothing was loaded"):format(self:type()) }
  if #missing > 0 then lines[#lines + 1] = "  missing: " .. table.concat(missing, ", ") end
  if #unexpected > 0 then lines[#lines + 1] = "  unexpected: " .. table.concat(unexpected, ", ") end
  for _, line in ipairs(differing) do lines[#lines + 1] = "  differing: " .. line end
  return table.concat(lines, "\n")
end

--- Copies a state into the module. Names that are missing or unexpected, and shapes that differ, are
--- all listed in one error, and nothing is changed.
---@param state table<string, optlua.Tensor>
---@param opts? { strict?: boolean } strict = false: missing and unexpected names are allowed
---@return { missing: string[], unexpected: string[] }
function Module:load_state_dict(state, opts)
  opts = options.check("load_state_dict", opts, { strict = true })
  if type(state) ~= "table" then
    error(("load_state_dict: table of tensors expected, got %s"):format(type(state)), 2)
  end
  local missing, unexpected, differing = compare(self, state)
  if #differing > 0 or (opts.strict and #missing + #unexpected > 0) then
    error(report(self, missing, unexpected, differing), 2)
  end
  optlua.no_grad(function()
    for name, tensor in each(list_tensors(self, saved, true)) do
      if state[name] then tensor:copy_(state[name]) end
    end
  end)
  return { missing = missing, unexpected = unexpected }
end

-- Copying -------------------------------------------------------------------------------------------

--- Copies a value; tensors through `tensor`, tables in depth, each once, so that ties stay ties.
local function copy(value, done, tensor)
  if done[value] ~= nil then return done[value] end
  if optlua.is_tensor(value) then
    done[value] = tensor(value)
  elseif type(value) == "table" and not classes[value] then
    local result = {}
    done[value] = result
    for key, item in next, value do result[copy(key, done, tensor)] = copy(item, done, tensor) end
    setmetatable(result, getmetatable(value))
  else
    return value
  end
  return done[value]
end

local function clone_tensor(tensor)
  local result = tensor:detach():clone()
  if declared[tensor] then declared[result] = true end
  if tensor.is_leaf then result.requires_grad = tensor.requires_grad end
  return result
end

--- A copy of the module with tensors of its own; parameters that are tied stay tied. Gradients are
--- not copied.
---@return nn.Module
function Module:clone() return copy(self, {}, clone_tensor) end

--- Converts all parameters and floating-point buffers to a dtype, in the module itself. They become
--- new tensors: build the optimizer afterwards.
---@param dtype "float32"|"float64"
---@return nn.Module self
function Module:to(dtype)
  local converted = {}
  for _, module in self:named_modules() do
    for key, tensor in members(module) do
      if optlua.is_tensor(tensor) and tensor.dtype:find "float" then
        local new = converted[tensor]
        if not new then
          new = tensor:detach():to(dtype)
          if declared[tensor] then declared[new] = true end
          new.requires_grad = tensor.requires_grad
          converted[tensor] = new
        end
        rawset(module, key, new)
      end
    end
  end
  return self
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
  error(("%s has no forward"):format(self:type()), 3)
end

local function new(class, ...)
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
  if type(name) ~= "string" then error("nn.class: name (string) expected, got " .. type(name), 2) end
  if not classes[parent] then error("nn.class: the parent of " .. name .. " is not a class", 2) end
  local result = { name = name, super = parent }
  result.__index = result
  result.__newindex = assign
  result.__tostring = to_string
  result.__call = function(self, ...) return self:forward(...) end
  classes[result] = true
  return setmetatable(result, {
    __index = parent,
    __call = new,
    __tostring = function() return "class " .. name end,
  })
end

Module.name = "Module"
classes[Module] = true

-- Arguments of layers -----------------------------------------------------------------------------------

--- Checks the options of a layer in its init; errors point at the line that makes the layer.
local function check_options(what, given, schema) return options.check(what, given, schema, 4) end

--- Checks one argument of a layer in its init; errors point at the line that makes the layer.
local function check_argument(what, name, value, entry) return options.argument(what, name, value, entry, 4) end

return {
  options = check_options,
  argument = check_argument,
  size = { required = true, type = "integer", min = 0 }, -- a number of features, rows …
  Module = Module,
  Parameter = parameter,
  class = class,
  is_class = is_class,
  is_module = is_module,
}
