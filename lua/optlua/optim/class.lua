--- class: classes of optimizers: what a definition says, checked, and printed.
local core = require("optlua.core").hidden.optim
local optlua = require "optlua"
local options = require "optlua.options"
local blame = require "optlua.optim.blame"
local hyper = require "optlua.optim.hyper"
local slots = require "optlua.optim.slots"

---@class optlua.optim.Class
---@field name string
---@field hyper table<string, optlua.Option> the schema of its hyperparameters
---@overload fun(params: any, options?: table): optlua.optim.Optimizer
local Class = {}
Class.__index = Class
Class.__name = "optimizer class"

local PROGRAMS = 256 -- compiled ones that a class keeps

local fields = { "accepts", "after", "before", "doc", "eval", "group", "hyper", "name", "state", "train", "update" }
local is_field = {}
for _, field in ipairs(fields) do is_field[field] = true end

--- Whether a value is a class that `define` made.
---@param value any
---@return boolean
local function is_class(value) return getmetatable(value) == Class end

local function check_function(what, definition, field)
  local value = definition[field]
  if value ~= nil and type(value) ~= "function" then
    blame(("%s: %s: a function expected, got %s"):format(what, field, type(value)))
  end
end

-- A function under a name of its own is a named rule, unless the name looks like a slip of the pen.
local function check_fields(what, definition)
  local rules = {}
  for field, value in pairs(definition) do
    if not is_field[field] then
      local near = type(field) == "string" and options.nearest(field, fields)
      if type(value) ~= "function" or type(field) ~= "string" or near then
        blame(("%s: %s"):format(what, options.unknown("field", field, fields)))
      end
      rules[field] = value
    end
  end
  for _, field in ipairs { "after", "before", "eval", "train", "update" } do
    check_function(what, definition, field)
  end
  if not definition.update then blame(what .. ": update: a function (p, g, s, h, group) is required") end
  rules.eval, rules.train = definition.eval, definition.train
  return rules
end

local function check_name(definition)
  if type(definition) ~= "table" then
    blame("optim.define: a table expected, got " .. type(definition))
  end
  local name = definition.name
  if type(name) ~= "string" or name == "" then blame "optim.define: name: a word is required" end
  return name
end

-- The numbers of the group: names in order, their slots for group_add, their first values.
local function check_numbers(what, declared, schema)
  local names, slot_of, first = {}, {}, {}
  if declared ~= nil and type(declared) ~= "table" then blame(what .. ": group: a table of numbers expected") end
  for name, value in pairs(declared or {}) do
    if type(name) ~= "string" or type(value) ~= "number" or value ~= value then
      blame(("%s: group.%s: a number expected, got %s"):format(what, tostring(name), type(value)))
    end
    if schema[name] or name == "step" then
      blame(("%s: group.%s: the name belongs to a hyperparameter or to the step count"):format(what, name))
    end
    names[#names + 1], first[name] = name, value + 0.0
  end
  table.sort(names)
  for i, name in ipairs(names) do slot_of[name] = i - 1 end
  return names, slot_of, first
end

local function check_accepts(what, accepts)
  if accepts == nil or type(accepts) == "function" then return accepts end
  if type(accepts) == "table" then
    local checked, problems = options.collect(accepts, { ndim = { required = false, type = "integer|list" } })
    if problems[1] then blame(("%s: accepts: %s"):format(what, problems[1])) end
    return checked
  end
  blame(("%s: accepts: a table or a function (tensor, name) expected, got %s"):format(what, type(accepts)))
end

--- Makes a class of optimizers from a rule. `update(p, g, s, h, group)` returns the new parameter; the
--- other fields are optional: see the chapter on update rules in the documentation.
---@param definition table
---@return optlua.optim.Class
local function define(definition)
  local name = check_name(definition)
  local schema = hyper.schema(name, definition.hyper)
  local self = setmetatable({ name = name, hyper = schema, doc = definition.doc }, Class)
  self.rules = check_fields(name, definition)
  self.hyper_names = options.names(schema)
  self.number_names, self.number_slots, self.numbers = check_numbers(name, definition.group, schema)
  self.accepts = check_accepts(name, definition.accepts)
  self.update, self.before, self.after = definition.update, definition.before, definition.after
  if type(definition.state) == "function" then
    self.state = definition.state
  else
    self.layout = slots.layout(name, definition.state == nil and {} or definition.state)
  end
  self.cache = core.cache(PROGRAMS)
  self.definition = definition
  return self
end

--- Whether a class takes a parameter; if not, why.
---@param tensor optlua.Tensor
---@param name string
---@return string? problem
function Class:refuses(tensor, name)
  local accepts = self.accepts
  if type(accepts) == "function" then
    local good, why = accepts(tensor, name)
    return not good and (why or "it is not accepted") or nil
  end
  local ndim = accepts and accepts.ndim
  if not ndim or ndim == tensor.ndim then return nil end
  if type(ndim) == "number" then ndim = { ndim } end
  for _, n in ipairs(ndim) do
    if n == tensor.ndim then return nil end
  end
  return ("it has %d dimensions; %s expected"):format(tensor.ndim, table.concat(ndim, " or "))
end

-- A small shape that the class takes.
local function choose_shape(self)
  for _, ndim in ipairs { 2, 1, 3, 4, 5, 0 } do
    local shape = {}
    for d = 1, ndim do shape[d] = 4 end
    if not self:refuses(optlua.zeros(shape), "p") then return shape end
  end
  blame(("%s:program: give a shape that the class accepts: { shape = … }"):format(self.name))
end

--- What the machine runs: the rule, traced and compiled for one parameter, as text: its passes, its
--- fused instructions and the bytes that it moves for an element of the parameter. Options: `shape`,
--- `dtype` of the parameter, `step` (how often it was updated, from 1), and hyperparameters.
---@param opts? table
---@return string
function Class:program(opts)
  local own = { shape = { required = false, type = "list" }, dtype = "float32",
    step = { default = 1, min = 1, integer = true } }
  local rest = {}
  for key, value in pairs(opts or {}) do
    if not own[key] then rest[key] = value end
  end
  local settings, problems = options.collect({ shape = opts and opts.shape, dtype = opts and opts.dtype,
    step = opts and opts.step }, own)
  if problems[1] then blame(("%s:program: %s"):format(self.name, problems[1])) end
  local p = optlua.zeros(settings.shape or choose_shape(self), { dtype = settings.dtype, requires_grad = true })
  p.grad = optlua.zeros(p.shape, { dtype = settings.dtype })
  local optimizer = self({ { "p", p } }, rest)
  return self.name .. ": " .. optimizer:_program(settings.step)
end

--- A class is printed as its name and its hyperparameters with their defaults.
function Class:__tostring()
  local words = {}
  for i, name in ipairs(self.hyper_names) do
    words[i] = ("%s = %s"):format(name, hyper.text(self.hyper[name].default))
  end
  return ("optimizer class %s { %s }"):format(self.name, table.concat(words, ", "))
end

return { define = define, is_class = is_class, Class = Class }
