--- transform: makes a class from a class, by a rule around its rule.
local core = require("optlua.core").hidden.optim
local blame = require "optlua.blame"
local definition = require "optlua.optim.class"

-- One table of what the inner and the outer class declare; a name that both use is an error.
local function merge(what, field, inner, outer)
  local both = {}
  for name, value in pairs(inner or {}) do both[name] = value end
  for name, value in pairs(outer or {}) do
    if both[name] ~= nil then
      blame(("%s: %s.%s: the inner class has one of that name"):format(what, field, tostring(name)))
    end
    both[name] = value
  end
  return both
end

local function evaluate(state, shape, h)
  if type(state) == "function" then return state(shape, h) end
  return state
end

local function merge_states(what, inner, outer)
  if type(inner) ~= "function" and type(outer) ~= "function" then return merge(what, "state", inner, outer) end
  return function(shape, h)
    local copy = table.move(shape, 1, #shape, 1, {})
    return merge(what, "state", evaluate(inner, shape, h), evaluate(outer, copy, h))
  end
end

local function both(first, second)
  if not (first and second) then return first or second end
  return function(...)
    first(...)
    second(...)
  end
end

local function either(first, second)
  if not (first and second) then return first or second end
  return function(h)
    local problem = first(h)
    if problem ~= nil then return problem end
    return second(h)
  end
end

local function merge_accepts(inner, outer)
  if not outer then return inner.accepts end
  local probe = definition.define { name = inner.name, accepts = outer, update = function(p) return p end }
  return function(tensor, name)
    local why = inner:refuses(tensor, name) or probe:refuses(tensor, name)
    return why == nil, why
  end
end

local function wrap(inner, outer)
  local function rule(p, g, s, h, group)
    local function inner_update(p2, g2)
      if p2 == nil or g2 == nil then blame "inner_update: two arguments expected: the parameter and the gradient, inner_update(p, g)" end
      return inner(p2, g2, s, h, group)
    end
    return outer(p, g, s, h, inner_update, group)
  end
  core.written[rule] = outer
  return rule
end

-- A step around the step of the inner class.
local function wrap_step(inner, outer)
  return function(self, group, closure)
    return outer(self, group, closure, function() return inner(self, group, closure) end)
  end
end

-- Raises where both have a rule of their own under one name.
local function check_rules(what, inner, outer)
  for name in pairs(inner.rules) do
    if name ~= "eval" and name ~= "train" and outer[name] ~= nil then
      blame(("%s: %s: the inner class has one of that name"):format(what, name))
    end
  end
end

-- What the transform itself does: a rule around a rule, or a step around a step.
local function wrap_action(what, inner, outer, result)
  if inner.step and (outer.update or outer.gradients) then
    blame(("%s: %s has a step of its own; what is around it has one too: step = function(self, group, closure, inner_step)")
      :format(what, inner.name))
  end
  if outer.step and not inner.step then blame(("%s: step: %s has an update; what is around it has one too"):format(what, inner.name)) end
  if outer.gradients and inner.gradients then blame(("%s: gradients: %s has some already"):format(what, inner.name)) end
  if not (outer.update or outer.step or outer.gradients) then result.update, result.step = nil, nil end
  if type(outer.update) == "function" then result.update = wrap(inner.update, outer.update) end
  if type(outer.step) == "function" then result.step = wrap_step(inner.step, outer.step) end
end

--- Makes a class from a class. The fields are those of `define`; `update` is (p, g, s, h, inner_update,
--- group), and inner_update(p, g) is the inner rule, on any gradient. Around a class with a step of its own it
--- is `step`, (self, group, closure, inner_step), and inner_step() the inner one. Hyperparameters, states, numbers
--- of the group and rules with names of their own are those of both; no name may be in both. optim.register gives a function
--- that does this a name for containers and configs: "Mine(AdamW)".
---@param inner optlua.optim.Class
---@param outer table
---@return optlua.optim.Class
local function transform(inner, outer)
  if not definition.is_class(inner) then blame("optim.transform: a class expected, got " .. type(inner)) end
  if type(outer) ~= "table" then blame("optim.transform: a table expected, got " .. type(outer)) end
  local what, result = tostring(outer.name or "optim.transform"), {}
  local base = inner.definition
  check_rules(what, inner, outer)
  for field, value in pairs(base) do result[field] = value end
  for field, value in pairs(outer) do result[field] = value end
  result.hyper = merge(what, "hyper", base.hyper, outer.hyper)
  result.group = merge(what, "group", base.group, outer.group)
  result.state = merge_states(what, base.state, outer.state)
  result.before = both(base.before, outer.before)
  result.after = both(base.after, outer.after)
  result.check = either(base.check, outer.check)
  result.accepts = merge_accepts(inner, outer.accepts)
  result.doc = outer.doc
  wrap_action(what, inner, outer, result)
  if outer.name == nil then result.name = nil end
  local class = definition.define(result)
  class.inner, class.written = inner, outer -- what the rule is made of
  return class
end

return transform
