--- states: whether a class uses the states that it declares, and lives with narrow ones.
local descent = require "optlua.optim.check.descent"
local runs = require "optlua.optim.check.runs"
local storage = require "optlua.optim.storage"
local subjects = require "optlua.optim.check.subject"

local states = {}

--- Every state that is declared is read or written.
function states.used(subject)
  if subject.problem then error(subject.problem, 0) end
  if not subject.rule then return false, subject.why end
  if next(subject.rule.slots) == nil then return false, "there are none" end
  local idle = {}
  for name in pairs(subject.rule.slots) do
    if not subject.rule.used[name] then idle[#idle + 1] = name end
  end
  table.sort(idle)
  if idle[1] then error(("%s: declared, but never read and never written"):format(table.concat(idle, ", ")), 0) end
end

-- Parameters of at least so many elements, where the class accepts them: small ones are not stored in codes.
local function enlarged(subject)
  local shapes = {}
  for _, shape in ipairs(subject.shapes) do
    local large = subjects.taller(shape, storage.least)
    if large and subjects.accepts(subject.class, large) then shapes[#shapes + 1] = large end
  end
  return setmetatable({ shapes = shapes }, { __index = subject })
end

-- Whether a state of a parameter is stored in another way because of an option; those of a wrapper may be.
local function has_narrow(subject, options)
  if subject.class.step or not subject.shapes[1] then return false end
  if not subject.rule then return subject.class.update == nil end
  local slots = {}
  for _, slot in pairs(subject.rule.slots) do slots[#slots + 1] = slot end
  for _, shape in ipairs(subject.shapes) do
    for k, slot in ipairs(storage.apply(slots, shape, options)) do
      if slot.dtype ~= slots[k].dtype then return true end
    end
  end
  return false
end

-- With states of a type it falls, does the same again, and goes on after a save.
local function narrow(dtype)
  local options = { state_dtype = dtype }
  return function(subject)
    local large = dtype:find "^8bit" and enlarged(subject) or subject
    if not has_narrow(large, options) then return false, "no state is stored so" end
    local said = descent.with_options(large, options)
    runs.again(large, options)
    runs.resumed(large, options)
    return said
  end
end

--- The checks of all narrow types that containers know.
---@return table[]
function states.narrow()
  local checks = {}
  for _, dtype in ipairs(storage.settings.state_dtype.choices) do
    if dtype ~= "float32" and dtype ~= "float64" then
      checks[#checks + 1] = { key = dtype, title = "states in " .. dtype, run = narrow(dtype) }
    end
  end
  return checks
end

return states
