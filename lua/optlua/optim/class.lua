--- class: classes of optimizers: what a definition says, checked, and printed.
local core = require("optlua.core").hidden.optim
local optlua = require "optlua"
local options = require "optlua.options"
local blame = require "optlua.blame"
local colon = require "optlua.colon"
local hyper = require "optlua.optim.hyper"
local slots = require "optlua.optim.slots"
local snapshot = require "optlua.snapshot"

---@class optlua.optim.Class
---@field name string
---@field hyper table<string, optlua.Option> the schema of its hyperparameters
---@overload fun(params: any, options?: table): optlua.optim.Optimizer
local Class = {}
Class.__index = Class
Class.__name = "optimizer class"

local PROGRAMS = 256 -- compiled ones that a class keeps

local fields = { "accepts", "after", "before", "check", "doc", "eval", "gradients", "group", "hyper", "name", "needs_closure", "state", "step",
  "train", "update" }
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

-- A class has a rule, or a step of its own.
local function check_kind(what, definition)
  if definition.needs_closure ~= nil and type(definition.needs_closure) ~= "boolean" then
    blame(("%s: needs_closure: a boolean expected, got %s"):format(what, type(definition.needs_closure)))
  end
  if definition.needs_closure and not (definition.step or definition.gradients) then
    blame(what .. ": needs_closure: of a class with step or gradients, which call the closure")
  end
  if not definition.step then
    if not definition.update then
      blame(what .. ": update: a function (p, g, s, h, group) is required, or a step (self, group, closure) in its place")
    end
    return
  end
  for _, field in ipairs { "after", "before", "gradients", "update" } do
    if definition[field] then blame(("%s: %s: a class with a step of its own has none"):format(what, field)) end
  end
end

