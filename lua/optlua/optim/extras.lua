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

--- The class with an exponential moving average of its parameters, in the slot `ema`; the rule `swap_ema`
--- exchanges the two.
---@param class optlua.optim.Class
---@return optlua.optim.Class
function extras.averaged(class)
  return derived(class, "ema", function(inner)
    return transform(inner, {
      name = inner.name,
      hyper = { ema_decay = { default = 0.999, min = 0, max = 1 } },
      state = { ema = { init = "param", exact = true } },
      update = function(p, g, s, h, inner_update)
        local new = inner_update(p, g)
        s.ema = h.ema_decay * s.ema + (1 - h.ema_decay) * new
        return new
      end,
      swap_ema = function(p, s)
        local average = s.ema
        s.ema = p
        return average
      end,
    })
  end)
end

--- The class that clips its gradients as the settings of a group say; itself where they do not.
---@param class optlua.optim.Class
---@param settings table<string, any>
---@return optlua.optim.Class
function extras.clipped(class, settings)
  local key, schema, update = clipping.transform(settings)
  if not key then return class end
  return derived(class, key, function(inner) return transform(inner, { name = inner.name, hyper = schema, update = update }) end)
end

--- The class that measures, in two numbers of the group, the squares of its updates and of its weights.
---@param class optlua.optim.Class
---@return optlua.optim.Class
function extras.measured(class)
  return derived(class, "measured", function(inner)
    return transform(inner, {
      name = inner.name,
      group = { update_square = 0, weight_square = 0 },
      before = function(group) group.update_square, group.weight_square = 0, 0 end,
      update = function(p, g, s, h, inner_update)
        local new = inner_update(p, g)
        local change = new - p
        optim.group_add("update_square", change * change)
        optim.group_add("weight_square", p * p)
        return new
      end,
    })
  end)
end

return extras
