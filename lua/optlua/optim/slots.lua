--- slots: the states that a class declares, as layouts that the machine understands.
local options = require "optlua.options"
local blame = require "optlua.blame"
local storage = require "optlua.optim.storage"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local slots = {}

local floats = { "bfloat16", "float32", "float64" }
local fields = { dtype = true, exact = true, init = true, positive = true, rounding = true, shape = true }

local function check_shape(shape)
  if type(shape) ~= "table" then return "shape: a list expected" end
  local copy = {}
  for d, size in ipairs(shape) do
    copy[d] = type(size) == "number" and math.tointeger(size) or nil
    if not copy[d] or copy[d] < 0 then return "shape: sizes are integers from 0" end
  end
  return nil, copy
end

local function check_table(spec)
  for field in pairs(spec) do
    if not fields[field] then return options.unknown("field", field, options.names(fields)) end
  end
  local dtype, init = spec.dtype, spec.init
  if dtype ~= nil and dtype ~= floats[1] and dtype ~= floats[2] and dtype ~= floats[3] then
    return ("dtype: one of %s expected"):format(table.concat(floats, ", "))
  end
  if init ~= nil and init ~= "param" and (type(init) ~= "number" or init ~= init) then
    return "init: a number or \"param\" expected"
  end
  if spec.rounding ~= nil and spec.rounding ~= "nearest" and spec.rounding ~= "stochastic" then
    return "rounding: \"nearest\" or \"stochastic\" expected"
  end
  if init == "param" and spec.shape then return "init: a copy of the parameter has the parameter's shape" end
  local problem, shape
  if spec.shape ~= nil then problem, shape = check_shape(spec.shape) end
  return problem, { dtype = dtype, init = init or 0, shape = shape, positive = spec.positive and true or false,
    exact = spec.exact and true or init == "param", rounding = spec.rounding }
end

local function check_slot(name, spec)
  if type(name) ~= "string" or not name:find "^[%a_][%w_]*$" or name == "step" or name == "train_form" then
    return ("%s is no name for a state"):format(tostring(name))
  end
  if type(spec) == "number" and spec == spec or spec == "param" then spec = { init = spec } end
  if type(spec) ~= "table" then
    return ("%s: a number, \"param\" or a table expected, got %s"):format(name, type(spec))
  end
  local problem, slot = check_table(spec)
  if problem then return ("%s: %s"):format(name, problem) end
  slot.name = name
  return nil, slot
end

--- Checks a table of states; their order is that of their names.
---@param what string the class, for messages
---@param declared table<string, any>
---@return table[] layout a list of { name, dtype, shape, init, positive, exact, rounding }
function slots.layout(what, declared)
  if type(declared) ~= "table" then
    blame(("%s: state: a table of states expected, got %s"):format(what, type(declared)))
  end
  local layout, names = {}, {}
  for name in pairs(declared) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for i, name in ipairs(names) do
    local problem
    problem, layout[i] = check_slot(name, declared[name])
    if problem then blame(("%s: state: %s"):format(what, problem)) end
  end
  return layout
end

-- Two layouts with the same key are the same.
local function key_of(layout)
  local words = {}
  for i, slot in ipairs(layout) do
    words[i] = ("%s:%s:%s:%s:%s:%s"):format(slot.name, slot.dtype, slot.rounding, slot.init, slot.positive,
      slot.shape and table.concat(slot.shape, "x"))
  end
  return table.concat(words, ";")
end

-- The slots that exist come first and stay, though the class may not name them any more.
local function extend(old, new)
  if not old then return new end
  local known, result = {}, table.move(old, 1, #old, 1, {})
  for _, slot in ipairs(old) do known[slot.name] = true end
  for _, slot in ipairs(new) do
    if not known[slot.name] then result[#result + 1] = slot end
  end
  return result
end

-- An h that notes which hyperparameters a function read.
local function listen(values, reads)
  return setmetatable({}, {
    __index = function(_, name)
      if name == "step" then blame("states do not depend on h.step") end
      local value = values[name]
      reads[name] = value
      return value
    end,
    __newindex = function() blame("states cannot assign to hyperparameters") end,
  })
end

--- Asks a class for the states of parameters of each shape.
---@param class table
---@param shapes integer[][]
---@param values table<string, any> hyperparameters
---@param old? table[][] earlier layouts, for each shape: their slots stay
---@param how { state_dtype?: string|table, state_rounding?: string|table } how they are stored
---@return table[][] layouts distinct ones
---@return integer[] of_shape for each shape, the place of its layout
---@return table<string, any> reads the hyperparameters that were looked at, with their values
function slots.layouts(class, shapes, values, old, how)
  local layouts, of_shape, reads, place = {}, {}, {}, {}
  local h = listen(values, reads)
  for i, shape in ipairs(shapes) do
    local layout = class.layout
    if not layout then layout = slots.layout(class.name, class.state(table.move(shape, 1, #shape, 1, {}), h)) end
    layout = extend(old and old[i], storage.apply(layout, shape, how))
    local key = key_of(layout)
    if not place[key] then
      layouts[#layouts + 1] = layout
      place[key] = #layouts
    end
    of_shape[i] = place[key]
  end
  return layouts, of_shape, reads
end

-- Other values that a hyperparameter could have, on which states may depend.
local function alternatives(value)
  if type(value) == "boolean" then return { not value } end
  if type(value) == "number" then return { 0, 0.5, 1 } end
  return {}
end

--- The states that a class has with other hyperparameters than these: what a schedule moved, or was changed meanwhile.
---@param class table
---@param shape integer[]
---@param values table<string, any>
---@param reads table<string, any> those on which states depend
---@param how { state_dtype?: string|table, state_rounding?: string|table }
---@return table<string, table> slots by name
function slots.others(class, shape, values, reads, how)
  local found = {}
  for name, value in pairs(reads) do
    for _, other in ipairs(alternatives(value)) do
      local changed = setmetatable({ [name] = other }, { __index = values })
      local ok, layouts = uninterrupted(pcall, slots.layouts, class, { shape }, changed, nil, how)
      for _, slot in ipairs(ok and layouts[1] or {}) do found[slot.name] = slot end
    end
  end
  return found
end

--- The states that a class may have for parameters of these shapes, as it declares them.
---@param class table
---@param shapes integer[][]
---@param values table<string, any> hyperparameters
---@return table<string, table> slots by name
function slots.all(class, shapes, values)
  local found = {}
  for _, shape in ipairs(shapes) do
    local layouts, _, reads = slots.layouts(class, { shape }, values, nil, {})
    for name, slot in pairs(slots.others(class, shape, values, reads, {})) do found[name] = slot end
    for _, slot in ipairs(layouts[1]) do found[slot.name] = slot end
  end
  return found
end

return slots
