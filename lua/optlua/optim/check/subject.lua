--- subject: what there is to know of a class before it is tried: shapes that it accepts, what its rule does, which
--- states it uses.
local core = require("optlua.core").hidden.optim
local blame = require "optlua.blame"
local definition = require "optlua.optim.class"
local options = require "optlua.options"
local optlua = require "optlua"

local subject = {}

local candidates = { { 4, 3 }, { 3, 5 }, { 6 }, { 2, 3, 2 }, { 2, 2, 3, 2 }, { 16, 8 }, { 64, 32 }, { 64 }, { 8, 8, 8 }, { 1 }, {} }

--- Whether a class accepts a parameter of a shape; a wrapper takes any.
---@param class table
---@param shape integer[]
---@return boolean
function subject.accepts(class, shape) return not class.refuses or class:refuses(optlua.zeros(shape), "p1") == nil end

subject.count = require("optlua.shape").count

--- A shape with more rows: of at least so many elements; nil of no dimension.
---@param shape integer[]
---@param least integer
---@return integer[]?
function subject.taller(shape, least)
  if #shape == 0 then return nil end
  local factor = (least + subject.count(shape) - 1) // subject.count(shape)
  return { shape[1] * factor, table.unpack(shape, 2) }
end

-- The first shapes that a class accepts.
local function choose_shapes(class)
  local shapes = {}
  for _, shape in ipairs(candidates) do
    if #shapes < 3 and subject.accepts(class, shape) then shapes[#shapes + 1] = shape end
  end
  if shapes[1] then return shapes end
  blame(("optim.check: %s accepts no parameter of the shapes that were tried; give some: { shapes = { { 8, 8 } } }"):format(class.name))
end

local sizes = { required = true, type = "list", integer = true, min = 1 }

-- Raises unless a class accepts these shapes.
local function check_shapes(class, shapes)
  for k, shape in ipairs(shapes) do
    if not options.value("shape", shape, sizes) or subject.count(shape) == 0 then
      blame(("optim.check: shapes: shape %d: a list of sizes from 1 expected"):format(k))
    end
    local why = class.refuses and class:refuses(optlua.zeros(shape), "p" .. k)
    if why then blame(("optim.check: %s accepts no parameter of shape %d: %s"):format(class.name, k, why)) end
  end
  return shapes[1] and shapes or blame "optim.check: shapes: one at least expected"
end

-- Updates at which a rule is looked at: it may do something only now and then, or from some on; or end after the first dozen.
local DOZEN = 12
local moments = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 25, 30, 50, 64, 100, 101, 128, 200, 250, 256, 500, 512, 1000, 1024, 2000,
  5000, 10000, 100000, 1000001, 10000001 }

-- Puts a spy between a rule and its states, the argument at a place.
local function spied(rule, place, used)
  local function spy(...)
    local arguments = table.pack(...)
    local states = arguments[place]
    arguments[place] = setmetatable({}, {
      __index = function(_, name)
        used[name] = true
        return states[name]
      end,
      __newindex = function(_, name, value)
        used[name] = true
        states[name] = value
      end,
    })
    return rule(table.unpack(arguments, 1, arguments.n))
  end
  core.written[spy] = rule
  return spy
end

-- The class again, with spies.
local function with_spies(class, used)
  local copy = {}
  for field, value in pairs(class.definition) do copy[field] = value end
  copy.update = spied(class.update, 3, used)
  for name, rule in pairs(class.rules) do copy[name] = spied(rule, 2, used) end
  return definition.define(copy)
end

-- Runs the rule on symbols for a parameter, as at an update, and asks what it did. Nothing is changed.
local function look(optimizer, step, nature)
  local group = optimizer._groups[1]
  group.handle:restore(1, step - 1, {})
  group.updates = step - 1
  core.transact(function()
    group:stage(step - 1)
    group:trace()
    local elementwise, multiplies, adds = core.nature()
    nature.elementwise = nature.elementwise and elementwise
    nature.multiplies, nature.adds = nature.multiplies or multiplies, nature.adds or adds
  end)
  for name in pairs(group.class.rules) do
    core.transact(function() group:trace_form(group.class.rules[name]) end)
  end
end

-- Looks at a rule for all shapes.
local function look_at_rule(self)
  local nature = { elementwise = true, multiplies = false, adds = false, used = {}, slots = {} }
  local class = with_spies(self.class, nature.used)
  for _, shape in ipairs(self.shapes) do
    local tensor = optlua.zeros(shape, { requires_grad = true })
    tensor.grad = optlua.zeros(shape)
    for _, step in ipairs(moments) do
      local optimizer = class({ { "p1", tensor } }, self.hypers)
      local ok, problem = pcall(look, optimizer, step, nature)
      if not ok and step <= DOZEN then error(problem, 0) end
      for _, slot in ipairs(optimizer._groups[1].of_shape[1]) do nature.slots[slot.name] = slot end
    end
  end
  return nature
end

--- What is to be tried.
---@param class optlua.optim.Class|optlua.optim.Wrapper
---@param hypers table<string, any>
---@param shapes? integer[][]
---@return table subject { class, hypers, shapes, rule }; `rule` says what a rule does: whether it is elementwise, multiplies
--- matrices, adds to numbers of its group, which slots it has and which it used; or is nil and `problem` says why
function subject.new(class, hypers, shapes)
  local self = { class = class, hypers = hypers, shapes = shapes and check_shapes(class, shapes) or choose_shapes(class) }
  self.numbers = class.numbers and (next(class.numbers) or class.before or class.after) and true or false
  if not class.update then
    self.why = class.step and "it has a step of its own" or "it is no update rule"
    return self
  end
  local ok, result = pcall(look_at_rule, self)
  if ok then self.rule = result else self.problem, self.why = result, "the rule fails" end
  return self
end

return subject
