--- extras: what containers and groups add to the rules of their classes: averages of the weights, clipping, measures of updates.
local optim = require("optlua.core").hidden.optim.operations
local clipping = require "optlua.optim.clipping"
local transform = require "optlua.optim.transform"

local extras = {}

-- A class made from another, once.
local function derived(class, key, make)
  class.derived = class.derived or {}
  if not class.derived[key] then
    local result = make(class)
    result.base = class.base or class
    class.derived[key] = result
  end
  return class.derived[key]
end

local averages = { hyper = { ema_decay = { default = 0.999, min = 0, max = 1 } }, state = { ema = { init = "param", exact = true } } }

function averages.update(p, g, s, h, inner_update)
  local new = inner_update(p, g)
  s.ema = h.ema_decay * s.ema + (1 - h.ema_decay) * new
  return new
end

function averages.step(_, group, _, inner_step)
  inner_step()
  for _, p in ipairs(group.params) do group.state[p].ema:mul_(group.ema_decay):add_((1 - group.ema_decay) * p) end
end

function averages.swap_ema(p, s)
  local average = s.ema
  s.ema = p
  return average
end

local measures = { group = { update_square = 0, weight_square = 0 } }

function measures.before(group) group.update_square, group.weight_square = 0, 0 end

function measures.update(p, g, s, h, inner_update)
  local new = inner_update(p, g)
  local change = new - p
  optim.group_add("update_square", change * change)
  optim.group_add("weight_square", p * p)
  return new
end

local function square(tensor) return tensor:to("float64"):square():sum():item() end

function measures.step(_, group, _, inner_step)
  local old = {}
  for i, p in ipairs(group.params) do old[i] = p:detach():clone() end
  inner_step()
  group.update_square, group.weight_square = 0, 0
  for i, p in ipairs(group.params) do
    group.update_square = group.update_square + square(p - old[i])
    group.weight_square = group.weight_square + square(old[i])
  end
end

-- What is put around a class, as a rule or, where it has a step of its own, as a step.
local function around(inner, extra)
  local fields = { name = inner.name, hyper = extra.hyper, state = extra.state, group = extra.group, swap_ema = extra.swap_ema }
  if inner.step then fields.step = extra.step else fields.update, fields.before = extra.update, extra.before end
  return transform(inner, fields)
end

--- The class with an exponential moving average of its parameters, in the slot `ema`; the rule `swap_ema`
--- exchanges the two.
---@param class optlua.optim.Class
---@return optlua.optim.Class
function extras.averaged(class)
  return derived(class, "ema", function(inner) return around(inner, averages) end)
end

--- The class that clips its gradients as the settings of a group say; itself where they do not.
---@param class optlua.optim.Class
---@param settings table<string, any>
---@return optlua.optim.Class
function extras.clipped(class, settings)
  local key, schema, update = clipping.transform(settings)
  if not key then return class end
  return derived(class, "clipped by " .. key, function(inner) return transform(inner, { name = inner.name, hyper = schema, update = update }) end)
end

--- The class that measures, in two numbers of the group, the squares of its updates and of its weights.
---@param class optlua.optim.Class
---@return optlua.optim.Class
function extras.measured(class)
  return derived(class, "measured", function(inner) return around(inner, measures) end)
end

return extras
