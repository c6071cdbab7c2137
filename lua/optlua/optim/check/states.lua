--- states: whether a class uses the states that it declares, and lives with narrow ones.
local descent = require "optlua.optim.check.descent"
local Group = require "optlua.optim.group"
local runs = require "optlua.optim.check.runs"

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

-- Whether a class has a state that is stored as narrow as the container says.
local function has_narrow(subject)
  if subject.class.step then return false end
  if not subject.rule then return subject.class.update == nil end
  for _, slot in pairs(subject.rule.slots) do
    if not (slot.dtype or slot.exact) then return true end
  end
  return false
end

-- With states of a type it falls, does the same again, and goes on after a save.
local function narrow(dtype)
  return function(subject)
    if not has_narrow(subject) then return false, "no state is stored so" end
    local options = { state_dtype = dtype }
    local said = descent.with_options(subject, options)
    runs.again(subject, options)
    runs.resumed(subject, options)
    return said
  end
end

--- The checks of all narrow types that containers know.
---@return table[]
function states.narrow()
  local checks = {}
  for _, dtype in ipairs(Group.settings.state_dtype.choices) do
    if dtype ~= "float32" and dtype ~= "float64" then
      checks[#checks + 1] = { key = dtype, title = "states in " .. dtype, run = narrow(dtype) }
    end
  end
  return checks
end

return states
