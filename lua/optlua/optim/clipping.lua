--- clipping: the options that clip the gradients of a group, as a part of its rule.
--
-- They are hyperparameters of the group: schedules move them, and they are saved with it. `agc` and `clip_value` change the
-- gradient that the rule sees; `max_group_norm` is a limit that the machine looks at when it measures gradients.
local optim = require("optlua.core").hidden.optim.operations

local clipping = {}

--- The descriptions of the hyperparameters; infinity is no limit.
---@type table<string, optlua.Option>
clipping.schema = {
  max_group_norm = { default = math.huge, min = 0, doc = "gradients of a group with a larger norm are scaled down to it" },
  agc = { default = math.huge, min = 0,
    doc = "gradients of a row with a norm above this part of the weights' are scaled down to it (adaptive clipping)" },
  agc_eps = { default = 1e-3, min = 0, doc = "the least norm of weights that agc reckons with" },
  clip_value = { default = math.huge, min = 0, doc = "each element of a gradient is kept within ±this" },
}

--- The same as settings of a group, which may be left out.
---@type table<string, optlua.Option>
clipping.settings = {}
for name, option in pairs(clipping.schema) do
  clipping.settings[name] = { required = false, type = "number", min = option.min, doc = option.doc }
end

-- The norm of each row, over all dimensions but the first; of a vector or a number, of all of it.
local function unit_norm(x, ndim)
  if ndim < 2 then return optim.norm(x) end
  for dim = ndim, 2, -1 do x = optim.norm(x, dim) end
  return x
end

-- Adaptive gradient clipping (Brock et al., 2021, "High-performance large-scale image recognition without normalization",
-- section 4); the least norm of a gradient as in timm.
local function adapt(p, g, factor, eps)
  local norm, limit = unit_norm(g, p.ndim), factor * optim.max(unit_norm(p, p.ndim), eps)
  return g * optim.where(optim.lt(norm, limit), 1, limit / optim.max(norm, 1e-6))
end

--- What the class of a group is transformed by; nil where its settings clip nothing.
---@param settings table<string, any>
---@return string? key the same for settings of the same names
---@return table? hyper
---@return function? update
function clipping.transform(settings)
  local hyper, names = {}, {}
  for name in pairs(clipping.schema) do
    if settings[name] and name ~= "agc_eps" then
      hyper[name], names[#names + 1] = clipping.schema[name], name
    end
  end
  if #names == 0 then return nil end
  if hyper.agc then hyper.agc_eps = clipping.schema.agc_eps end
  table.sort(names)
  local function update(p, g, _, h, inner_update)
    if hyper.agc and h.agc < math.huge then g = adapt(p, g, h.agc, h.agc_eps) end
    if hyper.clip_value then g = optim.clamp(g, -h.clip_value, h.clip_value) end
    return inner_update(p, g)
  end
  return table.concat(names, " "), hyper, update
end

--- What is wrong with the settings of a group, which takes from others what it leaves out.
---@param settings table<string, any>
---@param others table<string, any>
---@return string? problem
function clipping.check(settings, others)
  if (settings.agc_eps or others.agc_eps) and not (settings.agc or others.agc) then
    return "agc_eps belongs to agc, which is not given"
  end
end

return clipping