-- Fields that a function may have been meant for: those that are not there, and can be.
local function list_open(definition)
  local taken, open = { doc = true, group = true, hyper = true, name = true, needs_closure = true }, {}
  taken[definition.step and "update" or "step"] = true
  for _, field in ipairs(fields) do
    if not taken[field] and definition[field] == nil then open[#open + 1] = field end
  end
  return open
end

-- A function under a name of its own is a named rule, unless the name looks like a slip of the pen.
local function check_fields(what, definition)
  local rules, open = {}, list_open(definition)
  for field, value in pairs(definition) do
    if not is_field[field] then
      local near = type(field) == "string" and options.nearest(field, open)
      if type(value) ~= "function" or type(field) ~= "string" or near then
        blame(("%s: %s"):format(what, options.unknown("field", field, fields)))
      end
      rules[field] = value
    end
  end
  for _, field in ipairs { "after", "before", "check", "eval", "gradients", "step", "train", "update" } do
    check_function(what, definition, field)
  end
  if definition.doc ~= nil and type(definition.doc) ~= "string" then
    blame(("%s: doc: a text expected, got %s"):format(what, type(definition.doc)))
  end
  check_kind(what, definition)
  if (definition.eval == nil) ~= (definition.train == nil) then blame(what .. ": eval and train: a class has both or neither") end
  rules.eval, rules.train = definition.eval, definition.train
  return rules
end

local function check_name(definition)
  if type(definition) ~= "table" then
    blame("optim.define: a table expected, got " .. type(definition))
  end
  local name = definition.name
  for field in pairs(name == nil and definition or {}) do
    if options.nearest(tostring(field), { "name" }) then blame("optim.define: " .. options.unknown("field", field, fields)) end
  end
  if type(name) ~= "string" or name == "" then blame "optim.define: name: a word is required" end
  return name
end

-- The numbers of the group: names in order, their slots for group_add, their first values.
local function check_numbers(what, declared, schema)
  local names, slot_of, first = {}, {}, {}
  if declared ~= nil and type(declared) ~= "table" then blame(what .. ": group: a table of numbers expected") end
  for name, value in pairs(declared or {}) do
    if type(name) ~= "string" or type(value) ~= "number" or value ~= value then
      blame(("%s: group.%s: a number under a name expected, got %s"):format(what, tostring(name),
        value ~= value and "NaN" or type(value)))
    end
    if schema[name] or hyper.is_reserved(name) then
      blame(("%s: group.%s: the name is that of a hyperparameter, or a word that groups use themselves"):format(what, name))
    end
    names[#names + 1], first[name] = name, 1.0 * value
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
    return snapshot(checked)
  end
  blame(("%s: accepts: a table or a function (tensor, name) expected, got %s"):format(what, type(accepts)))
end

-- A definition as it is now: it may be changed, and used again.
local function keep(definition, schema)
  local kept = {}
  for field, value in pairs(definition) do kept[field] = value end
  kept.hyper, kept.group, kept.accepts, kept.state = schema, snapshot(kept.group), snapshot(kept.accepts), snapshot(kept.state)
  return kept
end

--- Makes a class of optimizers from an update rule. A rule says how one parameter is updated; the C
--- machine runs it, fused, over all of them. The classes of the library are made in the same way.
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     local Heavy = optim.define {
---       name = "Heavy",
---       hyper = { lr = { default = 0.1, min = 0 }, momentum = 0.5 },
---       state = { velocity = 0 },
---       update = function(p, g, s, h)
---         s.velocity = h.momentum * s.velocity + g
---         return p - h.lr * s.velocity
---       end,
---     }
---     local w = optlua.tensor({ 1, 2 }, { requires_grad = true })
---     w.grad = optlua.tensor { 1, -1 }
---     Heavy({ w }, { lr = 0.5 }):step()
---     print(w) --> tensor([0.5000, 2.5000], requires_grad=true)
---
--- Fields of a definition; only name and update (or step) are required:
---   name: a text that is not empty; optim.register makes it a name for containers too
---   hyper: hyperparameters by name. A table with `default` describes one: default, min and max
---    (inclusive), above and below (exclusive), integer, choices (a list), type, doc. Anything else is the
---    default itself. A default is a number, a boolean, a word, or a list of such; limits hold for each
---    element of a list; numbers are finite, unless default or max is math.huge. Words that groups use themselves
---    (name, match, class, expect, step …) are refused.
---   check: check(h) sees all hyperparameters together, when they are given, when one is set, and when they are loaded, and
---    returns what is wrong with them, a text, or nothing
---   state: tensors that a parameter keeps, by name: 0 or another number (filled with it), "param" (a
---    copy of the parameter), or a table { shape = {…}, init = a number or "param", dtype = "float32",
---    "float64" or "bfloat16", positive = true for what is never negative; exact = true for what
---    narrow types may not hold (copies of the parameter are exact); rounding = "stochastic" for what moves by
---    steps that narrow types would lose, as positive states do }; what is left out is as the parameter is, and
---    zero. Or a function (shape, h) that returns such a table, so that states can
---    depend on the shape and on hyperparameters. They are made when the parameter is first updated.
---   update: the rule, update(p, g, s, h, group); see below
---   group: { x = 0 }: numbers of the group, in double precision, saved with it
---   before: before(group, h) runs once a step and group, ahead of update, and may set group.x
---   after: after(group, h) runs when the update has been made, and sees what group_add added up
---   accepts: { ndim = 2 } or { ndim = { 1, 2 } }, or a function (tensor, name) that returns true, or
---    false and why: parameters that the class does not take are refused by name at construction
---   eval, train: rules (p, s, h, group) that return the form of p for evaluation and for training, both or neither;
---    optimizer:eval() and optimizer:train() run them, and optimizer:with_eval(fn)
---   any other name with a function (unless it looks like a misspelt field that is not there): a rule (p, s, h, group) of your own, run by optimizer:run "name"
---   step: in place of update, a step over real tensors, step(self, group, closure); see below
---   gradients: gradients(self, groups, closure) runs ahead of update, over all groups of the class at once,
---    and leaves in param.grad what update is given: it may change the parameters, which come back bit for bit. Where other
---    classes have had the closure called, its first call gives what that gave, as long as the parameters are where they were
---   needs_closure = true: step or gradients call the closure themselves, and optimizer:step() without one
---    raises. Of other classes it is called once, before they step
---
--- What update is given:
---   p, g: the parameter and its gradient before the step, as symbols: update does not compute, it
---    writes down an expression. It runs once for all parameters of a group that have been updated
---    equally often; if it reads p.shape (a list), p.ndim or p.numel, or reduces over a dimension, once
---    for each shape. A parameter without a gradient is left alone, and its count with it.
---   s: reading s.x gives what was last assigned to it in this call, else its value before the step. All
---    assignments are stored at once, after every read; only the last one to a state counts; a state
---    without one keeps its value. What is assigned has the shape of the state; a number fills it.
---   h: the hyperparameters as plain numbers, booleans, words and lists: `if`, loops and math.* work on
---    them. h.step counts the updates of this parameter, from 1; in before and after, those of the group.
---   group: the numbers of the group as before left them; optim.group_add("x", expression) adds the sum
---    of an expression to one, which after sees.
---   The result is the new p, one symbol of its shape; returning p itself writes nothing.
---
--- Operations: + - * / ^ and unary minus, and the functions optim.sqrt, optim.where, optim.max … (help "define" ends with
--- the list), on symbols and numbers; on numbers alone the elementwise ones give a number. Shapes
--- broadcast; reductions over a dimension keep it, with size 1. Every operation rounds once to the
--- parameter's type, as written, and nothing is reordered: x*c1*c2 is two vector products, so write
--- c1*c2*x; and x/c is a quotient, which takes longer than the product 1/c*x. Plain numbers are doubles. `<`
--- and `==` cannot choose per element: write optim.where(optim.lt(a, b), x, y). `if s.x` and `s.x == 0` are
--- not about elements: Lua finds every symbol true and unlike a number.
---
--- A misspelt name in h, s or group, a NaN, a wrong shape or result raise at the line of the rule, and then
--- nothing has been changed by the step: it is made as a whole or not at all. Keep no symbol beyond the call.
--- Class:program shows what the machine runs.
---
--- A step of its own is for what is no rule of one parameter, a line search say. It computes with tensors,
--- in Lua, without recording; it is slower, and the container's options that work on gradients as a rule
--- reads them (max_norm …) refuse it. It is called once for each group, in their order:
---
---     local optim = require "optlua.optim"
---     local Signed = optim.define {
---       name = "Signed",
---       hyper = { lr = { default = 0.1, min = 0 } },
---       state = { velocity = 0 },
---       step = function(_, group)
---         for _, p in ipairs(group.params) do
---           local s = group.state[p]
---           s.velocity:mul_(0.9):add_(p.grad)
---           p:sub_(group.lr * s.velocity:sign())
---         end
---       end,
---     }
---     print(Signed) --> optimizer class Signed { lr = 0.1 }
---
---   self: the optimizer; it cannot step, load or grow meanwhile
---   group: `params` and `names`, lists of what can be updated: where the class needs a closure the parameters
---    that are not frozen, else those whose gradient is present; the hyperparameters by name; the numbers of
---    the group, which can be set; `step`, the group's own count from 1; and `state`
---   group.state[p]: a table for each of the parameters: the states that were declared, as tensors, `step`, the
---    count of its updates from 1, and whatever else is put there: numbers, words, booleans, tensors, and
---    tables of those, which share no memory. group.state.x likewise, for the whole group. All of it is saved and comes back
---   closure: where the class needs one: computes gradients anew, with recording, and returns the loss, a
---    number; else nil
---
--- When a step or what follows it raises, parameters, states and counts come back bit for bit. For that they
--- are copied before.
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
  self.update, self.before, self.after, self.check = definition.update, definition.before, definition.after, definition.check
  self.step, self.gradients = definition.step, definition.gradients
  self.needs_closure = definition.needs_closure or false
  if type(definition.state) == "function" then
    self.state = definition.state
  else
    self.layout = slots.layout(name, definition.state == nil and {} or definition.state)
  end
  self.cache = core.cache(PROGRAMS)
  self.definition = keep(definition, schema)
  return self
end

--- What is wrong with hyperparameters together that are legal one by one.
---@param values table<string, any>
---@return string? problem
function Class:problem(values)
  if not self.check then return nil end
  local copy = {}
  for name, value in pairs(values) do copy[name] = value end
  local problem = self.check(select(2, hyper.face(copy, self.hyper_names)))
  if problem == nil or type(problem) == "string" then return problem end
  blame(("%s: check: it returns what is wrong, a text, or nothing, not a %s"):format(self.name, type(problem)))
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
local function choose_shape(self, size)
  for _, ndim in ipairs { 2, 1, 3, 4, 5, 0 } do
    local shape = {}
    for d = 1, ndim do shape[d] = d > 2 and 4 or size end
    if not self:refuses(optlua.zeros(shape), "p") then return shape end
  end
  blame(("%s:program: give a shape that the class accepts: { shape = … }"):format(self.name))
end

local program_options = { shape = { required = false, type = "list", integer = true, min = 0 },
  dtype = { default = "float32", choices = { "float32", "float64" } }, step = { default = 1, min = 1, integer = true } }

-- What `program` is given: options of its own, and those of an optimizer.
local function read_program_options(self, given)
  local schema, rest = {}, {}
  for _, legal in ipairs { require("optlua.optim.group").settings, self.hyper, program_options } do
    for name, option in pairs(legal) do schema[name] = option end
  end
  local settings = options.check(self.name .. ":program", given, schema)
  for name, value in pairs(given or {}) do
    if not program_options[name] then rest[name] = value end
  end
  return settings, rest
end

--- What the machine runs: the rule, traced and compiled for one parameter, as text: its passes, its
--- fused instructions and the bytes that it moves for an element of the parameter. Many rules are not the
--- same at each update: SGD with momentum has no buffer to read at the first one, and Adam's numbers
--- change. The heading then says of which update the program is.
---   shape: of the parameter; default one that the class accepts
---   dtype: of the parameter; default "float32"
---   step: which update of the parameter, from 1; default 1
---   and hyperparameters of the class, and what a group may say besides: state_dtype, state_rounding, clip_value …
---@param opts? table
---@return string
function Class:program(opts)
  if self.step then blame(self.name .. ":program: the class has a step of its own; there is no program") end
  local settings, rest = read_program_options(self, opts)
  local p = optlua.zeros(settings.shape or choose_shape(self, rest.state_dtype and 64 or 4), { dtype = settings.dtype, requires_grad = true })
  p.grad = optlua.zeros(p.shape, { dtype = settings.dtype })
  local optimizer, step = self({ { "p", p } }, rest), settings.step
  local text = optimizer:_program(step)
  local changes = text ~= optimizer:_program(step + 1)
  return ("%s%s: %s"):format(self.name, changes and ", update " .. step or "", text)
end

Class.program = colon.method("program", Class.program, is_class, "class")

--- A class is printed as its name and its hyperparameters with their defaults.
function Class:__tostring()
  local words = {}
  for i, name in ipairs(self.hyper_names) do
    words[i] = ("%s = %s"):format(name, hyper.text(self.hyper[name].default))
  end
  return ("optimizer class %s { %s }"):format(self.name, table.concat(words, ", "))
end

return { define = define, is_class = is_class, Class = Class }
